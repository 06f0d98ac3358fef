#include "policy/policy_order.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "policy/covers.h"
#include "policy/egress_rule.h"
#include "policy/grants.h"
#include "policy/order_egress.h"
#include "policy/order_mounts.h"
#include "policy/order_syscalls.h"
#include "policy/policy_write.h"
#include "policy/port_set.h"

struct compare {
    const struct pin_policy *inner, *outer;
    struct pin_findings *found;
    struct pin_arena *arena;
    bool narrower;
};

#define VALUE_SHOWN 110 /* bytes of a value in a message */

/* The front of a long path is cut, never the line. */
static void ceiling_hint(char *hint, size_t room, const struct pin_place *place) {
    char text[PIN_PLACE_TEXT];
    size_t length = strlen(pin_place_print(text, place)), most = room - 24;
    const char *shown = length > most ? text + length - most + 3 : text;
    (void)snprintf(hint, room, "the ceiling is at %s%.*s", length > most ? "..." : "", (int)most, shown);
}

__attribute__((format(printf, 4, 5))) static void wider(struct compare *compare, const char *pointer,
                                                        const struct pin_place *ceiling, const char *format,
                                                        ...) {
    char message[sizeof(compare->found->list[0].message)], hint[sizeof(compare->found->list[0].hint)];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    ceiling_hint(hint, sizeof(hint), ceiling);
    (void)pin_find(compare->found, PIN_ERROR_REFUSED, pointer, hint, "%s", message);
    compare->narrower = false;
}

/* --- single values --- */

static uint64_t number_of(const struct pin_policy *policy, const struct pin_field_row *row) {
    const char *slot = (const char *)policy + row->offset;
    uint64_t wide;
    uint32_t narrow = 0;
    switch ((int)row->type) {
    case PIN_TYPE_SIZE:
    case PIN_TYPE_TIME:
    case PIN_TYPE_COUNT:
    case PIN_TYPE_SET64: memcpy(&wide, slot, sizeof(wide)); return wide;
    case PIN_TYPE_FLAG: memcpy(&narrow, slot, sizeof(bool)); return narrow;
    case PIN_TYPE_CPUS: memcpy(&narrow, slot, sizeof(narrow)); return narrow == 0 ? PIN_UNLIMITED : narrow;
    default: memcpy(&narrow, slot, sizeof(narrow)); return narrow;
    }
}

typedef bool number_order(uint64_t inner, uint64_t outer);

static bool at_most(uint64_t inner, uint64_t outer) {
    return inner <= outer;
}

static bool at_least(uint64_t inner, uint64_t outer) {
    return inner >= outer;
}

static bool subset(uint64_t inner, uint64_t outer) {
    return (inner & ~outer) == 0;
}

/* Who may be root may be anybody. */
static bool same_id(uint64_t inner, uint64_t outer) {
    return inner == outer || outer == 0;
}

static number_order *order_of(const struct pin_field_row *row) {
    if (row->type == PIN_TYPE_SET32 || row->type == PIN_TYPE_SET64)
        return subset;
    switch ((int)row->field) {
    case PIN_FIELD_USER:
    case PIN_FIELD_GROUP: return same_id;
    case PIN_FIELD_AUDIT_SYNC:
    case PIN_FIELD_UNKNOWN_NAMES:
    case PIN_FIELD_ON_OUTPUT_CAP:
    case PIN_FIELD_SYSCALLS_ON_DENY: return at_least; /* the later word is the harder one */
    default: return at_most;
    }
}

static void wider_value(struct compare *compare, const struct pin_field_row *row) {
    wider(compare, pin_field_pointer(row->field), &compare->outer->places[row->field],
          "asks for %.*s, and '%s' grants %.*s", VALUE_SHOWN,
          pin_policy_value_text(compare->arena, compare->inner, row->field), compare->outer->name,
          VALUE_SHOWN, pin_policy_value_text(compare->arena, compare->outer, row->field));
}

