#include "policy/policy_snapshot.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "policy/buffer.h"
#include "policy/grants.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"

static void add_place(void *context, const char *pointer, const char *value, const struct pin_place *place) {
    char text[PIN_PLACE_TEXT];
    (void)value;
    (void)json_object_set_new(context, pointer, json_string(pin_place_print(text, place)));
}

json_t *pin_policy_snapshot(const struct pin_policy *policy) {
    PIN_BUFFER struct pin_buffer text = {0};
    json_t *places = json_object();
    pin_policy_write(policy, &text);
    for (int i = 0; i < PIN_FIELD_COUNT; i++)
        add_place(places, pin_field_pointer((enum pin_field)i), NULL, &policy->places[i]);
    pin_policy_each_grant(policy, add_place, places);
    return json_pack("{s:o, s:o}", "policy", json_loadb(text.data, text.size, 0, NULL), "places", places);
}

struct restore {
    struct pin_policy *policy;
    const json_t *places;
};

/* "file:12:3", or a word without a line. */
static struct pin_place parse_place(struct pin_policy *policy, const char *text) {
    char *file = pin_arena_strdup(&policy->arena, text);
    char *column = strrchr(file, ':'), *line = NULL;
    if (column != NULL) {
        *column = '\0';
        line = strrchr(file, ':');
        *column = ':';
    }
    if (line == NULL || line[1] < '1' || line[1] > '9')
        return (struct pin_place){.file = file};
    *line = '\0';
    return (struct pin_place){file, (uint32_t)strtoul(line + 1, NULL, 10),
                              (uint32_t)strtoul(column + 1, NULL, 10)};
}

/* The places that the visitor is shown are the policy's own, which is ours. */
static void restore_place(void *context, const char *pointer, const char *value,
                          const struct pin_place *place) {
    struct restore *restore = context;
    const char *text = json_string_value(json_object_get(restore->places, pointer));
    (void)value;
    if (text != NULL)
        *(struct pin_place *)(uintptr_t)place = parse_place(restore->policy, text);
}

struct pin_policy *pin_policy_from_snapshot(const json_t *snapshot, const char *file,
                                            struct pin_findings *found) {
    PIN_FREE char *text = json_dumps(json_object_get(snapshot, "policy"), 0);
    if (text == NULL) {
        (void)pin_find(found, PIN_ERROR_SYNTAX, file, NULL, "this is no snapshot of a policy");
        return NULL;
    }
    struct pin_policy *policy = pin_policy_parse(file, text, strlen(text), found);
    if (policy == NULL)
        return NULL;
    struct restore restore = {policy, json_object_get(snapshot, "places")};
    for (int i = 0; i < PIN_FIELD_COUNT; i++)
        restore_place(&restore, pin_field_pointer((enum pin_field)i), NULL, &policy->places[i]);
    pin_policy_each_grant(policy, restore_place, &restore);
    return policy;
}
