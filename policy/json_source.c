#include "policy/json_source.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"
#include "policy/json_walk.h"

static const char *const type_names[] = {
    [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
    [JSON_INTEGER] = "an integer", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
    [JSON_FALSE] = "false",        [JSON_NULL] = "null",
};

const char *pin_json_type_name(const json_t *value) {
    return value == NULL ? "nothing" : type_names[json_typeof(value)];
}

void pin_json_where(char *to, size_t room, const char *file, uint32_t line, uint32_t column,
                    const char *pointer) {
    char tail[112];
    int length = line == 0 ? snprintf(tail, sizeof(tail), " %s", pointer)
                           : snprintf(tail, sizeof(tail), ":%u:%u %s", line, column, pointer);
    size_t used = length < 0 ? 0 : (size_t)length < sizeof(tail) ? (size_t)length : sizeof(tail) - 1;
    while (used > 0 && tail[used - 1] == ' ') /* the pointer of the whole document is "" */
        tail[--used] = '\0';
    size_t name = strlen(file), space = room > used + 1 ? room - used - 1 : 0;
    if (name <= space)
        (void)snprintf(to, room, "%s%s", file, tail);
    else
        (void)snprintf(to, room, "...%s%s", file + name - (space > 3 ? space - 3 : 0), tail);
}

/* The JSON pointer of a node (RFC 6901), from its end to its start; what doesn't fit is cut in front. */
static const char *pointer_of(const struct pin_json *node, char *room, size_t size) {
    char *at = room + size - 1;
    *at = '\0';
    for (; node->parent != NULL; node = node->parent) {
        char part[80], number[24], escaped[160];
        (void)snprintf(number, sizeof(number), "%zu", node->index);
        const char *key = node->key != NULL ? node->key : number;
        (void)pin_escape(part, sizeof(part), key, strlen(key));
        size_t used = 0;
        for (const char *c = part; *c != '\0'; c++) {
            if (*c == '~' || *c == '/') {
                escaped[used++] = '~';
                escaped[used++] = *c == '~' ? '0' : '1';
            } else {
                escaped[used++] = *c;
            }
        }
        if ((size_t)(at - room) < used + 1)
            return at;
        at -= used;
        memcpy(at, escaped, used);
        *--at = '/';
    }
    return at;
}

void pin_json_where_is(char *to, size_t room, const struct pin_json_source *source,
                       const struct pin_json *node) {
    char pointer[96];
    pin_json_where(to, room, source->file, node->line, node->column,
                   pointer_of(node, pointer, sizeof(pointer)));
}

static void find(const struct pin_json_source *source, const struct pin_json *node, uint32_t line,
                 uint32_t column, struct pin_findings *found, enum pin_error_kind kind, const char *hint,
                 const char *message) {
    char pointer[96], where[sizeof(found->list[0].pointer)];
    pin_json_where(where, sizeof(where), source->file, line, column,
                   pointer_of(node, pointer, sizeof(pointer)));
    (void)pin_find(found, kind, where, hint, "%s", message);
}

void pin_json_fault_text(const struct pin_json_source *source, const struct pin_json *node, uint32_t line,
                         uint32_t column, struct pin_findings *found, const char *hint, const char *message) {
    find(source, node, line, column, found, PIN_ERROR_SYNTAX, hint, message);
}

void pin_json_fault(const struct pin_json_source *source, const struct pin_json *node,
                    struct pin_findings *found, const char *hint, const char *format, ...) {
    char message[sizeof(found->list[0].message)];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    find(source, node, node->line, node->column, found, PIN_ERROR_INVALID, hint, message);
}

void pin_json_fault_key(const struct pin_json_source *source, const struct pin_json *node,
                        struct pin_findings *found, const char *hint, const char *format, ...) {
    char message[sizeof(found->list[0].message)];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    find(source, node, node->key_line, node->key_column, found, PIN_ERROR_INVALID, hint, message);
}

const struct pin_json *pin_json_member(const struct pin_json *object, const char *key) {
    const struct pin_json *child = json_is_object(object->value) ? object->first : NULL;
    while (child != NULL && strcmp(child->key, key) != 0)
        child = child->next;
    return child;
}

struct pin_place pin_json_place(const struct pin_json_source *source, const struct pin_json *node) {
    return (struct pin_place){source->file, node->line, node->column};
}

static void seed_hashes(void) {
    unsigned seed = 0; /* 0 lets jansson open /dev/urandom, which costs more */
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed))
        json_object_seed(seed); /* counts only before the first object */
}

/* Every further occurrence of a key is a finding, and none of them gets a value. */
static void find_duplicates(struct pin_json_source *source, struct pin_json *object, json_t *twice,
                            struct pin_findings *found) {
    json_t *first = json_object();
    for (struct pin_json *child = object->first; child != NULL; child = child->next) {
        json_t *line = json_object_get(first, child->key);
        if (line == NULL) {
            (void)json_object_set_new(first, child->key, json_integer(child->key_line));
            continue;
        }
        char key[64];
        (void)pin_escape(key, sizeof(key), child->key, strlen(child->key));
        pin_json_fault_key(source, child, found, "keep one of them",
                           "the key '%s' stands twice; first on line %lld", key,
                           (long long)json_integer_value(line));
        (void)json_object_set_new(twice, child->key, json_true());
    }
    json_decref(first);
}

/* `value` is NULL where the text has a fault there. */
static void attach(struct pin_json_source *source, struct pin_json *node, json_t *value, unsigned depth,
                   struct pin_findings *found) {
    node->value = depth <= PIN_JSON_DEPTH_MAX ? value : NULL;
    if (json_is_array(node->value)) {
        for (struct pin_json *child = node->first; child != NULL; child = child->next)
            attach(source, child, json_array_get(value, child->index), depth + 1, found);
        return;
    }
    if (!json_is_object(node->value))
        return;
    json_t *twice = NULL;
    if (node->count != json_object_size(value)) {
        twice = json_object();
        find_duplicates(source, node, twice, found);
    }
    for (struct pin_json *child = node->first; child != NULL; child = child->next)
        if (json_object_get(twice, child->key) == NULL)
            attach(source, child, json_object_get(value, child->key), depth + 1, found);
    json_decref(twice);
}

bool pin_json_read(struct pin_json_source *source, const char *file, const char *text, size_t size,
                   struct pin_findings *found) {
    json_error_t said;
    size_t before = found->count + found->dropped;
    source->file = file;
    seed_hashes();
    source->tree = json_loadb(text, size, 0, &said);
    bool refused = source->tree == NULL;
    bool readable = pin_json_walk(source, text, size, refused, found);
    if (refused && found->count + found->dropped == before) /* a fault that the walk doesn't know */
        pin_json_fault_text(source, source->root, (uint32_t)said.line, (uint32_t)said.column, found, NULL,
                            "not JSON");
    if (readable)
        attach(source, source->root, source->tree, 0, found);
    return readable;
}

void pin_json_free(struct pin_json_source *source) {
    json_decref(source->tree);
    source->tree = NULL;
    pin_arena_free(&source->arena);
}