/* Nothing is less than another way out: it is the same, or the ceiling leaves it open. */
static void compare_string(struct compare *compare, const struct pin_field_row *row) {
    const char *inner, *outer;
    memcpy(&inner, (const char *)compare->inner + row->offset, sizeof(inner));
    memcpy(&outer, (const char *)compare->outer + row->offset, sizeof(outer));
    if (outer != NULL && (inner == NULL || strcmp(inner, outer) != 0))
        wider_value(compare, row);
}

static void compare_value(struct compare *compare, const struct pin_field_row *row) {
    if (order_of(row)(number_of(compare->inner, row), number_of(compare->outer, row)))
        return;
    wider_value(compare, row);
}

/* --- lists --- */

static void not_granted(struct compare *compare, const struct pin_field_row *row, size_t index,
                        const void *item) {
    char pointer[64];
    (void)snprintf(pointer, sizeof(pointer), "%s/%zu", pin_field_pointer(row->field), index);
    wider(compare, pointer, &compare->outer->places[row->field], "asks for %.*s, which '%s' does not grant",
          VALUE_SHOWN, pin_policy_item_text(compare->arena, row->field, item), compare->outer->name);
}

static void not_kept(struct compare *compare, const struct pin_field_row *row, const void *item) {
    wider(compare, pin_field_pointer(row->field), pin_policy_item_place(row->field, item),
          "lacks %.*s, which '%s' demands", VALUE_SHOWN,
          pin_policy_item_text(compare->arena, row->field, item), compare->outer->name);
}

/* Of a list that grants, the inner one has no more. */
static void compare_grants(struct compare *compare, const struct pin_field_row *row) {
    struct pin_list inner = pin_list_of(compare->inner, row), outer = pin_list_of(compare->outer, row);
    for (size_t i = 0; i < inner.count; i++)
        if (!pin_is_covered(&outer, pin_covers_of(row), pin_list_at(&inner, i)))
            not_granted(compare, row, i, pin_list_at(&inner, i));
}

/* Of a list that refuses or demands, the inner one has no less. */
static void compare_demands(struct compare *compare, const struct pin_field_row *row) {
    struct pin_list inner = pin_list_of(compare->inner, row), outer = pin_list_of(compare->outer, row);
    for (size_t i = 0; i < outer.count; i++)
        if (!pin_is_covered(&inner, pin_covers_of(row), pin_list_at(&outer, i)))
            not_kept(compare, row, pin_list_at(&outer, i));
}

/* What of the rule's ports the list doesn't give; the rule's copy has them. */
static bool ports_missing(struct compare *compare, const struct pin_list *list, struct pin_egress_rule *rule,
                          pin_covers *covers) {
    const struct pin_egress_rule *rules = (const struct pin_egress_rule *)(const void *)list->items;
    struct pin_port_set asked = {rule->ports, rule->port_count};
    struct pin_port_set given = pin_port_set_given(compare->arena, rules, list->count, rule, covers);
    struct pin_port_set left = pin_port_set_minus(compare->arena, &asked, &given);
    rule->ports = left.ranges;
    rule->port_count = left.count;
    return left.count > 0;
}

static void compare_egress(struct compare *compare, const struct pin_field_row *row) {
    struct pin_list inner = pin_list_of(compare->inner, row), outer = pin_list_of(compare->outer, row);
    for (size_t i = 0; i < inner.count; i++) {
        struct pin_egress_rule rule = *(const struct pin_egress_rule *)pin_list_at(&inner, i);
        if (ports_missing(compare, &outer, &rule, pin_covers_of(row)))
            not_granted(compare, row, i, &rule);
    }
}

static void compare_deny(struct compare *compare, const struct pin_field_row *row) {
    struct pin_list inner = pin_list_of(compare->inner, row), outer = pin_list_of(compare->outer, row);
    for (size_t i = 0; i < outer.count; i++) {
        struct pin_egress_rule rule = *(const struct pin_egress_rule *)pin_list_at(&outer, i);
        if (ports_missing(compare, &inner, &rule, pin_covers_of(row)))
            not_kept(compare, row, &rule);
    }
}

