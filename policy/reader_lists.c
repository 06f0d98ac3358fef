#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "policy/checks.h"
#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "policy/reader.h"

#define ITEM_ROOM 256 /* an item of the largest type */

struct list_type {
    size_t size;
    bool (*read)(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                 void *item);
    bool (*same)(const void *a, const void *b); /* but for the place */
};

struct list { /* an array in the policy's arena */
    void *items;
    size_t count;
};

static bool read_string(struct pin_reader *reader, const struct pin_json *node,
                        const struct pin_field_row *row, void *to) {
    struct pin_string *item = to;
    if (row->words != NULL) {
        int index = pin_reader_word(reader, node, row->words, row->word_count);
        item->text = index < 0 ? NULL : row->words[index];
    } else {
        const char *text = pin_reader_string(reader, node);
        const char *why = text == NULL ? NULL : row->check(text, reader->site);
        char shown[96];
        if (why != NULL)
            pin_json_fault(reader->source, node, reader->found, row->example, "'%s': %s",
                           pin_escape(shown, sizeof(shown), text, strlen(text)), why);
        else if (text != NULL)
            item->text = pin_arena_strdup(&reader->policy->arena, text);
    }
    item->place = pin_json_place(reader->source, node);
    return item->text != NULL;
}

static bool same_string(const void *a, const void *b) {
    const struct pin_string *left = a, *right = b;
    return strcmp(left->text, right->text) == 0;
}

static bool same_image(const void *a, const void *b) {
    const struct pin_image_rule *left = a, *right = b;
    if (strcmp(left->pattern, right->pattern) != 0 || left->require_signature != right->require_signature ||
        left->keys.count != right->keys.count)
        return false;
    for (size_t i = 0; i < left->keys.count; i++)
        if (!same_string(&left->keys.items[i], &right->keys.items[i]))
            return false;
    return true;
}

static bool same_mount(const void *a, const void *b) {
    const struct pin_mount_rule *left = a, *right = b;
    return left->access == right->access && strcmp(left->source, right->source) == 0 &&
           strcmp(left->target, right->target) == 0;
}

static bool same_egress(const void *a, const void *b) {
    return pin_egress_same(a, b);
}

static bool same_budget(const void *a, const void *b) {
    const struct pin_egress_budget *left = a, *right = b;
    return strcmp(left->name, right->name) == 0 && pin_egress_limits_within(&left->limits, &right->limits) &&
           pin_egress_limits_within(&right->limits, &left->limits);
}

static bool same_syscall(const void *a, const void *b) {
    const struct pin_syscall_entry *left = a, *right = b;
    if (strcmp(left->name, right->name) != 0 || left->arg_count != right->arg_count)
        return false;
    for (size_t i = 0; i < left->arg_count; i++) {
        const struct pin_filter_arg *x = &left->args[i], *y = &right->args[i];
        if (x->index != y->index || x->op != y->op || x->mask != y->mask || x->value != y->value)
            return false;
    }
    return true;
}

static const struct list_type *type_of(const struct pin_field_row *row) {
    static const struct list_type strings = {sizeof(struct pin_string), read_string, same_string};
    static const struct list_type images = {sizeof(struct pin_image_rule), pin_reader_image, same_image};
    static const struct list_type mounts = {sizeof(struct pin_mount_rule), pin_reader_mount, same_mount};
    static const struct list_type egress = {sizeof(struct pin_egress_rule), pin_reader_egress, same_egress};
    static const struct list_type deny = {sizeof(struct pin_egress_rule), pin_reader_deny, same_egress};
    static const struct list_type budgets = {sizeof(struct pin_egress_budget), pin_reader_budget,
                                             same_budget};
    static const struct list_type calls = {sizeof(struct pin_syscall_entry), pin_reader_syscall,
                                           same_syscall};
    _Static_assert(sizeof(struct pin_syscall_entry) <= ITEM_ROOM, "the largest item fits");
    switch ((int)row->type) {
    case PIN_TYPE_IMAGES: return &images;
    case PIN_TYPE_MOUNTS: return &mounts;
    case PIN_TYPE_EGRESS: return &egress;
    case PIN_TYPE_DENY: return &deny;
    case PIN_TYPE_BUDGETS: return &budgets;
    case PIN_TYPE_SYSCALLS: return &calls;
    default: return &strings;
    }
}

static void *item_at(const struct list *list, const struct list_type *type, size_t index) {
    return (char *)list->items + index * type->size;
}

static size_t find(const struct list *list, const struct list_type *type, const void *item) {
    size_t i = 0;
    while (i < list->count && !type->same(item_at(list, type, i), item))
        i++;
    return i;
}

static void drop(struct list *list, const struct list_type *type, size_t index) {
    list->count--;
    memmove(item_at(list, type, index), item_at(list, type, index + 1), (list->count - index) * type->size);
}

#define HINT_LONG "patterns and ranges stand for many items"

