#include "policy/defaults.h"

#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "policy/egress_terms.h"
#include "policy/host_name.h"

#define PLACE                                                                                                \
    { "default", 0, 0 }

static const struct pin_image_rule any_image = {.pattern = "*", .place = PLACE};
static const struct pin_string writable[] = {
    {"/workspace", PLACE},
    {"/tmp",       PLACE},
    {"/dev/shm",   PLACE}
};
static const struct pin_string passed[] = {
    {"LANG", PLACE}
};
static const struct pin_string refused[] = {
    {"LD_*", PLACE}
};
static const struct pin_variable variables[] = {
    {"PATH",    "/usr/local/bin:/usr/bin:/bin", PLACE},
    {"HOME",    "/tmp",                         PLACE},
    {"USER",    "tool",                         PLACE},
    {"LOGNAME", "tool",                         PLACE},
};

#define COPY(policy, table) pin_arena_memdup(&(policy)->arena, (table), sizeof(table))

static void set_places(struct pin_policy *policy) {
    static const struct pin_place place = PLACE;
    for (size_t i = 0; i < PIN_FIELD_COUNT; i++)
        policy->places[i] = place;
}

const char *pin_policy_default_variable(size_t index) {
    return index < PIN_COUNT(variables) ? variables[index].name : NULL;
}

static void set_variables(struct pin_policy *policy) {
    policy->environment.set = COPY(policy, variables);
    policy->environment.set_count = PIN_COUNT(variables);
}

static void set_resources(struct pin_policy *policy) {
    policy->resources.memory_bytes = 512 * PIN_MIB;
    policy->resources.swap_bytes = 0;
    policy->resources.millicpus = 1000;
    policy->resources.pids = 64;
    policy->resources.files = 1024;
    policy->resources.core_bytes = 0;
    policy->resources.wall_time_ns = 30 * PIN_NS_PER_S;
    policy->resources.cpu_time_ns = PIN_UNLIMITED;
    policy->resources.grace_ns = 2 * PIN_NS_PER_S;
    policy->resources.stdout_bytes = PIN_MIB;
    policy->resources.stderr_bytes = PIN_MIB;
    policy->resources.frame_bytes = 16 * PIN_MIB;
    policy->resources.on_output_cap = PIN_ON_CAP_DISCARD;
}

static void set_network_limits(struct pin_egress_limits *limits) {
    *limits = pin_egress_no_limits;
    limits->connections_at_once = 1024;
    limits->idle_ns = 30 * 60 * PIN_NS_PER_S;
    limits->names_total = 4096;
    limits->names_per_second = 100;
    limits->drain_ns = 10 * PIN_NS_PER_S;
}

void pin_policy_set_defaults(struct pin_policy *policy) {
    set_places(policy);
    set_resources(policy);
    set_network_limits(&policy->network.limits);
    policy->network.proxy_url = policy->network.proxy_secret = "";
    policy->description = "";
    policy->images = pin_arena_memdup(&policy->arena, &any_image, sizeof(any_image));
    policy->image_count = 1;
    policy->filesystem.root = PIN_ROOT_READ_ONLY;
    policy->filesystem.root_size_bytes = PIN_GIB;
    policy->filesystem.root_storage = PIN_ROOT_IN_MEMORY;
    policy->filesystem.workspace = PIN_ACCESS_WRITE;
    policy->filesystem.workspace_size_bytes = PIN_GIB;
    policy->filesystem.tmp_bytes = 64 * PIN_MIB;
    policy->filesystem.write = (struct pin_strings){COPY(policy, writable), PIN_COUNT(writable)};
    policy->syscalls.baseline = "tool";
    policy->syscalls.on_deny = PIN_ON_DENY_ERRNO;
    policy->identity.user = 1000;
    policy->identity.group = 1000;
    policy->identity.ids = 1;
    policy->environment.pass = (struct pin_strings){COPY(policy, passed), PIN_COUNT(passed)};
    policy->environment.refuse = (struct pin_strings){COPY(policy, refused), PIN_COUNT(refused)};
    set_variables(policy);
    policy->tty = true;
    policy->frames = PIN_FRAMES_FD | PIN_FRAMES_STDOUT | PIN_FRAMES_STDOUT_LETTA;
}

/* --- all there is --- */

