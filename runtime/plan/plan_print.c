#include "runtime/plan/plan_print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <linux/mount.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"

static const char *const op_names[] = {
    [PIN_OP_DIRECTORY] = "directory", [PIN_OP_FILE] = "file",           [PIN_OP_SYMLINK] = "symlink",
    [PIN_OP_BIND] = "bind",           [PIN_OP_FILESYSTEM] = "mount",    [PIN_OP_OVERLAY] = "copy-on-write",
    [PIN_OP_MASK] = "mask",           [PIN_OP_READ_ONLY] = "read-only", [PIN_OP_SEAL] = "seal",
    [PIN_OP_DEVICE] = "device",       [PIN_OP_CGROUPS] = "cgroups",
};
_Static_assert(PIN_COUNT(op_names) == PIN_OP_COUNT, "every operation has a name");

static const char *const idmap_names[] = {
    [PIN_IDMAP_NONE] = "none",
    [PIN_IDMAP_SANDBOX] = "sandbox",
    [PIN_IDMAP_OWNER] = "owner",
    [PIN_IDMAP_MAPS] = "maps",
};
_Static_assert(PIN_COUNT(idmap_names) == PIN_IDMAP_COUNT, "every idmap has a name");

struct attribute {
    uint64_t bit;
    const char *name;
};

static const struct attribute attributes[] = {
    {MOUNT_ATTR_RDONLY,      "ro"         },
    {MOUNT_ATTR_NOSUID,      "nosuid"     },
    {MOUNT_ATTR_NODEV,       "nodev"      },
    {MOUNT_ATTR_NOEXEC,      "noexec"     },
    {MOUNT_ATTR_NOATIME,     "noatime"    },
    {MOUNT_ATTR_STRICTATIME, "strictatime"},
    {MOUNT_ATTR_NODIRATIME,  "nodiratime" },
    {MOUNT_ATTR_NOSYMFOLLOW, "nosymfollow"},
};

static json_t *text_or_escape(const char *text) {
    char escaped[1024];
    json_t *string = json_string(text);
    return string != NULL ? string : json_string(pin_escape(escaped, sizeof(escaped), text, strlen(text)));
}

static json_t *attributes_json(uint64_t set) {
    json_t *list = json_array();
    for (size_t i = 0; i < PIN_COUNT(attributes); i++) {
        /* relatime is 0 and the atime modes are a field of their own, but each of ours has a bit */
        if (set & attributes[i].bit)
            json_array_append_new(list, json_string(attributes[i].name));
    }
    return list;
}

static json_t *options_json(const struct pin_op *op) {
    json_t *options = json_object();
    for (size_t i = 0; i < op->option_count; i++) {
        const char *value = op->options[2 * i + 1];
        json_object_set_new(options, op->options[2 * i], value != NULL ? json_string(value) : json_true());
    }
    return options;
}

static json_t *op_json(const struct pin_op *op) {
    json_t *object = json_pack("{s:s, s:o}", "do", op_names[op->kind], "target",
                               text_or_escape(op->target[0] != '\0' ? op->target : "."));
    if (op->source != NULL)
        json_object_set_new(object, "source", text_or_escape(op->source));
    if (op->kind == PIN_OP_SYMLINK)
        json_object_set_new(object, "points_to", text_or_escape(op->content));
    if (op->secret != NULL)
        json_object_set_new(object, "secret", text_or_escape(op->secret));
    else if (op->kind == PIN_OP_FILE)
        json_object_set_new(object, "bytes", json_integer((json_int_t)op->size));
    if (op->kind == PIN_OP_OVERLAY)
        json_object_set_new(object, "size", json_integer((json_int_t)op->size));
    if (op->kind == PIN_OP_DIRECTORY || op->kind == PIN_OP_FILE)
        json_object_set_new(object, "mode", json_sprintf("%04o", op->mode));
    if (op->kind == PIN_OP_FILESYSTEM) {
        json_object_set_new(object, "type", json_string(op->type));
        json_object_set_new(object, "options", options_json(op));
    }
    if (op->kind == PIN_OP_BIND || op->kind == PIN_OP_FILESYSTEM || op->kind == PIN_OP_OVERLAY)
        json_object_set_new(object, "attributes", attributes_json(op->attributes));
    if (op->idmap != PIN_IDMAP_NONE)
        json_object_set_new(object, "idmap", json_string(idmap_names[op->idmap]));
    return object;
}

