#include <string.h>

#include "policy/audit/diff_parts.h"
#include "policy/audit/why_parts.h"
#include "policy/covers.h"
#include "policy/filter_algebra.h"
#include "policy/grants.h"
#include "policy/order_egress.h"
#include "policy/order_mounts.h"
#include "policy/policy_write.h"
#include "policy/port_set.h"

/* A list that refuses or demands: to have less of it is to be wider. */
struct list_row {
    enum pin_field field;
    bool demands;
    const char *format; /* with the item's JSON */
};

static const struct list_row rows[] = {
    {PIN_FIELD_IMAGES,            false, "images %s"                                 },
    {PIN_FIELD_WRITE,             false, "writes below %s"                           },
    {PIN_FIELD_MOUNTS,            false, "the mount %s"                              },
    {PIN_FIELD_EGRESS,            false, "connections to %s"                         },
    {PIN_FIELD_EGRESS_DENY,       true,  "what the deny rule %s kept away"           },
    {PIN_FIELD_PUBLISH,           false, "the host connects in: %s"                  },
    {PIN_FIELD_PASS,              false, "the host's variable %s"                    },
    {PIN_FIELD_REFUSE,            true,  "variables that match %s"                   },
    {PIN_FIELD_SECRETS,           false, "the secret %s"                             },
    {PIN_FIELD_ENGINE_ROOTS,      false, "roots of containers below %s"              },
    {PIN_FIELD_ENGINE_READ,       false, "a container reads below %s"                },
    {PIN_FIELD_ENGINE_WRITE,      false, "a container writes below %s"               },
    {PIN_FIELD_ENGINE_HOOKS,      false, "the hook %s"                               },
    {PIN_FIELD_ENGINE_CGROUPS,    false, "a container's group below %s"              },
    {PIN_FIELD_RECORD,            true,  "runs that don't record %s"                 },
    {PIN_FIELD_REQUIRE_LABELS,    true,  "runs without the label %s"                 },
    {PIN_FIELD_LABELS_SECRETS,    true,  "secrets without the label %s"              },
    {PIN_FIELD_LABELS_EGRESS,     true,  "egress without the label %s"               },
    {PIN_FIELD_LABELS_PRIVILEGED, true,  "privileged containers without the label %s"},
};

static bool is_egress(const struct list_row *row) {
    return row->field == PIN_FIELD_EGRESS || row->field == PIN_FIELD_EGRESS_DENY;
}

/* What of the rule's ports the list doesn't name; the rule then has these. */
static bool ports_left(struct pin_arena *arena, const struct pin_list *by, struct pin_egress_rule *rule,
                       pin_covers *covers) {
    const struct pin_egress_rule *rules = (const struct pin_egress_rule *)(const void *)by->items;
    struct pin_port_set own = {rule->ports, rule->port_count};
    struct pin_port_set given = pin_port_set_given(arena, rules, by->count, rule, covers);
    struct pin_port_set left = pin_port_set_minus(arena, &own, &given);
    rule->ports = left.ranges;
    rule->port_count = left.count;
    return left.count > 0;
}

static void add_item(const struct pin_diff_side *side, const struct list_row *row, const void *item,
                     const char *text) {
    const char *at = strstr(row->format, "%s");
    pin_diff_add(
        side, pin_field_pointer(row->field), pin_policy_item_place(row->field, item),
        pin_arena_printf(&side->diff->arena, "%.*s%s%s", (int)(at - row->format), row->format, text, at + 2));
}

static void compare_list(const struct pin_diff_side *side, const struct list_row *row) {
    const struct pin_field_row *field = pin_field_row(row->field);
    const struct pin_policy *more = row->demands ? side->from->policy : side->to->policy;
    const struct pin_policy *less = row->demands ? side->to->policy : side->from->policy;
    struct pin_list items = pin_list_of(more, field), by = pin_list_of(less, field);
    struct pin_arena *arena = &side->diff->arena;
    for (size_t i = 0; i < items.count; i++) {
        const void *item = pin_list_at(&items, i);
        if (is_egress(row)) {
            struct pin_egress_rule rule = *(const struct pin_egress_rule *)item;
            if (ports_left(arena, &by, &rule, pin_covers_of(field)))
                add_item(side, row, item, pin_why_egress_text(arena, &rule));
        } else if (!pin_is_covered(&by, pin_covers_of(field), item)) {
            add_item(side, row, item, pin_policy_item_text(arena, row->field, item));
        }
    }
}