static const struct pin_string any_path[] = {
    {"/", PLACE}
};
static const struct pin_string any_name[] = {
    {"*", PLACE}
};
static const struct pin_string any_hook[] = {
    {"/*", PLACE}
};
static const struct pin_mount_rule any_mount = {"/", "/", PIN_ACCESS_WRITE, PLACE};
static const struct pin_syscall_entry any_call = {.name = "*", .place = PLACE};
static const struct pin_port_range any_port = {1, UINT16_MAX};

static void allow_any_destination(struct pin_policy *policy) {
    struct pin_port_range *ports = pin_arena_memdup(&policy->arena, &any_port, sizeof(any_port));
    for (unsigned protocol = 0; protocol < PIN_PROTOCOL_COUNT; protocol++) {
        struct pin_egress_rule rule = {
            .ports = ports, .port_count = 1, .protocol = (enum pin_protocol)protocol, .place = PLACE};
        struct pin_egress_rule rules[] = {rule, rule,
                                          rule}; /* each name, each address, the host's loopback */
        rules[0].host = "*";
        rules[2].host = PIN_HOST_INTERNAL; /* which no wildcard means */
        if (protocol == PIN_PROTOCOL_TCP)
            rules[0].inspect = rules[2].inspect = PIN_INSPECT_NONE;
        rules[1].any_address = true;
        for (size_t i = 0; i < PIN_COUNT(rules); i++)
            *(struct pin_egress_rule *)pin_arena_grow(&policy->arena, &policy->network.egress,
                                                      &policy->network.egress_count, sizeof(rule)) = rules[i];
    }
}

static void unlimit(struct pin_policy *policy) {
    policy->resources.memory_bytes = policy->resources.swap_bytes = PIN_UNLIMITED;
    policy->resources.millicpus = 0;
    policy->resources.pids = policy->resources.files = policy->resources.core_bytes = PIN_UNLIMITED;
    policy->resources.wall_time_ns = policy->resources.cpu_time_ns = policy->resources.grace_ns =
        PIN_UNLIMITED;
    policy->resources.stdout_bytes = policy->resources.stderr_bytes = policy->resources.frame_bytes =
        PIN_UNLIMITED;
    policy->filesystem.root_size_bytes = policy->filesystem.workspace_size_bytes =
        policy->filesystem.tmp_bytes = PIN_UNLIMITED;
    policy->network.limits = pin_egress_no_limits;
    policy->identity.ids = 1048576;
}

void pin_policy_set_everything(struct pin_policy *policy) {
    set_places(policy);
    unlimit(policy);
    allow_any_destination(policy);
    set_variables(policy);
    policy->description = "";
    policy->images = pin_arena_memdup(&policy->arena, &any_image, sizeof(any_image));
    policy->image_count = 1;
    policy->filesystem.root = PIN_ROOT_OVERLAY;
    policy->filesystem.root_storage = PIN_ROOT_ON_DISK;
    policy->filesystem.workspace = PIN_ACCESS_WRITE;
    policy->filesystem.write = (struct pin_strings){COPY(policy, any_path), 1};
    policy->filesystem.mounts = pin_arena_memdup(&policy->arena, &any_mount, sizeof(any_mount));
    policy->filesystem.mount_count = 1;
    policy->syscalls.baseline = "oci";
    policy->syscalls.allow = pin_arena_memdup(&policy->arena, &any_call, sizeof(any_call));
    policy->syscalls.allow_count = 1;
    policy->capabilities = (UINT64_C(1) << PIN_CAPABILITY_COUNT) - 1;
    policy->environment.pass = (struct pin_strings){COPY(policy, any_name), 1};
    policy->secrets = (struct pin_strings){COPY(policy, any_name), 1};
    policy->network.publish = (struct pin_strings){COPY(policy, any_name), 1};
    policy->engine.shares = policy->engine.joins = (1u << PIN_SPACE_COUNT) - 1;
    policy->engine.roots = policy->engine.read = policy->engine.write = policy->engine.cgroups =
        (struct pin_strings){COPY(policy, any_path), 1};
    policy->engine.hooks = (struct pin_strings){COPY(policy, any_hook), 1};
    policy->engine.unfiltered = true;
    policy->privileged = policy->tty = true;
    policy->audit.on_failure = PIN_AUDIT_COUNT;
    policy->frames = PIN_FRAMES_FD | PIN_FRAMES_STDOUT | PIN_FRAMES_STDOUT_LETTA;
    policy->optional = (1u << PIN_PROTECT_COUNT) - 1;
}