static json_t *maps_json(const struct pin_plan *plan, const struct pin_id_map *maps, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *outside =
            plan->ranged ? json_sprintf("slot+%u", maps[i].outside) : json_integer(maps[i].outside);
        json_array_append_new(list, json_pack("{s:i, s:o, s:i}", "inside", (int)maps[i].inside, "outside",
                                              outside, "count", (int)maps[i].count));
    }
    return list;
}

static json_t *limit_json(uint64_t value) {
    return value == PIN_UNLIMITED ? json_null() : json_integer((json_int_t)value);
}

static json_t *namespaces_json(const struct pin_plan *plan) {
    json_t *list = json_array();
    for (int ns = 0; ns < PIN_NS_COUNT; ns++)
        if (plan->bundle->namespaces[ns].present)
            json_array_append_new(list, json_string(pin_namespace_name((enum pin_namespace)ns)));
    return list;
}

static json_t *strings_json(const char *const *items, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, text_or_escape(items[i]));
    return list;
}

static json_t *capabilities_json(const struct pin_plan *plan) {
    static const char *const sets[] = {"bounding", "effective", "inheritable", "permitted", "ambient"};
    json_t *object = json_object();
    for (int i = 0; i < PIN_CAP_SET_COUNT; i++)
        json_object_set_new(object, sets[i], json_sprintf("0x%" PRIx64, plan->capabilities[i]));
    return object;
}

static json_t *seccomp_json(const struct pin_filter *filter) {
    size_t allowed = 0;
    const char *last = "";
    for (size_t i = 0; i < filter->rule_count; i++) {
        if (filter->rules[i].action == PIN_FILTER_ALLOW && strcmp(filter->rules[i].name, last) != 0)
            allowed++;
        if (filter->rules[i].action == PIN_FILTER_ALLOW)
            last = filter->rules[i].name;
    }
    return json_pack("{s:b, s:s, s:I, s:I}", "present", filter->present, "default",
                     pin_filter_action_name(filter->default_action), "allowed_calls", (json_int_t)allowed,
                     "rules", (json_int_t)filter->rule_count);
}

static json_t *process_json(const struct pin_bundle *bundle) {
    json_t *names = json_array(); /* values may be nobody's business */
    for (size_t i = 0; i < bundle->process.env_count; i++) {
        const char *variable = bundle->process.env[i];
        json_array_append_new(names, json_stringn(variable, strcspn(variable, "=")));
    }
    return json_pack("{s:o, s:s, s:i, s:i, s:b, s:o}", "args",
                     strings_json(bundle->process.args, bundle->process.arg_count), "cwd",
                     bundle->process.cwd, "uid", (int)bundle->process.uid, "gid", (int)bundle->process.gid,
                     "terminal", bundle->process.terminal, "environment", names);
}

static json_t *missing_json(uint32_t missing) {
    json_t *list = json_array();
    for (int i = 0; i < PIN_PROTECT_COUNT; i++)
        if (missing & (1u << i))
            json_array_append_new(list, json_string(pin_protection_name((enum pin_protection)i)));
    return list;
}

static const char *const root_names[] = {
    [PIN_ROOT_FROM_TMPFS] = "tmpfs", [PIN_ROOT_FROM_BIND] = "directory", [PIN_ROOT_FROM_LAYERS] = "layers"};

static json_t *root_json(const struct pin_plan *plan) {
    json_t *root = json_pack("{s:s, s:b}", "from", root_names[plan->root], "read_only", plan->root_read_only);
    if (plan->root != PIN_ROOT_FROM_LAYERS)
        return root;
    json_t *layers = json_array();
    for (size_t i = 0; i < plan->layer_count; i++)
        json_array_append_new(layers, op_json(&plan->layers[i]));
    json_object_set_new(root, "upper_bytes", limit_json(plan->upper_bytes));
    json_object_set_new(
        root, "upper_on",
        json_string(pin_root_storage_name(plan->upper_on_disk ? PIN_ROOT_ON_DISK : PIN_ROOT_IN_MEMORY)));
    json_object_set_new(root, "layers", layers);
    return root;
}

