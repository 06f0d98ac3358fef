#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "policy/audit/trace.h"
#include "policy/policy_read.h"

/* Enough for what a tool does, and an end for what doesn't stop. */
#define TRACE_MEMORY (4 * PIN_GIB)
#define TRACE_TMP PIN_GIB
#define TRACE_PIDS 4096
#define TRACE_FILES 4096
#define TRACE_WALL_NS (60 * 60 * PIN_NS_PER_S)
#define TRACE_OUTPUT (16 * PIN_MIB)

static void raise(uint64_t *value, uint64_t to, uint64_t most) {
    if (*value < to)
        *value = to;
    if (*value > most)
        *value = most;
}

static void widen_resources(struct pin_policy *policy, const struct pin_policy *site) {
    static const uint64_t none = PIN_UNLIMITED;
    const struct {
        uint64_t *value;
        uint64_t to;
        const uint64_t *most;
    } rows[] = {
        {&policy->resources.memory_bytes,     TRACE_MEMORY,  site ? &site->resources.memory_bytes : &none    },
        {&policy->resources.pids,             TRACE_PIDS,    site ? &site->resources.pids : &none            },
        {&policy->resources.files,            TRACE_FILES,   site ? &site->resources.files : &none           },
        {&policy->resources.wall_time_ns,     TRACE_WALL_NS, site ? &site->resources.wall_time_ns : &none    },
        {&policy->resources.cpu_time_ns,      PIN_UNLIMITED, site ? &site->resources.cpu_time_ns : &none     },
        {&policy->resources.stdout_bytes,     TRACE_OUTPUT,  site ? &site->resources.stdout_bytes : &none    },
        {&policy->resources.stderr_bytes,     TRACE_OUTPUT,  site ? &site->resources.stderr_bytes : &none    },
        {&policy->filesystem.tmp_bytes,       TRACE_TMP,     site ? &site->filesystem.tmp_bytes : &none      },
        {&policy->filesystem.root_size_bytes, TRACE_TMP,     site ? &site->filesystem.root_size_bytes : &none},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        raise(rows[i].value, rows[i].to, *rows[i].most);
    policy->resources.millicpus = site != NULL ? site->resources.millicpus : 0;
}

static void add_write(struct pin_policy *policy, const char *path) {
    struct pin_strings *write = &policy->filesystem.write;
    struct pin_string *items = pin_arena_array(&policy->arena, write->count + 1, sizeof(*items));
    for (size_t i = 0; i < write->count; i++) {
        if (strcmp(write->items[i].text, path) == 0)
            return;
        items[i] = write->items[i];
    }
    items[write->count++] = (struct pin_string){path, {.file = "trace"}};
    write->items = items;
}

/* An overlay that is thrown away, in which everything may be written. */
static void widen_files(struct pin_policy *policy, const struct pin_policy *site) {
    if (site == NULL || site->filesystem.root == PIN_ROOT_OVERLAY)
        policy->filesystem.root = PIN_ROOT_OVERLAY;
    add_write(policy, "/tmp");
    add_write(policy, "/dev/shm");
    if (policy->filesystem.root == PIN_ROOT_OVERLAY)
        add_write(policy, "/");
    policy->filesystem.workspace = site != NULL ? site->filesystem.workspace : PIN_ACCESS_WRITE;
}

static bool names(const struct pin_syscall_entry *entries, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].name, name) == 0)
            return true;
    return false;
}

/* What programs only try first is answered ENOSYS, so that they take the way that they will take under a
 * smaller baseline. */
static void deny_first_tries(struct pin_policy *policy) {
    struct pin_syscall_entry *entries =
        pin_arena_array(&policy->arena, pin_syscall_enosys.count, sizeof(*entries));
    size_t count = 0;
    for (size_t i = 0; i < pin_syscall_enosys.count; i++) {
        const char *name = pin_syscalls[pin_syscall_enosys.rows[i]].name;
        if (!names(policy->syscalls.allow, policy->syscalls.allow_count, name))
            entries[count++] = (struct pin_syscall_entry){.name = name, .place = {.file = "trace"}};
    }
    policy->syscalls.deny = entries;
    policy->syscalls.deny_count = count;
}

/* All calls that may be granted at all. */
static void widen_calls(struct pin_policy *policy) {
    bool walled = strcmp(policy->syscalls.baseline, "oci") != 0;
    struct pin_syscall_entry *entries =
        pin_arena_array(&policy->arena, pin_syscalls_count + policy->syscalls.allow_count, sizeof(*entries));
    size_t count = 0;
    deny_first_tries(policy);
    if (walled)
        policy->syscalls.baseline = "build";
    for (size_t i = 0; i < policy->syscalls.allow_count; i++)
        entries[count++] = policy->syscalls.allow[i];
    for (size_t i = 0; i < pin_syscalls_count; i++) {
        const struct pin_syscall *call = &pin_syscalls[i];
        if (call->never == NULL && call->since == NULL && !pin_syscall_in(&pin_syscall_enosys, call))
            entries[count++] = (struct pin_syscall_entry){.name = call->name, .place = {.file = "trace"}};
    }
    policy->syscalls.allow = entries;
    policy->syscalls.allow_count = count;
    policy->syscalls.on_deny = PIN_ON_DENY_ERRNO;
}

/* With a rule the broker runs and tells what was wanted. The one without `any` names what can't be: the top
 * level domain "invalid" is nobody's (RFC 6761). */
static void widen_network(struct pin_policy *policy, bool any) {
    static struct pin_port_range all = {1, 65535}, one = {1, 1};
    struct pin_egress_rule nothing = {
        .host = "nothing.invalid", .ports = &one, .port_count = 1, .place = {.file = "trace"}};
    size_t own = any ? policy->network.egress_count : 0;
    struct pin_egress_rule *rules = pin_arena_array(&policy->arena, own + 2, sizeof(*rules));
    for (size_t i = 0; i < own; i++)
        rules[i] = policy->network.egress[i];
    for (int i = 0; any && i < PIN_PROTOCOL_COUNT; i++)
        rules[own++] = (struct pin_egress_rule){.host = "*",
                                                .ports = &all,
                                                .port_count = 1,
                                                .protocol = (enum pin_protocol)i,
                                                .place = {.file = "trace"}};
    if (!any)
        rules[own++] = nothing;
    policy->network.egress = rules;
    policy->network.egress_count = own;
    policy->network.deny_count = 0;
}

void pin_trace_widen(struct pin_policy *policy, const struct pin_policy *site, bool any) {
    widen_resources(policy, site);
    widen_files(policy, site);
    widen_calls(policy);
    widen_network(policy, any);
    policy->audit.record.count = 0;
    pin_policy_seal(policy);
}