/* Granted one by one, and yet not under the terms that count there. */
static void compare_terms(struct compare *compare, const struct pin_field_row *row) {
    size_t count;
    const size_t *freer = pin_egress_freer(compare->arena, compare->inner, compare->outer, &count);
    for (size_t i = 0; i < count; i++) {
        char pointer[64];
        (void)snprintf(pointer, sizeof(pointer), "%s/%zu", pin_field_pointer(row->field), freer[i]);
        wider(compare, pointer, &compare->outer->places[row->field],
              "asks for %.*s, which other rules of '%s' hold to other terms", VALUE_SHOWN,
              pin_policy_item_text(compare->arena, row->field, &compare->inner->network.egress[freer[i]]),
              compare->outer->name);
    }
}

/* Granted one by one, and yet more of the host than those of the ceiling let through one another. */
static void compare_mounts(struct compare *compare, const struct pin_field_row *row) {
    size_t count;
    struct pin_mount_excess *more = pin_mounts_excess(compare->arena, compare->inner, compare->outer, &count);
    for (size_t i = 0; i < count; i++)
        wider(compare, pin_field_pointer(row->field), &compare->outer->places[row->field],
              "%s '%.*s'%s, which the mounts of '%s' %s", more[i].writes ? "writes" : "shows", VALUE_SHOWN,
              more[i].path, more[i].by == NULL ? "" : " of the host", compare->outer->name,
              more[i].writes ? "keep from being written" : "hide");
}

static bool demands(const struct pin_field_row *row) {
    return row->field == PIN_FIELD_REFUSE || row->field == PIN_FIELD_RECORD ||
           row->field == PIN_FIELD_REQUIRE_LABELS || row->field == PIN_FIELD_LABELS_SECRETS ||
           row->field == PIN_FIELD_LABELS_EGRESS || row->field == PIN_FIELD_LABELS_PRIVILEGED;
}

static void compare_row(struct compare *compare, const struct pin_field_row *row) {
    switch (row->type) {
    case PIN_TYPE_OBJECT:
        for (size_t i = 0; i < row->object->count; i++)
            compare_row(compare, &row->object->rows[i]);
        return;
    case PIN_TYPE_VERSION: /* from here to the text they grant nothing */
    case PIN_TYPE_EXTENDS:
    case PIN_TYPE_NAME:
    case PIN_TYPE_TEXT:
    case PIN_TYPE_VARIABLES: /* a value of the author's own; `refuse` holds for it all the same */
    case PIN_TYPE_BUDGETS:   /* with the rules that name them */
    case PIN_TYPE_WORD:      /* these two together, in the end */
    case PIN_TYPE_SYSCALLS: return;
    case PIN_TYPE_EGRESS:
        compare_egress(compare, row);
        compare_terms(compare, row);
        return;
    case PIN_TYPE_DENY: compare_deny(compare, row); return;
    case PIN_TYPE_STRINGS:
    case PIN_TYPE_IMAGES:
    case PIN_TYPE_MOUNTS:
        if (demands(row))
            compare_demands(compare, row);
        else
            compare_grants(compare, row);
        if (row->type == PIN_TYPE_MOUNTS)
            compare_mounts(compare, row);
        return;
    case PIN_TYPE_STRING: compare_string(compare, row); return;
    case PIN_TYPE_SIZE:
    case PIN_TYPE_TIME:
    case PIN_TYPE_COUNT:
    case PIN_TYPE_ID:
    case PIN_TYPE_CPUS:
    case PIN_TYPE_FLAG:
    case PIN_TYPE_CHOICE:
    case PIN_TYPE_SET32:
    case PIN_TYPE_SET64: compare_value(compare, row); return;
    }
}

bool pin_policy_narrower(const struct pin_policy *inner, const struct pin_policy *outer,
                         struct pin_findings *found) {
    PIN_ARENA struct pin_arena arena = {0};
    struct compare compare = {inner, outer, found, &arena, true};
    for (size_t i = 0; i < pin_policy_fields.count; i++)
        compare_row(&compare, &pin_policy_fields.rows[i]);
    return pin_syscalls_narrower(inner, outer, found) && compare.narrower;
}