json_t *pin_plan_to_json(const struct pin_plan *plan, const char *const *steps) {
    json_t *whole = json_object(), *operations = json_array(), *rlimits = json_array(), *order = json_array();
    for (size_t i = 0; i < plan->op_count; i++)
        json_array_append_new(operations, op_json(&plan->ops[i]));
    for (size_t i = 0; i < plan->rlimit_count; i++)
        json_array_append_new(rlimits, json_pack("{s:i, s:o, s:o}", "resource", plan->rlimits[i].resource,
                                                 "soft", limit_json(plan->rlimits[i].soft), "hard",
                                                 limit_json(plan->rlimits[i].hard)));
    for (size_t i = 0; steps[i] != NULL; i++)
        json_array_append_new(order, json_string(steps[i]));
    const struct pin_bundle_ext *ext = &plan->bundle->ext;
    json_object_set_new(whole, "plan", json_integer(1));
    json_object_set_new(whole, "policy",
                        ext->policy_name != NULL ? json_string(ext->policy_name) : json_null());
    json_object_set_new(whole, "privileged", json_boolean(plan->privileged));
    json_object_set_new(whole, "namespaces", namespaces_json(plan));
    json_object_set_new(whole, "uid_map", maps_json(plan, plan->uid_maps, plan->uid_map_count));
    json_object_set_new(whole, "gid_map", maps_json(plan, plan->gid_maps, plan->gid_map_count));
    json_object_set_new(whole, "root", root_json(plan));
    json_object_set_new(whole, "operations", operations);
    json_object_set_new(whole, "limits",
                        json_pack("{s:o, s:o, s:o, s:i}", "memory_bytes",
                                  limit_json(plan->limits.memory_bytes), "swap_bytes",
                                  limit_json(plan->limits.swap_bytes), "pids", limit_json(plan->limits.pids),
                                  "millicpus", (int)plan->limits.millicpus));
    json_object_set_new(whole, "rlimits", rlimits);
    json_object_set_new(whole, "capabilities", capabilities_json(plan));
    json_object_set_new(whole, "no_new_privileges", json_boolean(plan->no_new_privileges));
    json_object_set_new(whole, "landlock",
                        plan->landlock
                            ? json_pack("{s:i, s:o}", "abi", plan->landlock_abi, "write",
                                        strings_json(ext->landlock.write, ext->landlock.write_count))
                            : json_null());
    if (ext->publish_count > 0)
        json_object_set_new(whole, "publish", strings_json(ext->publish, ext->publish_count));
    json_object_set_new(whole, "seccomp", seccomp_json(&plan->bundle->seccomp));
    json_object_set_new(whole, "process", process_json(plan->bundle));
    json_object_set_new(whole, "steps", order);
    json_object_set_new(whole, "missing", missing_json(plan->missing));
    return whole;
}

static void print_list(FILE *to, const char *title, const json_t *list) {
    size_t i;
    const json_t *item;
    (void)fprintf(to, "%-14s", title);
    json_array_foreach(list, i, item) {
        char *text = json_is_string(item) ? NULL : json_dumps(item, JSON_COMPACT | JSON_ENCODE_ANY);
        (void)fprintf(to, "%s%s", i > 0 ? " " : "", text != NULL ? text : json_string_value(item));
        free(text);
    }
    (void)fputs(json_array_size(list) == 0 ? "none\n" : "\n", to);
}

