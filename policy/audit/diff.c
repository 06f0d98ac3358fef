#include "policy/audit/diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "policy/audit/diff_parts.h"
#include "policy/policy_order.h"
#include "policy/policy_write.h"

static const char *const kind_names[] = {
    [PIN_CHANGE_WIDER] = "wider",
    [PIN_CHANGE_NARROWER] = "narrower",
    [PIN_CHANGE_OTHER] = "other",
};
_Static_assert(PIN_COUNT(kind_names) == PIN_CHANGE_KIND_COUNT, "every kind has a name");

void pin_diff_add(const struct pin_diff_side *side, const char *pointer, const struct pin_place *place,
                  const char *text) {
    struct pin_diff *diff = side->diff;
    struct pin_change *change =
        pin_arena_grow(&diff->arena, &diff->changes, &diff->count, sizeof(*diff->changes));
    *change = (struct pin_change){side->kind, pointer, text, *place};
}

/* --- single values --- */

/* The policy without its lists and capabilities: a shallow copy that only the order looks at. */
static struct pin_policy without_lists(const struct pin_policy *policy) {
    struct pin_policy bare = *policy;
    bare.image_count = bare.filesystem.write.count = bare.filesystem.mount_count = 0;
    bare.network.egress_count = bare.network.deny_count = bare.network.budget_count = 0;
    bare.syscalls.allow_count = bare.syscalls.deny_count = 0;
    bare.environment.pass.count = bare.environment.refuse.count = bare.environment.set_count = 0;
    bare.secrets.count = bare.audit.record.count = bare.audit.require_labels.count = 0;
    bare.audit.labels_secrets.count = bare.audit.labels_egress.count = bare.audit.labels_privileged.count = 0;
    bare.capabilities = 0;
    return bare;
}

static size_t size_of(const struct pin_field_row *row) {
    switch ((int)row->type) {
    case PIN_TYPE_FLAG: return sizeof(bool);
    case PIN_TYPE_ID:
    case PIN_TYPE_CPUS:
    case PIN_TYPE_SET32: return sizeof(uint32_t);
    case PIN_TYPE_CHOICE: return sizeof(enum pin_access);
    default: return sizeof(uint64_t);
    }
}
_Static_assert(sizeof(enum pin_access) == sizeof(enum pin_on_cap), "choices are of one size");

/* Whether the field of `to`, in a policy that is else `from`, is more: the order itself is asked. */
static bool is_more(const struct pin_policy *from, const struct pin_policy *to,
                    const struct pin_field_row *row) {
    struct pin_policy before = without_lists(from), after = before;
    struct pin_findings found = {0};
    memcpy((char *)&after + row->offset, (const char *)to + row->offset, size_of(row));
    return !pin_policy_narrower(&after, &before, &found);
}

static void compare_value(const struct pin_diff_side *side, const struct pin_field_row *row) {
    const struct pin_policy *from = side->from->policy, *to = side->to->policy;
    struct pin_arena *arena = &side->diff->arena;
    if (memcmp((const char *)from + row->offset, (const char *)to + row->offset, size_of(row)) == 0 ||
        !is_more(from, to, row))
        return;
    bool up = side->kind == PIN_CHANGE_WIDER;
    const char *was = pin_policy_value_text(arena, up ? from : to, row->field);
    const char *is = pin_policy_value_text(arena, up ? to : from, row->field);
    const struct pin_policy *b = up ? to : from;
    pin_diff_add(side, pin_field_pointer(row->field), &b->places[row->field],
                 pin_arena_printf(arena, "%s: %s, was %s", pin_field_pointer(row->field) + 1, is, was));
}

static void compare_values(const struct pin_diff_side *side, const struct pin_field_object *object) {
    for (size_t i = 0; i < object->count; i++) {
        const struct pin_field_row *row = &object->rows[i];
        switch (row->type) {
        case PIN_TYPE_OBJECT: compare_values(side, row->object); break;
        case PIN_TYPE_STRING:
        case PIN_TYPE_SIZE:
        case PIN_TYPE_TIME:
        case PIN_TYPE_COUNT:
        case PIN_TYPE_ID:
        case PIN_TYPE_CPUS:
        case PIN_TYPE_FLAG:
        case PIN_TYPE_CHOICE:
        case PIN_TYPE_SET32: compare_value(side, row); break;
        case PIN_TYPE_VERSION:
        case PIN_TYPE_EXTENDS:
        case PIN_TYPE_NAME:
        case PIN_TYPE_TEXT:
        case PIN_TYPE_WORD:
        case PIN_TYPE_SET64:
        case PIN_TYPE_STRINGS:
        case PIN_TYPE_IMAGES:
        case PIN_TYPE_MOUNTS:
        case PIN_TYPE_EGRESS:
        case PIN_TYPE_DENY:
        case PIN_TYPE_BUDGETS:
        case PIN_TYPE_SYSCALLS:
        case PIN_TYPE_VARIABLES: break; /* elsewhere */
        }
    }
}

