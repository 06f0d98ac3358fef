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

static void copy_rules(struct copy *copy, struct pin_egress_rule **rules, size_t count) {
    COPY_ARRAY(copy, *rules, count);
    for (size_t i = 0; i < count; i++) {
        struct pin_egress_rule *rule = &(*rules)[i];
        rule->host = copy_text(copy, rule->host);
        COPY_ARRAY(copy, rule->ports, rule->port_count);
        copy_place(copy, &rule->place);
    }
}

static void copy_budgets(struct copy *copy) {
    struct pin_policy *to = copy->to;
    const struct pin_egress_budget *from = to->network.budgets;
    COPY_ARRAY(copy, to->network.budgets, to->network.budget_count);
    for (size_t i = 0; i < to->network.budget_count; i++) {
        to->network.budgets[i].name = copy_text(copy, to->network.budgets[i].name);
        copy_place(copy, &to->network.budgets[i].place);
    }
    for (size_t i = 0; i < to->network.egress_count; i++)
        if (to->network.egress[i].budget != NULL)
            to->network.egress[i].budget = &to->network.budgets[to->network.egress[i].budget - from];
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
    copy_rules(&copy, &to->network.egress, to->network.egress_count);
    copy_rules(&copy, &to->network.deny, to->network.deny_count);
    copy_budgets(&copy);
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
    copy_strings(&copy, &to->audit.record);
    copy_strings(&copy, &to->audit.require_labels);
    copy_strings(&copy, &to->audit.labels_secrets);
    copy_strings(&copy, &to->audit.labels_egress);
    copy_strings(&copy, &to->audit.labels_privileged);
    return to;
}
