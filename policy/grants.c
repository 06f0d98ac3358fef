#include "policy/grants.h"
#include "policy/checks.h"

#include <stdio.h>

#include "policy/canonical.h"
#include "policy/policy_write.h"

static const struct pin_place *place_of(const struct pin_field_row *row, const void *item) {
    switch ((int)row->type) {
    case PIN_TYPE_IMAGES: return &((const struct pin_image_rule *)item)->place;
    case PIN_TYPE_MOUNTS: return &((const struct pin_mount_rule *)item)->place;
    case PIN_TYPE_EGRESS:
    case PIN_TYPE_DENY: return &((const struct pin_egress_rule *)item)->place;
    case PIN_TYPE_BUDGETS: return &((const struct pin_egress_budget *)item)->place;
    case PIN_TYPE_SYSCALLS: return &((const struct pin_syscall_entry *)item)->place;
    default: return &((const struct pin_string *)item)->place;
    }
}

const struct pin_place *pin_policy_item_place(enum pin_field field, const void *item) {
    return place_of(pin_field_row(field), item);
}

struct visit {
    const struct pin_policy *policy;
    struct pin_arena *arena;
    pin_grant_visitor *call;
    void *context;
};

static void visit_items(struct visit *visit, const struct pin_field_row *row) {
    struct pin_list list = pin_list_of(visit->policy, row);
    for (size_t i = 0; i < list.count; i++) {
        const void *item = pin_list_at(&list, i);
        char pointer[96];
        (void)snprintf(pointer, sizeof(pointer), "%s/%zu", pin_field_pointer(row->field), i);
        visit->call(visit->context, pointer, pin_policy_item_text(visit->arena, row->field, item),
                    place_of(row, item));
    }
}

static void visit_variables(struct visit *visit) {
    const struct pin_policy *policy = visit->policy;
    for (size_t i = 0; i < policy->environment.set_count; i++) {
        const struct pin_variable *variable = &policy->environment.set[i];
        PIN_BUFFER struct pin_buffer value = {0};
        pin_buffer_json(&value, variable->value);
        char *pointer = pin_arena_printf(visit->arena, "/environment/set/%s", variable->name);
        visit->call(visit->context, pointer, value.data, &variable->place);
    }
}

static void visit_capabilities(struct visit *visit) {
    const struct pin_policy *policy = visit->policy;
    unsigned index = 0;
    for (unsigned i = 0; i < PIN_CAPABILITY_COUNT; i++) {
        char pointer[32], value[40];
        if ((policy->capabilities >> i & 1) == 0)
            continue;
        (void)snprintf(pointer, sizeof(pointer), "/capabilities/%u", index++);
        (void)snprintf(value, sizeof(value), "\"%s\"", pin_capability_name(i));
        const struct pin_place *own = &policy->capability_places[i];
        visit->call(visit->context, pointer, value,
                    own->file != NULL ? own : &policy->places[PIN_FIELD_CAPABILITIES]);
    }
}

static void visit_value(struct visit *visit, const struct pin_field_row *row) {
    const struct pin_policy *policy = visit->policy;
    visit->call(visit->context, pin_field_pointer(row->field),
                pin_policy_value_text(visit->arena, policy, row->field), &policy->places[row->field]);
}

static void visit_row(struct visit *visit, const struct pin_field_row *row) {
    switch (row->type) {
    case PIN_TYPE_OBJECT:
        for (size_t i = 0; i < row->object->count; i++)
            visit_row(visit, &row->object->rows[i]);
        return;
    case PIN_TYPE_VERSION:
    case PIN_TYPE_EXTENDS:
    case PIN_TYPE_NAME:
    case PIN_TYPE_TEXT: return;
    case PIN_TYPE_STRINGS:
    case PIN_TYPE_IMAGES:
    case PIN_TYPE_MOUNTS:
    case PIN_TYPE_EGRESS:
    case PIN_TYPE_DENY:
    case PIN_TYPE_BUDGETS:
    case PIN_TYPE_SYSCALLS: visit_items(visit, row); return;
    case PIN_TYPE_VARIABLES: visit_variables(visit); return;
    case PIN_TYPE_SET64: visit_capabilities(visit); return;
    case PIN_TYPE_SIZE:
    case PIN_TYPE_TIME:
    case PIN_TYPE_COUNT:
    case PIN_TYPE_ID:
    case PIN_TYPE_CPUS:
    case PIN_TYPE_FLAG:
    case PIN_TYPE_CHOICE:
    case PIN_TYPE_WORD:
    case PIN_TYPE_STRING:
    case PIN_TYPE_SET32: visit_value(visit, row); return;
    }
}

void pin_policy_each_grant(const struct pin_policy *policy, pin_grant_visitor *visitor, void *context) {
    PIN_ARENA struct pin_arena arena = {0};
    struct visit visit = {policy, &arena, visitor, context};
    for (size_t i = 0; i < pin_policy_fields.count; i++)
        visit_row(&visit, &pin_policy_fields.rows[i]);
}

bool pin_policy_lets_write(const struct pin_policy *policy, const char *path) {
    enum pin_access workspace = policy->filesystem.workspace;
    if (pin_path_beneath(path, PIN_WORKSPACE_TARGET) &&
        (workspace == PIN_ACCESS_WRITE || workspace == PIN_ACCESS_COW))
        return true;
    for (size_t i = 0; i < policy->filesystem.write.count; i++) {
        const char *entry = policy->filesystem.write.items[i].text;
        if (pin_path_beneath(path, entry) && !pin_path_beneath(entry, PIN_WORKSPACE_TARGET))
            return true;
    }
    return false;
}
