#include "runtime/bundle/bundle_annotations.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "runtime/bundle/bundle_table.h"

#define PREFIX "io.pinfold."

static const char *const names[] = {"policy", "egress", "secrets", "labels"};
enum name { POLICY };

/* "HOST:PORT HOST:PORT-PORT/udp": command lines of engines take JSON apart. It becomes JSON here, so that one
 * reader judges both. NULL: it isn't such a list. */
static const char *plain_as_json(struct pin_arena *arena, const char *text) {
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.*_-:/[] ";
    const char *json = "";
    if (strspn(text, known) != strlen(text))
        return NULL;
    for (const char *at = text + strspn(text, " "); *at != '\0'; at += strspn(at, " ")) {
        char word[512];
        size_t size = strcspn(at, " ");
        if (size >= sizeof(word))
            return NULL;
        (void)snprintf(word, sizeof(word), "%.*s", (int)size, at);
        char *udp = strstr(word, "/udp"), *port = strrchr(word, ':');
        if (udp != NULL && udp[4] == '\0')
            *udp = '\0';
        if (port == NULL || port == word || port[1] == '\0')
            return NULL;
        *port++ = '\0';
        json = pin_arena_printf(arena, "%s%s{\"to\":\"%s\",\"ports\":[\"%s\"],\"protocol\":\"%s\"}", json,
                                json[0] != '\0' ? "," : "", word, port, udp != NULL ? "udp" : "tcp");
        at += size;
    }
    return pin_arena_printf(arena, "[%s]", json);
}

static void read_json(struct pin_bundle *bundle, const struct pin_pair *annotation, const char *key,
                      struct pin_findings *found) {
    /* the value of the annotation as the member of an object: the block's own table then reads it */
    size_t size = strlen(annotation->value);
    if (size > PIN_ANNOTATION_BYTES_MAX) {
        (void)pin_find(found, PIN_ERROR_INVALID, annotation->key, NULL, "longer than %zu bytes",
                       PIN_ANNOTATION_BYTES_MAX);
        return;
    }
    struct pin_bundle_reader reader = {.arena = &bundle->arena, .found = found};
    PIN_ARENA struct pin_arena scratch = {0};
    const char *plain = strcmp(key, "egress") == 0 ? plain_as_json(&scratch, annotation->value) : NULL;
    const char *text =
        pin_arena_printf(&scratch, "{\"%s\":\n%s\n}", key, plain != NULL ? plain : annotation->value);
    char *where = pin_arena_strdup(&bundle->arena, annotation->key);
    bool json = pin_json_read(&reader.source, where, text, strlen(text), found);
    if (json && reader.source.root->count != 1) /* "{}, \"image\": …" is no value */
        (void)pin_find(found, PIN_ERROR_SYNTAX, where, NULL, "more than one JSON value");
    else if (json)
        pin_bundle_read_object(&reader, reader.source.root, &pin_bundle_ext_fields, &bundle->ext);
    pin_json_free(&reader.source);
}

static void read_policy(struct pin_bundle *bundle, const struct pin_pair *annotation,
                        struct pin_findings *found) {
    if (pin_is_name(annotation->value))
        bundle->ext.policy_name = annotation->value;
    else
        (void)pin_find(found, PIN_ERROR_INVALID, annotation->key,
                       "write the name of an installed policy, not a path", "this is no name of a policy");
}

void pin_bundle_read_annotations(struct pin_bundle *bundle, struct pin_findings *found) {
    bool block = bundle->ext.present;
    for (size_t i = 0; i < bundle->annotation_count; i++) {
        const struct pin_pair *annotation = &bundle->annotations[i];
        if (strncmp(annotation->key, PREFIX, strlen(PREFIX)) != 0)
            continue;
        int name = pin_name_find(names, PIN_COUNT(names), annotation->key + strlen(PREFIX));
        if (name < 0)
            (void)pin_find(found, PIN_ERROR_INVALID, annotation->key,
                           "io.pinfold. has policy, egress, secrets and labels",
                           "the annotation is not known");
        else if (block)
            (void)pin_find(found, PIN_ERROR_INVALID, annotation->key, "keep one of them",
                           "the bundle has a \"pinfold\" block and an annotation");
        else if (name == POLICY)
            read_policy(bundle, annotation, found);
        else
            read_json(bundle, annotation, names[name], found);
    }
}