static void compare_capabilities(const struct pin_diff_side *side) {
    const struct pin_policy *from = side->from->policy, *to = side->to->policy;
    for (unsigned i = 0; i < PIN_CAPABILITY_COUNT; i++) {
        if ((to->capabilities >> i & 1) == 0 || (from->capabilities >> i & 1) != 0)
            continue;
        const struct pin_place *own = &to->capability_places[i];
        pin_diff_add(side, pin_field_pointer(PIN_FIELD_CAPABILITIES),
                     own->file != NULL ? own : &to->places[PIN_FIELD_CAPABILITIES],
                     pin_arena_printf(&side->diff->arena, "capability %s", pin_capability_name(i)));
    }
}

/* --- variables: another value is no wider one --- */

static const struct pin_variable *find_variable(const struct pin_policy *policy, const char *name) {
    for (size_t i = 0; i < policy->environment.set_count; i++)
        if (strcmp(policy->environment.set[i].name, name) == 0)
            return &policy->environment.set[i];
    return NULL;
}

static void compare_variables(const struct pin_diff_side *side, bool values) {
    const struct pin_policy *to = side->to->policy;
    struct pin_arena *arena = &side->diff->arena;
    const struct pin_diff_side other = {side->diff, side->from, side->to, PIN_CHANGE_OTHER};
    for (size_t i = 0; i < to->environment.set_count; i++) {
        const struct pin_variable *now = &to->environment.set[i],
                                  *was = find_variable(side->from->policy, now->name);
        const char *what = was == NULL ? (values ? "is set" : "is set no more")
                           : values && strcmp(was->value, now->value) != 0 ? "has another value"
                                                                           : NULL;
        if (what != NULL)
            pin_diff_add(&other, pin_arena_printf(arena, "/environment/set/%s", now->name), &now->place,
                         pin_arena_printf(arena, "variable %s %s", now->name, what));
    }
}

/* --- the whole --- */

static bool has_kind(const struct pin_diff *diff, enum pin_change_kind kind) {
    for (size_t i = 0; i < diff->count; i++)
        if (diff->changes[i].kind == kind)
            return true;
    return false;
}

/* The order's word counts. Should it see more than the lists above, its own findings say what. */
static bool compare_side(const struct pin_diff_side *side) {
    struct pin_findings found = {0};
    compare_values(side, &pin_policy_fields);
    compare_capabilities(side);
    pin_diff_lists(side);
    pin_diff_calls(side);
    if (pin_policy_narrower(side->to->policy, side->from->policy, &found))
        return false;
    for (size_t i = 0; i < found.count && !has_kind(side->diff, side->kind); i++)
        pin_diff_add(side, pin_arena_strdup(&side->diff->arena, found.list[i].pointer),
                     &(struct pin_place){.file = side->to->policy->name},
                     pin_arena_strdup(&side->diff->arena, found.list[i].message));
    return true;
}

void pin_diff_make(struct pin_diff *diff, const struct pin_reach *a, const struct pin_reach *b) {
    const struct pin_diff_side up = {diff, a, b, PIN_CHANGE_WIDER};
    const struct pin_diff_side down = {diff, b, a, PIN_CHANGE_NARROWER};
    diff->wider = compare_side(&up);
    diff->narrower = compare_side(&down);
    compare_variables(&up, true);
    compare_variables(&down, false);
}

void pin_diff_free(struct pin_diff *diff) {
    pin_arena_free(&diff->arena);
}

static const char *verdict_of(const struct pin_diff *diff) {
    if (diff->wider && diff->narrower)
        return "wider in some things, narrower in others";
    if (diff->wider)
        return "wider";
    return diff->narrower ? "narrower" : "equal";
}

void pin_diff_print(struct pin_buffer *to, const struct pin_diff *diff, const char *a, const char *b) {
    static const char *const titles[] = {
        [PIN_CHANGE_WIDER] = "becomes possible",
        [PIN_CHANGE_NARROWER] = "becomes impossible",
        [PIN_CHANGE_OTHER] = "is different",
    };
    static const char signs[] = {'+', '-', '~'};
    for (int kind = 0; kind < PIN_CHANGE_KIND_COUNT; kind++) {
        if (!has_kind(diff, (enum pin_change_kind)kind))
            continue;
        pin_buffer_printf(to, "%s:\n", titles[kind]);
        for (size_t i = 0; i < diff->count; i++) {
            const struct pin_change *change = &diff->changes[i];
            char place[PIN_PLACE_TEXT];
            if ((int)change->kind == kind)
                pin_buffer_printf(to, "  %c %s  (%s)\n", signs[kind], change->text,
                                  pin_place_print(place, &change->place));
        }
    }
    pin_buffer_printf(to, "'%s' against '%s': %s\n", b, a, verdict_of(diff));
}

json_t *pin_diff_json(const struct pin_diff *diff) {
    json_t *list = json_array();
    for (size_t i = 0; i < diff->count; i++) {
        const struct pin_change *change = &diff->changes[i];
        char place[PIN_PLACE_TEXT];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "kind", kind_names[change->kind],
                                              "pointer", change->pointer, "text", change->text, "place",
                                              pin_place_print(place, &change->place)));
    }
    return json_pack("{s:b, s:b, s:b, s:o}", "equal", !diff->wider && !diff->narrower, "wider", diff->wider,
                     "narrower", diff->narrower, "changes", list);
}