/* Rules that are all granted, and yet not under the terms that count where they meet others. */
static void compare_terms(const struct pin_diff_side *side) {
    struct pin_arena *arena = &side->diff->arena;
    size_t count;
    const size_t *freer = pin_egress_freer(arena, side->to->policy, side->from->policy, &count);
    for (size_t i = 0; i < count; i++) {
        const struct pin_egress_rule *rule = &side->to->policy->network.egress[freer[i]];
        pin_diff_add(side, pin_field_pointer(PIN_FIELD_EGRESS), &rule->place,
                     pin_arena_printf(arena,
                                      "connections to %s on its own terms, which another rule took away",
                                      pin_why_egress_text(arena, rule)));
    }
}

/* What mounts over mounts, or over the workspace, hide or keep from being written. */
static void compare_mounts(const struct pin_diff_side *side) {
    struct pin_arena *arena = &side->diff->arena;
    size_t count;
    struct pin_mount_excess *more = pin_mounts_excess(arena, side->to->policy, side->from->policy, &count);
    for (size_t i = 0; i < count; i++)
        pin_diff_add(
            side, pin_field_pointer(PIN_FIELD_MOUNTS),
            more[i].by != NULL ? &more[i].by->place : &side->to->policy->places[PIN_FIELD_WORKSPACE_ACCESS],
            pin_arena_printf(arena, "%s %s%s, which a mount %s", more[i].writes ? "writing" : "reading",
                             more[i].path, more[i].by != NULL ? " of the host" : "",
                             more[i].writes ? "kept from it" : "hid"));
}

void pin_diff_lists(const struct pin_diff_side *side) {
    compare_terms(side);
    compare_mounts(side);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        compare_list(side, &rows[i]);
}

/* --- system calls --- */

static bool same_rules(const struct pin_filter_rule *a, const struct pin_filter_rule *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (a[i].action != b[i].action || a[i].error != b[i].error || a[i].arg_count != b[i].arg_count ||
            memcmp(a[i].args, b[i].args, a[i].arg_count * sizeof(a[i].args[0])) != 0)
            return false;
    return true;
}

/* What of the rule the filter doesn't let through, as rules; `*unsure` when that can't be written as rules.
 */
static struct pin_filter_rules rest_of(struct pin_arena *arena, const struct pin_filter_rule *rule,
                                       const struct pin_filter_rule *by, size_t count, bool *unsure) {
    struct pin_filter_rules left = {pin_arena_memdup(arena, rule, sizeof(*rule)), 1};
    *unsure = false;
    for (size_t i = 0; i < count && left.count > 0; i++)
        if (pin_reach_passes(by[i].action) && !pin_filter_subtract(arena, &left, &by[i])) {
            *unsure = true;
            return left;
        }
    return left;
}

#define SHOWN 4

static const char *describe_rest(const struct pin_diff_side *side, const struct pin_filter_rule *to,
                                 size_t to_count, const struct pin_filter_rule *from, size_t from_count) {
    PIN_ARENA struct pin_arena scratch = {0};
    struct pin_arena *arena = &side->diff->arena;
    const char *text = NULL;
    size_t shown = 0;
    for (size_t i = 0; i < to_count; i++) {
        bool unsure;
        if (!pin_reach_passes(to[i].action))
            continue;
        struct pin_filter_rules left = rest_of(&scratch, &to[i], from, from_count, &unsure);
        for (size_t j = 0; j < left.count && shown <= SHOWN; j++, shown++)
            text = shown == SHOWN
                       ? pin_arena_printf(arena, "%s, …", text)
                       : pin_arena_printf(arena, "%s%s(%s)", text != NULL ? text : "",
                                          text != NULL ? " " : "", pin_reach_describe(arena, &left.items[j]));
    }
    return text;
}

static void compare_call(const struct pin_diff_side *side, const struct pin_syscall *call) {
    size_t to_count, from_count, row = (size_t)(call - pin_syscalls);
    const struct pin_filter_rule *to = pin_reach_rules(side->to, call->name, &to_count);
    const struct pin_filter_rule *from = pin_reach_rules(side->from, call->name, &from_count);
    if (side->to->calls[row] == PIN_REACH_NONE || side->from->calls[row] == PIN_REACH_ALL ||
        (to_count == from_count && same_rules(to, from, to_count)))
        return;
    struct pin_arena *arena = &side->diff->arena;
    const char *text = pin_arena_printf(arena, "system call %s", call->name);
    if (side->from->calls[row] == PIN_REACH_SOME || side->to->calls[row] == PIN_REACH_SOME) {
        const char *rest = describe_rest(side, to, to_count, from, from_count);
        if (rest == NULL && to_count > 0)
            return;
        text = pin_arena_printf(arena, "%s %s", text, rest != NULL ? rest : "(any arguments)");
    }
    struct pin_reach_source source = pin_reach_source(side->to, arena, call);
    pin_diff_add(side, "/syscalls", &source.place, text);
}

void pin_diff_calls(const struct pin_diff_side *side) {
    for (size_t i = 0; i < pin_syscalls_count; i++)
        compare_call(side, &pin_syscalls[i]);
}