static bool is_list(struct pin_reader *reader, const struct pin_json *node) {
    if (!json_is_array(node->value)) {
        pin_reader_expected(reader, node, "a list", "write [...], or {\"add\": [...], \"remove\": [...]}");
        return false;
    }
    if (node->count > PIN_LIST_MAX) {
        pin_json_fault(reader->source, node, reader->found, HINT_LONG, "a list has at most %d items",
                       PIN_LIST_MAX);
        return false;
    }
    return true;
}

/* An item counts once, at its first place; a mount at its last, where it lies over those before it. */
static void append(struct pin_reader *reader, const struct pin_field_row *row, struct list *list,
                   const void *item) {
    const struct list_type *type = type_of(row);
    size_t index = find(list, type, item);
    if (index < list->count && row->type != PIN_TYPE_MOUNTS)
        return;
    if (index < list->count)
        drop(list, type, index);
    memcpy(pin_arena_grow(&reader->policy->arena, &list->items, &list->count, type->size), item, type->size);
}

/* Whoever names a budget with a fault has no fault of his own. */
static bool is_named_budget(const struct pin_field_row *row, const void *item) {
    return row->type == PIN_TYPE_BUDGETS && ((const struct pin_egress_budget *)item)->name != NULL;
}

/* Appends the items of a JSON list. */
static bool add_items(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                      struct list *list) {
    const struct list_type *type = type_of(row);
    bool good = is_list(reader, node);
    for (const struct pin_json *child = good ? node->first : NULL; child != NULL; child = child->next) {
        _Alignas(max_align_t) char room[ITEM_ROOM] = {0};
        bool read = type->read(reader, child, row, room);
        if (read || is_named_budget(row, room))
            append(reader, row, list, room);
        good = good && read;
    }
    if (list->count > 2 * PIN_LIST_MAX) { /* an inherited list and an added one */
        pin_json_fault(reader->source, node, reader->found, HINT_LONG, "the list gets too long");
        return false;
    }
    return good;
}

#define NOTHING_LIKE_THIS "nothing like this is in the list that is extended"
#define HINT_REMOVE                                                                                          \
    "an item is removed only by its exact value, which 'pinfold policy show' prints for what is extended"

/* To remove what isn't there is a fault: its author believes that something was granted no longer. */
static bool remove_items(struct pin_reader *reader, const struct pin_json *node,
                         const struct pin_field_row *row, struct list *list) {
    const struct list_type *type = type_of(row);
    bool good = is_list(reader, node);
    for (const struct pin_json *child = good ? node->first : NULL; child != NULL; child = child->next) {
        _Alignas(max_align_t) char room[ITEM_ROOM] = {0};
        if (!type->read(reader, child, row, room)) {
            good = false;
            continue;
        }
        size_t index = find(list, type, room);
        if (index == list->count) {
            pin_json_fault(reader->source, child, reader->found, HINT_REMOVE, "%s", NOTHING_LIKE_THIS);
            good = false;
            continue;
        }
        drop(list, type, index);
    }
    return good;
}

static const char *const edits[] = {"add", "remove"};

/* The two edits of an object; false after a fault. */
static bool read_edits(struct pin_reader *reader, const struct pin_json *node,
                       const struct pin_json *edit[2]) {
    if (!pin_reader_members(reader, node, edits, PIN_COUNT(edits), edit))
        return false;
    if (edit[0] != NULL || edit[1] != NULL)
        return true;
    pin_json_fault(reader->source, node, reader->found, "write {\"add\": [...]}, or [] for an empty list",
                   "neither 'add' nor 'remove'");
    return false;
}

static void read_list(struct pin_reader *reader, const struct pin_json *node,
                      const struct pin_field_row *row) {
    char *base = (char *)reader->policy;
    const struct pin_json *edit[2] = {node, NULL};
    struct list list = {0};
    if (json_is_object(node->value)) {
        if (!read_edits(reader, node, edit))
            return;
        struct list old;
        memcpy(&old.items, base + row->offset, sizeof(old.items));
        memcpy(&old.count, base + row->count_offset, sizeof(old.count));
        for (size_t i = 0; i < old.count; i++) /* a copy that may grow */
            memcpy(pin_arena_grow(&reader->policy->arena, &list.items, &list.count, type_of(row)->size),
                   item_at(&old, type_of(row), i), type_of(row)->size);
    }
    bool good = edit[1] == NULL || remove_items(reader, edit[1], row, &list);
    good = (edit[0] == NULL || add_items(reader, edit[0], row, &list)) && good;
    if (!good && list.count == 0)
        return;
    /* What is good in a list with faults is judged with the rest of the file, which is refused anyway. */
    memcpy(base + row->offset, &list.items, sizeof(list.items));
    memcpy(base + row->count_offset, &list.count, sizeof(list.count));
    reader->policy->places[row->field] = pin_json_place(reader->source, node);
}

/* --- sets: lists of words that are kept as bits --- */

static void note_capability(struct pin_reader *reader, const struct pin_json *node,
                            const struct pin_field_row *row, int bit) {
    if (row->field == PIN_FIELD_CAPABILITIES)
        reader->policy->capability_places[bit] = pin_json_place(reader->source, node);
}

