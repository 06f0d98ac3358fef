/* The process of an engine's container: command, capabilities, labels, scheduling. */
#include <stdio.h>
#include <string.h>

#include <linux/ioprio.h>
#include <linux/sched.h>

#include "base/names.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/plan_parts.h"

static const char *const io_classes[] = {
    [IOPRIO_CLASS_RT] = "IOPRIO_CLASS_RT",
    [IOPRIO_CLASS_BE] = "IOPRIO_CLASS_BE",
    [IOPRIO_CLASS_IDLE] = "IOPRIO_CLASS_IDLE",
};

static const char *const scheduler_policies[] = {
    [SCHED_NORMAL] = "SCHED_OTHER",      [SCHED_FIFO] = "SCHED_FIFO", [SCHED_RR] = "SCHED_RR",
    [SCHED_BATCH] = "SCHED_BATCH",       [4] = "SCHED_ISO",           [SCHED_IDLE] = "SCHED_IDLE",
    [SCHED_DEADLINE] = "SCHED_DEADLINE",
};

static const struct {
    const char *name;
    uint64_t flag;
} scheduler_flags[] = {
    {"SCHED_FLAG_RESET_ON_FORK",  SCHED_FLAG_RESET_ON_FORK },
    {"SCHED_FLAG_RECLAIM",        SCHED_FLAG_RECLAIM       },
    {"SCHED_FLAG_DL_OVERRUN",     SCHED_FLAG_DL_OVERRUN    },
    {"SCHED_FLAG_KEEP_POLICY",    SCHED_FLAG_KEEP_POLICY   },
    {"SCHED_FLAG_KEEP_PARAMS",    SCHED_FLAG_KEEP_PARAMS   },
    {"SCHED_FLAG_UTIL_CLAMP_MIN", SCHED_FLAG_UTIL_CLAMP_MIN},
    {"SCHED_FLAG_UTIL_CLAMP_MAX", SCHED_FLAG_UTIL_CLAMP_MAX},
};

static void plan_scheduler_flags(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    for (size_t i = 0; i < bundle->process.scheduler_flag_count; i++) {
        uint64_t flag = 0;
        for (size_t j = 0; j < PIN_COUNT(scheduler_flags); j++)
            if (strcmp(scheduler_flags[j].name, bundle->process.scheduler_flags[i]) == 0)
                flag = scheduler_flags[j].flag;
        plan->engine.scheduler_flags |= flag;
        if (flag == 0)
            (void)pin_find(found, PIN_ERROR_INVALID, "/process/scheduler/flags", NULL,
                           "'%.40s' is no flag of a scheduler", bundle->process.scheduler_flags[i]);
    }
}

static void plan_scheduling(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    struct pin_plan_engine *engine = &plan->engine;
    if (bundle->process.has_io_priority) {
        const char *name = bundle->process.io_priority_class;
        int class = name == NULL ? -1 : pin_name_find(io_classes, PIN_COUNT(io_classes), name);
        if (class < 0)
            (void)pin_find(found, PIN_ERROR_INVALID, "/process/ioPriority/class", NULL,
                           "this is no class of I/O priority");
        else
            engine->io_priority = class << IOPRIO_CLASS_SHIFT | bundle->process.io_priority;
        engine->has_io_priority = true;
    }
    if (bundle->process.has_scheduler) {
        const char *name = bundle->process.scheduler_policy;
        int policy =
            name == NULL ? -1 : pin_name_find(scheduler_policies, PIN_COUNT(scheduler_policies), name);
        if (policy < 0)
            (void)pin_find(found, PIN_ERROR_INVALID, "/process/scheduler/policy", NULL,
                           "this is no scheduling policy");
        else
            engine->scheduler_policy = (uint32_t)policy;
        engine->has_scheduler = true;
        plan_scheduler_flags(plan, found);
    }
    if (bundle->personality_domain != NULL) {
        bool linux32 = strcmp(bundle->personality_domain, "LINUX32") == 0;
        if (!linux32 && strcmp(bundle->personality_domain, "LINUX") != 0)
            (void)pin_find(found, PIN_ERROR_INVALID, "/linux/personality/domain", NULL,
                           "'%.20s' is no domain of a personality", bundle->personality_domain);
        engine->has_personality = true;
        engine->personality = linux32 ? 0x0008 : 0;
    }
}

void pin_plan_unheeded(struct pin_plan *plan, const char *pointer, const char *why) {
    *(const char **)pin_arena_grow(&plan->arena, &plan->engine.unheeded, &plan->engine.unheeded_count,
                                   sizeof(const char *)) =
        pin_arena_printf(&plan->arena, "%s (%s)", why, pointer);
}

static void plan_label(struct pin_plan *plan, const struct pin_engine_request *request,
                       struct pin_findings *found) {
    const char *apparmor = plan->bundle->process.apparmor_profile,
               *selinux = plan->bundle->process.selinux_label;
    if (apparmor != NULL && apparmor[0] != '\0' && request->apparmor) {
        plan->engine.label_file = "/proc/thread-self/attr/apparmor/exec";
        plan->engine.label = pin_arena_printf(&plan->arena, "exec %s", apparmor);
    } else if (apparmor != NULL && apparmor[0] != '\0' && strcmp(apparmor, "unconfined") != 0) {
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/process/apparmorProfile", "leave it out",
                       "apparmor: config provided but apparmor not supported");
    }
    if (selinux != NULL && selinux[0] != '\0' && request->selinux) {
        plan->engine.label_file = "/proc/thread-self/attr/exec";
        plan->engine.label = selinux;
    } else if (selinux != NULL && selinux[0] != '\0') {
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/process/selinuxLabel", "leave it out",
                       "selinux label is specified in config, but selinux is disabled or not supported");
    }
}

