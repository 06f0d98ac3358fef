#include "policy/reader.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"

static const struct pin_field_row *row_of(const struct pin_field_object *object, const char *key) {
    for (size_t i = 0; i < object->count; i++)
        if (strcmp(object->rows[i].key, key) == 0)
            return &object->rows[i];
    return NULL;
}

void pin_reader_expected(struct pin_reader *reader, const struct pin_json *node, const char *what,
                         const char *hint) {
    if (node->value != NULL) /* else it stands under a duplicate key, which has been said */
        pin_json_fault(reader->source, node, reader->found, hint, "expected %s, found %s", what,
                       pin_json_type_name(node->value));
}

bool pin_reader_missing(struct pin_reader *reader, const struct pin_json *node, const char *key) {
    char hint[64];
    if (node->cut)
        return false;
    (void)snprintf(hint, sizeof(hint), "add \"%s\": ...", key);
    pin_json_fault(reader->source, node, reader->found, hint, "the key '%s' is missing", key);
    return false;
}

/* The object below `object` in which a field of this key stands, as "/filesystem"; "" for none. */
static void find_home(char *to, size_t room, const struct pin_field_object *object, const char *key) {
    for (size_t i = 0; i < object->count && *to == '\0'; i++) {
        const struct pin_field_row *row = &object->rows[i];
        if (row->type != PIN_TYPE_OBJECT)
            continue;
        char below[64] = "";
        if (row_of(row->object, key) == NULL)
            find_home(below, sizeof(below), row->object, key);
        if (below[0] != '\0' || row_of(row->object, key) != NULL)
            (void)snprintf(to, room, "/%s%s", row->key, below);
    }
}

static void list_keys(char *to, size_t room, const char *const *keys, size_t count) {
    int used = snprintf(to, room, "known here: ");
    for (size_t i = 0; i < count; i++) {
        size_t left = room - (size_t)used;
        if (strlen(keys[i]) + sizeof(", ...") > left) { /* the last one has always left room for it */
            (void)snprintf(to + used, left, "...");
            return;
        }
        used += snprintf(to + used, left, "%s%s", keys[i], i + 1 < count ? ", " : "");
    }
}

/* Says that a key isn't known, and which one is near, where else in a policy it stands, or which are known.
 */
static void unknown_key(struct pin_reader *reader, const struct pin_json *node, const char *const *keys,
                        size_t count) {
    char key[64], home[64] = "", hint[sizeof(reader->found->list[0].hint)];
    (void)pin_escape(key, sizeof(key), node->key, strlen(node->key));
    const char *near = pin_name_suggest(keys, count, node->key);
    find_home(home, sizeof(home), &pin_policy_fields, node->key);
    if (row_of(&pin_policy_fields, node->key) != NULL)
        (void)snprintf(hint, sizeof(hint), "'%s' stands at the top of a policy", key);
    else if (home[0] != '\0')
        (void)snprintf(hint, sizeof(hint), "'%s' stands in '%s'", key, home);
    else if (near != NULL)
        (void)snprintf(hint, sizeof(hint), "did you mean '%s'?", near);
    else
        list_keys(hint, sizeof(hint), keys, count);
    pin_json_fault_key(reader->source, node, reader->found, hint, "unknown key '%s'", key);
}

bool pin_reader_members(struct pin_reader *reader, const struct pin_json *node, const char *const *keys,
                        size_t count, const struct pin_json **members) {
    for (size_t i = 0; i < count; i++)
        members[i] = NULL;
    if (!json_is_object(node->value)) {
        pin_reader_expected(reader, node, "an object", PIN_HINT_OBJECT);
        return false;
    }
    bool good = true;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        int index = pin_name_find(keys, count, child->key);
        if (index < 0)
            unknown_key(reader, child, keys, count);
        else if (child->value != NULL)
            members[index] = child;
        good = good && index >= 0 && child->value != NULL;
    }
    return good;
}

static void unknown_field(struct pin_reader *reader, const struct pin_json *node,
                          const struct pin_field_object *object) {
    const char *keys[24];
    size_t count = 0;
    for (; count < object->count && count < PIN_COUNT(keys); count++)
        keys[count] = object->rows[count].key;
    unknown_key(reader, node, keys, count);
}

static void apply_object(struct pin_reader *reader, const struct pin_json *node,
                         const struct pin_field_object *object);

static void apply_field(struct pin_reader *reader, const struct pin_json *node,
                        const struct pin_field_row *row) {
    switch (row->type) {
    case PIN_TYPE_OBJECT: apply_object(reader, node, row->object); return;
    case PIN_TYPE_EXTENDS: return; /* read before */
    case PIN_TYPE_VARIABLES: pin_reader_variables(reader, node, row); return;
    case PIN_TYPE_SET32:
    case PIN_TYPE_SET64:
    case PIN_TYPE_STRINGS:
    case PIN_TYPE_IMAGES:
    case PIN_TYPE_MOUNTS:
    case PIN_TYPE_EGRESS:
    case PIN_TYPE_DENY:
    case PIN_TYPE_BUDGETS:
    case PIN_TYPE_SYSCALLS: pin_reader_list(reader, node, row); return;
    case PIN_TYPE_VERSION:
    case PIN_TYPE_NAME:
    case PIN_TYPE_TEXT:
    case PIN_TYPE_SIZE:
    case PIN_TYPE_TIME:
    case PIN_TYPE_COUNT:
    case PIN_TYPE_ID:
    case PIN_TYPE_CPUS:
    case PIN_TYPE_FLAG:
    case PIN_TYPE_CHOICE:
    case PIN_TYPE_STRING:
    case PIN_TYPE_WORD: pin_reader_value(reader, node, row); return;
    }
}

static void apply_object(struct pin_reader *reader, const struct pin_json *node,
                         const struct pin_field_object *object) {
    if (!json_is_object(node->value)) {
        pin_reader_expected(reader, node, "an object", PIN_HINT_OBJECT);
        return;
    }
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        const struct pin_field_row *row = row_of(object, child->key);
        if (row == NULL)
            unknown_field(reader, child, object);
        else if (child->value != NULL)
            apply_field(reader, child, row);
    }
}

void pin_reader_apply(struct pin_reader *reader) {
    const struct pin_json *root = reader->source->root;
    if (json_is_object(root->value) && !root->cut && pin_json_member(root, "pinfold") == NULL)
        pin_json_fault(reader->source, root, reader->found, "start with {\"pinfold\": 1, ...",
                       "the key 'pinfold' is missing");
    apply_object(reader, root, &pin_policy_fields);
}
