#include "policy/site.h"

#include <string.h>

#include "policy/covers.h"
#include "policy/grants.h"
#include "policy/json_source.h"
#include "policy/policy_load.h"
#include "policy/policy_order.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"

struct pin_policy *pin_site_load(const char *path, struct pin_findings *found) {
    struct pin_policy_file file = {0};
    struct pin_policy *site = NULL;
    bool missing = false;
    if (pin_policy_file_read(&file, path != NULL ? path : PIN_SITE_FILE, path != NULL ? NULL : &missing,
                             found))
        site = pin_policy_load_file(&file, true, found);
    pin_policy_file_close(&file);
    return site;
}

/* --- the floor: what refuses or demands; a copy of it goes into the policy's arena --- */

static const char *keep(struct pin_policy *policy, const char *text) {
    return text != NULL ? pin_arena_strdup(&policy->arena, text) : NULL;
}

static struct pin_place keep_place(struct pin_policy *policy, struct pin_place place) {
    place.file = keep(policy, place.file);
    return place;
}

/* Room for one more item at the end of an array that may stand anywhere. */
static void *extend(struct pin_policy *policy, void *items_slot, size_t *count, size_t size) {
    void **items = items_slot;
    char *more = pin_arena_array(&policy->arena, *count + 1, size);
    if (*count > 0)
        memcpy(more, *items, *count * size);
    *items = more;
    return more + (*count)++ * size;
}

static bool has(const struct pin_list *list, pin_covers *covers, const void *item) {
    for (size_t i = 0; i < list->count; i++)
        if (covers(pin_list_at(list, i), item))
            return true;
    return false;
}

static void add_strings(struct pin_policy *policy, enum pin_field field, struct pin_strings *to,
                        const struct pin_strings *floor) {
    const struct pin_field_row *row = pin_field_row(field);
    for (size_t i = 0; i < floor->count; i++) {
        struct pin_list own = pin_list_of(policy, row);
        if (has(&own, pin_covers_of(row), &floor->items[i]))
            continue;
        struct pin_string *item = extend(policy, &to->items, &to->count, sizeof(*item));
        *item = (struct pin_string){keep(policy, floor->items[i].text),
                                    keep_place(policy, floor->items[i].place)};
    }
}

static void add_destinations(struct pin_policy *policy, const struct pin_policy *site) {
    for (size_t i = 0; i < site->network.deny_count; i++) {
        const struct pin_egress_rule *rule = &site->network.deny[i];
        struct pin_egress_rule *item =
            extend(policy, &policy->network.deny, &policy->network.deny_count, sizeof(*item));
        *item = *rule;
        item->host = keep(policy, rule->host);
        item->ports = pin_arena_memdup(&policy->arena, rule->ports, rule->port_count * sizeof(*rule->ports));
        item->place = keep_place(policy, rule->place);
    }
}

static void add_calls(struct pin_policy *policy, const struct pin_policy *site) {
    const struct pin_field_row *row = pin_field_row(PIN_FIELD_SYSCALLS_DENY);
    for (size_t i = 0; i < site->syscalls.deny_count; i++) {
        const struct pin_syscall_entry *entry = &site->syscalls.deny[i];
        struct pin_list own = pin_list_of(policy, row);
        if (has(&own, pin_covers_of(row), entry))
            continue;
        struct pin_syscall_entry *item =
            extend(policy, &policy->syscalls.deny, &policy->syscalls.deny_count, sizeof(*item));
        *item = *entry;
        item->name = keep(policy, entry->name);
        item->place = keep_place(policy, entry->place);
    }
}

struct blame {
    struct pin_error *err;
    char pointer[sizeof(((struct pin_error *)NULL)->pointer)]; /* "/resources/memory" */
};

static void put_place(void *context, const char *pointer, const char *value, const struct pin_place *place) {
    struct blame *blame = context;
    (void)value;
    if (place->file != NULL && place->line > 0 && strcmp(pointer, blame->pointer) == 0)
        pin_json_where(blame->err->pointer, sizeof(blame->err->pointer), place->file, place->line,
                       place->column, pointer);
}

/* Whose author is to mend it, and in which line. */
static void blame_policy(struct pin_findings *found, size_t before, const struct pin_policy *policy) {
    pin_wrap_findings(found, before, "policy '%s'", policy->name);
    for (size_t i = before; i < found->count; i++) {
        struct blame blame = {.err = &found->list[i]};
        memcpy(blame.pointer, blame.err->pointer, sizeof(blame.pointer));
        pin_policy_each_grant(policy, put_place, &blame);
    }
}

bool pin_site_apply(struct pin_policy *policy, const struct pin_policy *site, struct pin_findings *found) {
    if (site == NULL)
        return true;
    add_destinations(policy, site);
    add_calls(policy, site);
    add_strings(policy, PIN_FIELD_REFUSE, &policy->environment.refuse, &site->environment.refuse);
    add_strings(policy, PIN_FIELD_RECORD, &policy->audit.record, &site->audit.record);
    policy->audit.sync = policy->audit.sync || site->audit.sync;
    add_strings(policy, PIN_FIELD_REQUIRE_LABELS, &policy->audit.require_labels, &site->audit.require_labels);
    add_strings(policy, PIN_FIELD_LABELS_SECRETS, &policy->audit.labels_secrets, &site->audit.labels_secrets);
    add_strings(policy, PIN_FIELD_LABELS_EGRESS, &policy->audit.labels_egress, &site->audit.labels_egress);
    add_strings(policy, PIN_FIELD_LABELS_PRIVILEGED, &policy->audit.labels_privileged,
                &site->audit.labels_privileged);
    pin_policy_seal(policy);
    pin_policy_free(policy->site);
    policy->site = pin_policy_copy(site);
    size_t before = found->count;
    if (pin_policy_narrower(policy, site, found))
        return true;
    blame_policy(found, before, policy);
    return false;
}
