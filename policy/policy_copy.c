#include <stdlib.h>
#include <string.h>

#include "policy/fields.h"
#include "policy/policy_read.h"

struct copy {
    struct pin_policy *to;
    const char *file, *file_copy; /* the last file of a place: most places share it with their neighbour */
};

static const char *copy_text(struct copy *copy, const char *text) {
    return text == NULL ? NULL : pin_arena_strdup(&copy->to->arena, text);
}

static void copy_place(struct copy *copy, struct pin_place *place) {
    if (place->file == NULL)
        return;
    if (copy->file == NULL || strcmp(copy->file, place->file) != 0) {
        copy->file = place->file;
        copy->file_copy = copy_text(copy, place->file);
    }
    place->file = copy->file_copy;
}

/* Gives the copy an array of its own; the pointers in the items still lead to the original. */
#define COPY_ARRAY(copy, items, count)                                                                       \
    ((items) = pin_arena_memdup(&(copy)->to->arena, (items), (count) * sizeof(*(items))))

static void copy_strings(struct copy *copy, struct pin_strings *strings) {
    COPY_ARRAY(copy, strings->items, strings->count);
    for (size_t i = 0; i < strings->count; i++) {
        strings->items[i].text = copy_text(copy, strings->items[i].text);
        copy_place(copy, &strings->items[i].place);
    }
}

static void copy_images(struct copy *copy) {
    struct pin_policy *to = copy->to;
    COPY_ARRAY(copy, to->images, to->image_count);
    for (size_t i = 0; i < to->image_count; i++) {
        to->images[i].pattern = copy_text(copy, to->images[i].pattern);
        copy_strings(copy, &to->images[i].keys);
        copy_place(copy, &to->images[i].place);
    }
}

static void copy_mounts(struct copy *copy) {
    struct pin_policy *to = copy->to;
    COPY_ARRAY(copy, to->filesystem.mounts, to->filesystem.mount_count);
    for (size_t i = 0; i < to->filesystem.mount_count; i++) {
        struct pin_mount_rule *mount = &to->filesystem.mounts[i];
        mount->source = copy_text(copy, mount->source);
        mount->target = copy_text(copy, mount->target);
        copy_place(copy, &mount->place);
    }
}

/* Each keeps the original's budget. */
static struct pin_egress_rule *copy_rules(struct copy *copy, const struct pin_egress_rule *from,
                                          size_t count) {
    struct pin_egress_rule *rules = pin_arena_memdup(&copy->to->arena, from, count * sizeof(*rules));
    for (size_t i = 0; i < count; i++) {
        rules[i].host = copy_text(copy, rules[i].host);
        COPY_ARRAY(copy, rules[i].ports, rules[i].port_count);
        copy_place(copy, &rules[i].place);
    }
    return rules;
}

static struct pin_egress_budget *copy_budgets(struct copy *copy, const struct pin_egress_budget *from,
                                              size_t count) {
    struct pin_egress_budget *budgets = pin_arena_memdup(&copy->to->arena, from, count * sizeof(*budgets));
    for (size_t i = 0; i < count; i++) {
        budgets[i].name = copy_text(copy, budgets[i].name);
        copy_place(copy, &budgets[i].place);
    }
    return budgets;
}

static void copy_egress(struct copy *copy, const struct pin_policy *from) {
    struct pin_policy *to = copy->to;
    to->network.egress = copy_rules(copy, from->network.egress, from->network.egress_count);
    to->network.deny = copy_rules(copy, from->network.deny, from->network.deny_count);
    to->network.budgets = copy_budgets(copy, from->network.budgets, from->network.budget_count);
    for (size_t i = 0; i < to->network.egress_count; i++)
        if (to->network.egress[i].budget != NULL)
            to->network.egress[i].budget =
                &to->network.budgets[to->network.egress[i].budget - from->network.budgets];
}

static void copy_syscalls(struct copy *copy, struct pin_syscall_entry **entries, size_t count) {
    COPY_ARRAY(copy, *entries, count);
    for (size_t i = 0; i < count; i++) {
        (*entries)[i].name = copy_text(copy, (*entries)[i].name);
        copy_place(copy, &(*entries)[i].place);
    }
}

static void copy_variables(struct copy *copy) {
    struct pin_policy *to = copy->to;
    COPY_ARRAY(copy, to->environment.set, to->environment.set_count);
    for (size_t i = 0; i < to->environment.set_count; i++) {
        struct pin_variable *variable = &to->environment.set[i];
        variable->name = copy_text(copy, variable->name);
        variable->value = copy_text(copy, variable->value);
        copy_place(copy, &variable->place);
    }
}

struct pin_policy *pin_policy_copy(const struct pin_policy *policy) {
    struct pin_policy *to = malloc(sizeof(*to));
    if (to == NULL)
        abort(); /* out of memory, as in arena.h */
    *to = *policy;
    to->arena = (struct pin_arena){0};
    to->site = policy->site != NULL ? pin_policy_copy(policy->site) : NULL;
    struct copy copy = {.to = to};
    to->name = copy_text(&copy, policy->name);
    to->description = copy_text(&copy, policy->description);
    for (size_t i = 0; i < PIN_FIELD_COUNT; i++)
        copy_place(&copy, &to->places[i]);
    for (size_t i = 0; i < PIN_CAPABILITY_COUNT; i++)
        copy_place(&copy, &to->capability_places[i]);
    copy_images(&copy);
    copy_mounts(&copy);
    copy_strings(&copy, &to->filesystem.write);
    copy_egress(&copy, policy);
    copy_strings(&copy, &to->network.publish);
    to->network.proxy_url = copy_text(&copy, to->network.proxy_url);
    to->network.proxy_secret = copy_text(&copy, to->network.proxy_secret);
    to->syscalls.baseline = copy_text(&copy, policy->syscalls.baseline);
    copy_syscalls(&copy, &to->syscalls.allow, to->syscalls.allow_count);
    copy_syscalls(&copy, &to->syscalls.deny, to->syscalls.deny_count);
    copy_strings(&copy, &to->environment.pass);
    copy_strings(&copy, &to->environment.refuse);
    copy_variables(&copy);
    copy_strings(&copy, &to->secrets);
    copy_strings(&copy, &to->engine.roots);
    copy_strings(&copy, &to->engine.read);
    copy_strings(&copy, &to->engine.write);
    copy_strings(&copy, &to->engine.hooks);
    copy_strings(&copy, &to->engine.cgroups);
    copy_strings(&copy, &to->audit.record);
    copy_strings(&copy, &to->audit.require_labels);
    copy_strings(&copy, &to->audit.labels_secrets);
    copy_strings(&copy, &to->audit.labels_egress);
    copy_strings(&copy, &to->audit.labels_privileged);
    return to;
}

void pin_policy_state_egress(struct pin_policy *policy, const struct pin_egress_rule *rules, size_t count) {
    struct copy copy = {.to = policy};
    policy->network.egress = copy_rules(&copy, rules, count);
    policy->network.egress_count = count;
    for (size_t i = 0; i < count; i++)
        if (rules[i].budget != NULL)
            policy->network.egress[i].budget = copy_budgets(&copy, rules[i].budget, 1);
}

void pin_policy_state_budgets(struct pin_policy *policy, const struct pin_egress_budget *budgets,
                              size_t count) {
    struct copy copy = {.to = policy};
    policy->network.budgets = copy_budgets(&copy, budgets, count);
    policy->network.budget_count = count;
}