static bool edit_bits(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                      bool add, uint64_t *bits) {
    bool good = is_list(reader, node);
    for (const struct pin_json *child = good ? node->first : NULL; child != NULL; child = child->next) {
        int bit = pin_reader_word(reader, child, row->words, row->word_count);
        if (bit >= 0 && !add && (*bits >> bit & 1) == 0) {
            pin_json_fault(reader->source, child, reader->found, HINT_REMOVE, "%s", NOTHING_LIKE_THIS);
            bit = -1;
        }
        good = good && bit >= 0;
        if (bit < 0)
            continue;
        *bits = add ? *bits | UINT64_C(1) << bit : *bits & ~(UINT64_C(1) << bit);
        if (add)
            note_capability(reader, child, row, bit);
    }
    return good;
}

static void read_set(struct pin_reader *reader, const struct pin_json *node,
                     const struct pin_field_row *row) {
    char *slot = (char *)reader->policy + row->offset;
    const struct pin_json *edit[2] = {node, NULL};
    uint64_t bits = 0;
    uint32_t narrow = 0;
    if (json_is_object(node->value)) {
        if (!read_edits(reader, node, edit))
            return;
        memcpy(&narrow, slot, sizeof(narrow));
        bits = narrow;
        if (row->type == PIN_TYPE_SET64)
            memcpy(&bits, slot, sizeof(bits));
    }
    bool good = edit[1] == NULL || edit_bits(reader, edit[1], row, false, &bits);
    good = (edit[0] == NULL || edit_bits(reader, edit[0], row, true, &bits)) && good;
    if (!good)
        return;
    narrow = (uint32_t)bits;
    if (row->type == PIN_TYPE_SET64)
        memcpy(slot, &bits, sizeof(bits));
    else
        memcpy(slot, &narrow, sizeof(narrow));
    reader->policy->places[row->field] = pin_json_place(reader->source, node);
}

void pin_reader_list(struct pin_reader *reader, const struct pin_json *node,
                     const struct pin_field_row *row) {
    if (row->type == PIN_TYPE_SET32 || row->type == PIN_TYPE_SET64)
        read_set(reader, node, row);
    else
        read_list(reader, node, row);
}

/* --- environment.set --- */

static struct pin_variable *find_variable(struct pin_policy *policy, const char *name) {
    for (size_t i = 0; i < policy->environment.set_count; i++)
        if (strcmp(policy->environment.set[i].name, name) == 0)
            return &policy->environment.set[i];
    return NULL;
}

static void remove_variable(struct pin_policy *policy, struct pin_variable *variable) {
    size_t index = (size_t)(variable - policy->environment.set);
    policy->environment.set_count--;
    memmove(variable, variable + 1, (policy->environment.set_count - index) * sizeof(*variable));
}

static void set_variable(struct pin_reader *reader, const struct pin_json *node) {
    struct pin_policy *policy = reader->policy;
    struct pin_variable *variable = find_variable(policy, node->key);
    const char *why = pin_check_variable(node->key, false);
    if (why != NULL) {
        pin_json_fault_key(reader->source, node, reader->found, "such as 'TZ'", "%s", why);
    } else if (json_is_null(node->value)) {
        if (variable != NULL)
            remove_variable(policy, variable);
        else
            pin_json_fault(reader->source, node, reader->found, "leave it out, or give it a value",
                           "no such variable is set by what is extended");
    } else if (!json_is_string(node->value)) {
        pin_reader_expected(reader, node, "a string",
                            "write it in double quotes, or null to take the variable away");
    } else {
        if (variable == NULL) {
            variable = pin_arena_grow(&policy->arena, &policy->environment.set,
                                      &policy->environment.set_count, sizeof(*variable));
            variable->name = pin_arena_strdup(&policy->arena, node->key);
        }
        variable->value = pin_arena_strdup(&policy->arena, json_string_value(node->value));
        variable->place = pin_json_place(reader->source, node);
    }
}

/* Merges by name: a policy changes the variables that it names and keeps the others. */
void pin_reader_variables(struct pin_reader *reader, const struct pin_json *node,
                          const struct pin_field_row *row) {
    if (!json_is_object(node->value)) {
        pin_reader_expected(reader, node, "an object", "write {\"NAME\": \"value\"}");
        return;
    }
    if (node->count + reader->policy->environment.set_count > 2 * PIN_LIST_MAX) {
        pin_json_fault(reader->source, node, reader->found, "a program can read more from a file",
                       "more than %d variables", PIN_LIST_MAX);
        return;
    }
    struct pin_variable *before = reader->policy->environment.set;
    struct pin_variable *copy = NULL; /* one that pin_arena_grow() can go on with */
    size_t count = 0;
    for (size_t i = 0; i < reader->policy->environment.set_count; i++)
        *(struct pin_variable *)pin_arena_grow(&reader->policy->arena, &copy, &count, sizeof(*copy)) =
            before[i];
    reader->policy->environment.set = copy;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next)
        if (child->value != NULL)
            set_variable(reader, child);
    reader->policy->places[row->field] = pin_json_place(reader->source, node);
}