static void print_op(const struct pin_op *op, FILE *to) {
    char target[512];
    (void)fprintf(to, "  %-14s/%s", op_names[op->kind],
                  pin_escape(target, sizeof(target), op->target, strlen(op->target)));
    if (op->kind == PIN_OP_SYMLINK)
        (void)fprintf(to, " -> %s", op->content);
    if (op->source != NULL)
        (void)fprintf(to, " from %s", pin_escape(target, sizeof(target), op->source, strlen(op->source)));
    if (op->kind == PIN_OP_FILESYSTEM)
        (void)fprintf(to, " %s", op->type);
    for (size_t i = 0; i < op->option_count; i++)
        (void)fprintf(to, " %s%s%s", op->options[2 * i], op->options[2 * i + 1] != NULL ? "=" : "",
                      op->options[2 * i + 1] != NULL ? op->options[2 * i + 1] : "");
    for (size_t i = 0; i < PIN_COUNT(attributes); i++)
        if (op->attributes & attributes[i].bit)
            (void)fprintf(to, " %s", attributes[i].name);
    if (op->idmap != PIN_IDMAP_NONE)
        (void)fprintf(to, " idmap=%s", idmap_names[op->idmap]);
    (void)fputc('\n', to);
}

static void print_limits(const struct pin_plan *plan, FILE *to) {
    char text[PIN_UNITS_TEXT];
    (void)fprintf(to, "%-14s", "limits");
    (void)fprintf(to, "memory %s",
                  plan->limits.memory_bytes == PIN_UNLIMITED
                      ? "none"
                      : pin_print_size(text, plan->limits.memory_bytes));
    (void)fprintf(to, ", swap %s",
                  plan->limits.swap_bytes == PIN_UNLIMITED ? "none"
                                                           : pin_print_size(text, plan->limits.swap_bytes));
    (void)fprintf(to, ", cpus %s",
                  plan->limits.millicpus == 0 ? "none" : pin_print_cpus(text, plan->limits.millicpus));
    if (plan->limits.pids == PIN_UNLIMITED)
        (void)fputs(", pids none\n", to);
    else
        (void)fprintf(to, ", pids %" PRIu64 "\n", plan->limits.pids);
}

void pin_plan_print(const struct pin_plan *plan, const char *const *steps, FILE *to) {
    json_t *whole = pin_plan_to_json(plan, steps);
    const json_t *process = json_object_get(whole, "process"), *seccomp = json_object_get(whole, "seccomp");
    (void)fprintf(to, "%-14s%s\n", "policy",
                  plan->bundle->ext.policy_name != NULL ? plan->bundle->ext.policy_name : "none");
    print_list(to, "command", json_object_get(process, "args"));
    (void)fprintf(to, "%-14s%s as %u:%u\n", "in", plan->bundle->process.cwd, plan->bundle->process.uid,
                  plan->bundle->process.gid);
    print_list(to, "environment", json_object_get(process, "environment"));
    print_list(to, "namespaces", json_object_get(whole, "namespaces"));
    print_list(to, "uid map", json_object_get(whole, "uid_map"));
    print_list(to, "gid map", json_object_get(whole, "gid_map"));
    (void)fprintf(to, "%-14s%s%s\n", "root", root_names[plan->root],
                  plan->root_read_only ? ", read-only" : "");
    for (size_t i = 0; i < plan->layer_count; i++)
        print_op(&plan->layers[i], to);
    for (size_t i = 0; i < plan->op_count; i++)
        print_op(&plan->ops[i], to);
    print_limits(plan, to);
    (void)fprintf(to, "%-14sbounding %s, ambient %s\n", "capabilities",
                  json_string_value(json_object_get(json_object_get(whole, "capabilities"), "bounding")),
                  json_string_value(json_object_get(json_object_get(whole, "capabilities"), "ambient")));
    if (plan->landlock)
        print_list(to, "writable", json_object_get(json_object_get(whole, "landlock"), "write"));
    if (plan->publish_count > 0)
        print_list(to, "published", json_object_get(whole, "publish"));
    (void)fprintf(to, "%-14s%lld calls allowed, others %s\n", "seccomp",
                  (long long)json_integer_value(json_object_get(seccomp, "allowed_calls")),
                  json_string_value(json_object_get(seccomp, "default")));
    print_list(to, "steps", json_object_get(whole, "steps"));
    print_list(to, "missing", json_object_get(whole, "missing"));
    json_decref(whole);
}
