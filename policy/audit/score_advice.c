#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "policy/audit/score.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"

/* An edit that narrows a copy of the policy; what it wins is scored, not guessed. */
struct trial {
    struct pin_score *score;
    const struct pin_reach *reach;
    const struct pin_weights *weights;
};

static bool is_better(const struct pin_score_advice *a, const struct pin_score_advice *b) {
    return a->gain / a->cost > b->gain / b->cost;
}

static void keep(struct pin_score *score, const struct pin_score_advice *advice) {
    size_t at = 0;
    while (at < score->advice_count && !is_better(advice, &score->advice[at]))
        at++;
    if (at == PIN_SCORE_ADVICE_MAX)
        return;
    size_t last = score->advice_count < PIN_SCORE_ADVICE_MAX ? score->advice_count : PIN_SCORE_ADVICE_MAX - 1;
    memmove(&score->advice[at + 1], &score->advice[at], (last - at) * sizeof(*advice));
    score->advice[at] = *advice;
    score->advice_count = last + 1;
}

#define LEAST_GAIN 0.005

/* Scores the changed copy, which it frees. */
static void weigh(const struct trial *trial, struct pin_policy *changed, unsigned cost, const char *text,
                  const char *edit) {
    PIN_REACH struct pin_reach reach = {0};
    PIN_SCORE struct pin_score score = {0};
    struct pin_findings found = {0};
    if (pin_reach_make(&reach, changed, trial->reach->arch, &found)) {
        pin_score_make(&score, &reach, trial->weights);
        struct pin_score_advice advice = {.gain = trial->score->total - score.total, .cost = cost};
        if (advice.gain >= LEAST_GAIN) {
            advice.text = pin_arena_strdup(&trial->score->arena, text);
            advice.edit = pin_arena_strdup(&trial->score->arena, edit);
            keep(trial->score, &advice);
        }
    }
    pin_policy_free(changed);
}

static struct pin_policy *copy_of(const struct trial *trial) {
    return pin_policy_copy(trial->reach->policy);
}

static const char *format(const struct trial *trial, const char *before, const char *middle,
                          const char *after) {
    return pin_arena_printf(&trial->score->arena, "%s%s%s", before, middle, after);
}

/* --- system calls --- */

static void deny(struct pin_policy *policy, const char *name) {
    size_t count = policy->syscalls.deny_count;
    struct pin_syscall_entry *list = pin_arena_array(&policy->arena, count + 1, sizeof(*list));
    if (count > 0)
        memcpy(list, policy->syscalls.deny, count * sizeof(*list));
    list[count].name = pin_arena_strdup(&policy->arena, name);
    policy->syscalls.deny = list;
    policy->syscalls.deny_count = count + 1;
}

static void try_denying(const struct trial *trial, const char *name, unsigned cost, const char *text) {
    struct pin_policy *copy = copy_of(trial);
    deny(copy, name);
    weigh(trial, copy, cost, text, format(trial, "{\"syscalls\":{\"deny\":{\"add\":[\"", name, "\"]}}}"));
}

/* What tools miss least comes at the lowest cost. */
static const struct {
    const char *name;
    unsigned cost;
} deniable[] = {
    {"ptrace",       1},
    {"@debug",       1},
    {"@numa",        1},
    {"@chroot",      1},
    {"@aio",         1},
    {"@ipc",         2},
    {"@xattr",       2},
    {"@inotify",     2},
    {"@sandbox",     2},
    {"@setuid",      2},
    {"splice",       1},
    {"vmsplice",     1},
    {"tee",          1},
    {"timer_create", 2},
    {"sendfile",     2},
    {"setsockopt",   3},
    {"@io-uring",    1},
    {"@keyring",     1},
    {"@mount",       2},
    {"@namespace",   2},
    {"personality",  1},
};

static void try_calls(const struct trial *trial) {
    const struct pin_policy *policy = trial->reach->policy;
    static const char *const smaller[][2] = {
        {"oci",   "build" },
        {"build", "tool"  },
        {"tool",  "strict"}
    };
    for (size_t i = 0; i < PIN_COUNT(deniable); i++)
        try_denying(trial, deniable[i].name, deniable[i].cost, format(trial, "deny ", deniable[i].name, ""));
    if (policy->network.egress_count == 0)
        try_denying(trial, "@network", 3,
                    "deny @network: no destination is named, though local sockets go too");
    for (size_t i = 0; i < PIN_COUNT(smaller); i++) {
        if (strcmp(policy->syscalls.baseline, smaller[i][0]) != 0)
            continue;
        struct pin_policy *copy = copy_of(trial);
        copy->syscalls.baseline = smaller[i][1];
        weigh(trial, copy, 3, format(trial, "use the baseline ", smaller[i][1], ""),
              format(trial, "{\"syscalls\":{\"baseline\":\"", smaller[i][1], "\"}}"));
    }
}

/* --- files --- */

