#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "policy/audit/lint_checks.h"
#include "policy/policy_read.h"

/* --- system calls --- */

static void check_wall(const struct pin_lint_check *check) {
    const struct pin_reach *reach = check->reach;
    for (size_t i = 0; i < pin_syscalls_count; i++) {
        const struct pin_syscall *call = &pin_syscalls[i];
        if (call->never == NULL || reach->calls[i] == PIN_REACH_NONE)
            continue;
        struct pin_reach_source source = pin_reach_source(reach, &check->lint->arena, call);
        pin_lint_add(check, PIN_LINT_WALL_SYSCALL, source.pointer, &source.place, "'%s' is allowed: it %s",
                     call->name, call->never);
    }
}

/* Whether the filter is the same without the entry. */
static bool filter_stays(const struct pin_lint_check *check, bool allow, size_t index) {
    struct pin_policy *copy = pin_policy_copy(check->policy);
    struct pin_syscall_entry *list = allow ? copy->syscalls.allow : copy->syscalls.deny;
    size_t *count = allow ? &copy->syscalls.allow_count : &copy->syscalls.deny_count;
    memmove(&list[index], &list[index + 1], (*count - index - 1) * sizeof(*list));
    (*count)--;
    PIN_REACH struct pin_reach without = {0};
    struct pin_findings ignored = {0}; /* a filter with less in it can always be made */
    const struct pin_filter *with = &check->reach->filter;
    bool same = pin_reach_make(&without, copy, check->reach->arch, &ignored) &&
                without.filter.rule_count == with->rule_count;
    for (size_t i = 0; same && i < with->rule_count; i++) {
        const struct pin_filter_rule *a = &with->rules[i], *b = &without.filter.rules[i];
        same = strcmp(a->name, b->name) == 0 && a->action == b->action && a->error == b->error &&
               a->arg_count == b->arg_count &&
               memcmp(a->args, b->args, a->arg_count * sizeof(a->args[0])) == 0;
    }
    pin_policy_free(copy);
    return same;
}

#define EFFECT_CHECKS_MAX 64 /* each costs a filter */

static void check_effects(const struct pin_lint_check *check) {
    const struct pin_policy *policy = check->policy;
    for (size_t i = 0; i < policy->syscalls.allow_count && i < EFFECT_CHECKS_MAX; i++)
        if (filter_stays(check, true, i))
            pin_lint_add(check, PIN_LINT_NO_EFFECT, pin_lint_item(check, PIN_FIELD_SYSCALLS_ALLOW, i),
                         &policy->syscalls.allow[i].place, "allowing '%s' changes nothing",
                         policy->syscalls.allow[i].name);
    for (size_t i = 0; i < policy->syscalls.deny_count && i < EFFECT_CHECKS_MAX; i++)
        if (filter_stays(check, false, i))
            pin_lint_add(check, PIN_LINT_NO_EFFECT, pin_lint_item(check, PIN_FIELD_SYSCALLS_DENY, i),
                         &policy->syscalls.deny[i].place, "denying '%s' changes nothing",
                         policy->syscalls.deny[i].name);
}

/* --- limits --- */