static void plan_listener(const struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_filter *filter = &plan->bundle->seccomp;
    bool notifies = filter->default_action == PIN_FILTER_NOTIFY;
    for (size_t i = 0; i < filter->rule_count; i++)
        notifies |= filter->rules[i].action == PIN_FILTER_NOTIFY;
    bool path = filter->listener_path != NULL && filter->listener_path[0] != '\0';
    if (filter->present && notifies && !path)
        (void)pin_find(found, PIN_ERROR_INVALID, "/linux/seccomp/listenerPath", "name the agent's socket",
                       "SCMP_ACT_NOTIFY needs somebody who answers");
    if (path && !notifies)
        (void)pin_find(found, PIN_ERROR_INVALID, "/linux/seccomp/listenerPath", "leave it out",
                       "no rule has SCMP_ACT_NOTIFY");
}

/* " CAP_KILL CAP_CHOWN" */
static const char *name_capabilities(struct pin_plan *plan, uint64_t set) {
    const char *names = "";
    for (unsigned i = 0; i < PIN_CAPABILITY_COUNT; i++)
        if (set >> i & 1)
            names = pin_arena_printf(&plan->arena, "%s %s", names, pin_capability_name(i));
    return names;
}

/* The words are runc's: the specification wants a warning and no failure. */
static void warn_of_capabilities(struct pin_plan *plan, uint64_t missing) {
    const struct pin_bundle *bundle = plan->bundle;
    const char *names = name_capabilities(plan, missing);
    for (size_t i = 0; i < bundle->process.unknown_capability_count; i++)
        names = pin_arena_printf(&plan->arena, "%s %.64s", names, bundle->process.unknown_capabilities[i]);
    if (names[0] != '\0')
        pin_plan_unheeded(
            plan, "/process/capabilities",
            pin_arena_printf(&plan->arena, "ignoring unknown or unavailable capabilities: [%s]", names + 1));
}

static void plan_capabilities(struct pin_plan *plan, const struct pin_engine_request *request) {
    const struct pin_bundle *bundle = plan->bundle;
    uint64_t mine = bundle->namespaces[PIN_NS_USER].present ? UINT64_MAX : request->capabilities;
    uint64_t missing = 0;
    for (int i = 0; i < PIN_CAP_SET_COUNT; i++) {
        plan->capabilities[i] = bundle->process.capabilities[i] & mine;
        missing |= bundle->process.capabilities[i] & ~mine;
    }
    warn_of_capabilities(plan, missing);
    /* templates ask for ambient ones that the kernel never raises: capabilities(7) */
    uint64_t raised = plan->capabilities[PIN_CAP_PERMITTED] & plan->capabilities[PIN_CAP_INHERITABLE];
    const char *never = name_capabilities(plan, plan->capabilities[PIN_CAP_AMBIENT] & ~raised);
    if (never[0] != '\0')
        pin_plan_unheeded(plan, "/process/capabilities/ambient",
                          pin_arena_printf(&plan->arena,
                                           "ignoring ambient capabilities that aren't permitted and "
                                           "inheritable: [%s]",
                                           never + 1));
    plan->capabilities[PIN_CAP_AMBIENT] &= raised;
}

void pin_plan_engine_process(struct pin_plan *plan, const struct pin_host *host,
                             const struct pin_engine_request *request, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    struct pin_plan_engine *engine = &plan->engine;
    if (bundle->process.arg_count == 0)
        (void)pin_find(found, PIN_ERROR_INVALID, "/process/args", NULL, "process args is empty");
    if (bundle->process.cwd == NULL || bundle->process.cwd[0] != '/')
        (void)pin_find(found, PIN_ERROR_INVALID, "/process/cwd", NULL, "cwd must be an absolute path");
    engine->argv = pin_arena_array(&plan->arena, bundle->process.arg_count + 1, sizeof(char *));
    for (size_t i = 0; i < bundle->process.arg_count; i++)
        engine->argv[i] = pin_arena_strdup(&plan->arena, bundle->process.args[i]);
    engine->envp = pin_arena_array(&plan->arena, bundle->process.env_count + 2, sizeof(char *));
    for (size_t i = 0; i < bundle->process.env_count; i++)
        engine->envp[i] = pin_arena_strdup(&plan->arena, bundle->process.env[i]);
    engine->env_count = bundle->process.env_count;
    engine->terminal = bundle->process.terminal;
    engine->kept_descriptors = request->kept_descriptors;
    plan_capabilities(plan, request);
    plan->no_new_privileges = bundle->process.no_new_privileges;
    plan->new_keyring = !request->no_new_keyring;
    plan->has_oom_score_adj = bundle->process.has_oom_score_adj;
    plan->oom_score_adj = bundle->process.oom_score_adj;
    plan_label(plan, request, found);
    plan_listener(plan, found);
    plan_scheduling(plan, found);
    pin_plan_rlimits(plan, host, found);
}