static void try_files(const struct trial *trial) {
    const struct pin_policy *policy = trial->reach->policy;
    if (policy->filesystem.workspace == PIN_ACCESS_WRITE) {
        struct pin_policy *copy = copy_of(trial);
        copy->filesystem.workspace = PIN_ACCESS_COW;
        weigh(trial, copy, 1, "make the workspace copy-on-write",
              "{\"filesystem\":{\"workspace\":{\"access\":\"copy-on-write\"}}}");
    }
    if (policy->filesystem.root == PIN_ROOT_OVERLAY) {
        struct pin_policy *copy = copy_of(trial);
        copy->filesystem.root = PIN_ROOT_READ_ONLY;
        weigh(trial, copy, 2, "make the root read-only", "{\"filesystem\":{\"root\":\"read-only\"}}");
    }
    for (size_t i = 0; i < policy->filesystem.mount_count && i < 8; i++) {
        const struct pin_mount_rule *mount = &policy->filesystem.mounts[i];
        if (mount->access != PIN_ACCESS_WRITE)
            continue;
        struct pin_policy *copy = copy_of(trial);
        struct pin_arena *arena = &trial->score->arena;
        copy->filesystem.mounts[i].access = PIN_ACCESS_READ;
        const char *before = pin_policy_item_text(arena, PIN_FIELD_MOUNTS, mount);
        const char *after = pin_policy_item_text(arena, PIN_FIELD_MOUNTS, &copy->filesystem.mounts[i]);
        weigh(trial, copy, 2, format(trial, "mount '", mount->target, "' read-only"),
              pin_arena_printf(arena, "{\"filesystem\":{\"mounts\":{\"remove\":[%s],\"add\":[%s]}}}", before,
                               after));
    }
}

/* --- capabilities, identity, descriptors --- */

static void try_identity(const struct trial *trial) {
    const struct pin_policy *policy = trial->reach->policy;
    for (unsigned i = 0; i < PIN_CAPABILITY_COUNT; i++) {
        const char *name = pin_capability_name(i);
        if ((policy->capabilities >> i & 1) == 0)
            continue;
        struct pin_policy *copy = copy_of(trial);
        copy->capabilities &= ~(UINT64_C(1) << i);
        weigh(trial, copy, 1, format(trial, "drop ", name, ""),
              format(trial, "{\"capabilities\":{\"remove\":[\"", name, "\"]}}"));
    }
    if (policy->privileged) {
        struct pin_policy *copy = copy_of(trial);
        copy->privileged = false;
        weigh(trial, copy, 1, "don't run it privileged", "{\"privileged\":false}");
    }
    if (policy->identity.user == 0) {
        struct pin_policy *copy = copy_of(trial);
        copy->identity.user = copy->identity.group = 1000;
        weigh(trial, copy, 2, "run as an ordinary user", "{\"identity\":{\"user\":1000,\"group\":1000}}");
    }
    if (policy->tty) {
        struct pin_policy *copy = copy_of(trial);
        copy->tty = false;
        weigh(trial, copy, 1, "grant no terminal", "{\"tty\":false}");
    }
    if ((policy->frames & ~(uint32_t)PIN_FRAMES_FD) != 0) {
        struct pin_policy *copy = copy_of(trial);
        copy->frames &= PIN_FRAMES_FD;
        weigh(trial, copy, 1, "read frames from their own descriptor alone", "{\"frames\":[\"fd\"]}");
    }
}

/* --- egress, secrets, limits --- */

static void drop_egress(struct pin_policy *policy, size_t index) {
    struct pin_egress_rule *rules = policy->network.egress;
    memmove(&rules[index], &rules[index + 1], (policy->network.egress_count - index - 1) * sizeof(*rules));
    policy->network.egress_count--;
}

#define RULES_TRIED 16

static void try_egress(const struct trial *trial) {
    const struct pin_policy *policy = trial->reach->policy;
    size_t tried = 0;
    for (size_t i = 0; i < policy->network.egress_count && tried < RULES_TRIED; i++) {
        const struct pin_egress_rule *rule = &policy->network.egress[i];
        if (rule->host != NULL && rule->host[0] != '*')
            continue;
        const char *text = pin_policy_item_text(&trial->score->arena, PIN_FIELD_EGRESS, rule);
        struct pin_policy *copy = copy_of(trial);
        drop_egress(copy, i);
        weigh(trial, copy, 2, format(trial, "name hosts instead of ", text, ""),
              format(trial, "{\"network\":{\"egress\":{\"remove\":[", text, "]}}}"));
        tried++;
    }
}

static void try_limits(const struct trial *trial) {
    const struct pin_policy *policy = trial->reach->policy;
    struct pin_policy *copy;
    if (policy->resources.memory_bytes == PIN_UNLIMITED) {
        copy = copy_of(trial);
        copy->resources.memory_bytes = 2 * PIN_GIB;
        weigh(trial, copy, 1, "limit memory", "{\"resources\":{\"memory\":\"2GiB\"}}");
    }
    if (policy->resources.pids == PIN_UNLIMITED) {
        copy = copy_of(trial);
        copy->resources.pids = 512;
        weigh(trial, copy, 1, "limit processes", "{\"resources\":{\"pids\":512}}");
    }
    if (policy->resources.wall_time_ns == PIN_UNLIMITED) {
        copy = copy_of(trial);
        copy->resources.wall_time_ns = 3600 * PIN_NS_PER_S;
        weigh(trial, copy, 2, "limit time", "{\"resources\":{\"wall_time\":\"1h\"}}");
    }
    if (policy->optional != 0) {
        copy = copy_of(trial);
        copy->optional = 0;
        weigh(trial, copy, 2, "make every protection mandatory", "{\"optional\":[]}");
    }
}

void pin_score_advise(struct pin_score *score, const struct pin_reach *reach,
                      const struct pin_weights *weights) {
    const struct trial trial = {score, reach, weights};
    try_calls(&trial);
    try_files(&trial);
    try_identity(&trial);
    try_egress(&trial);
    try_limits(&trial);
}