static void check_limits(const struct pin_lint_check *check) {
    const struct pin_policy *policy = check->policy;
    const struct {
        enum pin_field field;
        bool missing;
        const char *name;
    } rows[] = {
        {PIN_FIELD_MEMORY,               policy->resources.memory_bytes == PIN_UNLIMITED,                    "memory"         },
        {PIN_FIELD_SWAP,                 policy->resources.swap_bytes == PIN_UNLIMITED,                      "swap"           },
        {PIN_FIELD_CPUS,                 policy->resources.millicpus == 0,                                   "processors"     },
        {PIN_FIELD_PIDS,                 policy->resources.pids == PIN_UNLIMITED,                            "processes"      },
        {PIN_FIELD_WALL_TIME,            policy->resources.wall_time_ns == PIN_UNLIMITED,                    "time"           },
        {PIN_FIELD_STDOUT,               policy->resources.stdout_bytes == PIN_UNLIMITED,                    "standard output"},
        {PIN_FIELD_STDERR,               policy->resources.stderr_bytes == PIN_UNLIMITED,                    "standard error" },
        {PIN_FIELD_FILESYSTEM_ROOT_SIZE,
         policy->filesystem.root == PIN_ROOT_OVERLAY && policy->filesystem.root_size_bytes == PIN_UNLIMITED,
         "the root overlay"                                                                                                   },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (rows[i].missing)
            pin_lint_add(check, PIN_LINT_NO_LIMIT, pin_field_pointer(rows[i].field),
                         &policy->places[rows[i].field], "%s has no limit", rows[i].name);
    if (policy->resources.core_bytes > 0 && policy->secrets.count > 0)
        pin_lint_add(check, PIN_LINT_CORE_SECRETS, pin_field_pointer(PIN_FIELD_CORE),
                     &policy->places[PIN_FIELD_CORE], "core files may hold the secrets of the policy");
}

/* --- secrets and variables --- */

static bool looks_secret(const char *name) {
    static const char *const patterns[] = {"*TOKEN*",       "*SECRET*",  "*PASSWORD*",
                                           "*PASSWD*",      "*API_KEY*", "*APIKEY*",
                                           "*PRIVATE_KEY*", "*_KEY",     "*CREDENTIAL*"};
    for (size_t i = 0; i < PIN_COUNT(patterns); i++)
        if (pin_glob_match(patterns[i], name))
            return true;
    return false;
}

static void check_variables(const struct pin_lint_check *check) {
    const struct pin_policy *policy = check->policy;
    bool loader = false;
    for (size_t i = 0; i < policy->environment.pass.count; i++)
        if (looks_secret(policy->environment.pass.items[i].text))
            pin_lint_add(check, PIN_LINT_PASSED_SECRET, pin_lint_item(check, PIN_FIELD_PASS, i),
                         &policy->environment.pass.items[i].place, "the host's variable '%s' is passed in",
                         policy->environment.pass.items[i].text);
    for (size_t i = 0; i < policy->environment.set_count; i++) {
        const struct pin_variable *variable = &policy->environment.set[i];
        if (looks_secret(variable->name) && variable->value[0] != '\0')
            pin_lint_add(check, PIN_LINT_SET_SECRET,
                         pin_arena_printf(&check->lint->arena, "/environment/set/%s", variable->name),
                         &variable->place, "the value of '%s' stands in the policy", variable->name);
    }
    for (size_t i = 0; i < policy->environment.refuse.count; i++)
        loader = loader || pin_glob_match(policy->environment.refuse.items[i].text, "LD_PRELOAD");
    if (!loader)
        pin_lint_add(check, PIN_LINT_LOADER, pin_field_pointer(PIN_FIELD_REFUSE),
                     &policy->places[PIN_FIELD_REFUSE], "LD_PRELOAD isn't refused");
}

static void check_secrets(const struct pin_lint_check *check) {
    const struct pin_policy *policy = check->policy;
    bool one = policy->network.egress_count == 1 && policy->network.egress[0].host != NULL &&
               policy->network.egress[0].host[0] != '*';
    if (policy->network.egress_count == 0 || one)
        return;
    for (size_t i = 0; i < policy->secrets.count; i++)
        pin_lint_add(check, PIN_LINT_SECRET_HOSTS, pin_lint_item(check, PIN_FIELD_SECRETS, i),
                     &policy->secrets.items[i].place, "'%s' can be sent to each destination of %zu rules",
                     policy->secrets.items[i].text, policy->network.egress_count);
}

/* --- the rest --- */

static const char *const strong[] = {
    "CAP_SYS_ADMIN",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_PTRACE",
    "CAP_SYS_BOOT",
    "CAP_NET_ADMIN",
    "CAP_BPF",
    "CAP_PERFMON",
    "CAP_MAC_ADMIN",
    "CAP_DAC_READ_SEARCH",
    "CAP_SYS_TIME",
    "CAP_MKNOD",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SYS_CHROOT",
    "CAP_DAC_OVERRIDE",
    "CAP_CHECKPOINT_RESTORE",
    "CAP_SYSLOG",
    "CAP_SYS_RESOURCE",
};

static void check_capabilities(const struct pin_lint_check *check) {
    const struct pin_policy *policy = check->policy;
    unsigned index = 0;
    for (unsigned i = 0; i < PIN_CAPABILITY_COUNT; i++) {
        const char *name = pin_capability_name(i);
        if ((policy->capabilities >> i & 1) == 0)
            continue;
        const struct pin_place *own = &policy->capability_places[i];
        const char *pointer = pin_lint_item(check, PIN_FIELD_CAPABILITIES, index++);
        if (pin_name_find(strong, PIN_COUNT(strong), name) >= 0)
            pin_lint_add(check, PIN_LINT_CAPABILITY, pointer,
                         own->file != NULL ? own : &policy->places[PIN_FIELD_CAPABILITIES], "'%s' is granted",
                         name);
    }
    if (policy->privileged)
        pin_lint_add(check, PIN_LINT_PRIVILEGED, pin_field_pointer(PIN_FIELD_PRIVILEGED),
                     &policy->places[PIN_FIELD_PRIVILEGED], "the sandbox is privileged");
    if (policy->identity.user == 0)
        pin_lint_add(check, PIN_LINT_ROOT, pin_field_pointer(PIN_FIELD_USER), &policy->places[PIN_FIELD_USER],
                     "processes run as root of the sandbox");
}

static void check_optional(const struct pin_lint_check *check) {
    const struct pin_policy *policy = check->policy;
    for (unsigned i = 0; i < PIN_PROTECT_COUNT; i++)
        if ((policy->optional >> i & 1) != 0)
            pin_lint_add(check, PIN_LINT_OPTIONAL, pin_field_pointer(PIN_FIELD_OPTIONAL),
                         &policy->places[PIN_FIELD_OPTIONAL], "'%s' is optional",
                         pin_protection_name((enum pin_protection)i));
}

static void check_images(const struct pin_lint_check *check) {
    const struct pin_policy *policy = check->policy;
    for (size_t i = 0; i < policy->image_count; i++)
        if (strcmp(policy->images[i].pattern, "*") == 0 && !policy->images[i].require_signature)
            pin_lint_add(check, PIN_LINT_ANY_IMAGE, pin_lint_item(check, PIN_FIELD_IMAGES, i),
                         &policy->images[i].place, "any image may be run, signed or not");
}

void pin_lint_check_grants(const struct pin_lint_check *check) {
    check_wall(check);
    check_effects(check);
    check_limits(check);
    check_variables(check);
    check_secrets(check);
    check_capabilities(check);
    check_optional(check);
    check_images(check);
}
