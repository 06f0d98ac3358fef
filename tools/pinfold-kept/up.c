/* up: from a command line to a sandbox that stays, with a supervisor of its own in the background. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "policy/policy_read.h"
#include "policy/policy_snapshot.h"
#include "runtime/build/cgroup/leaf.h"
#include "runtime/bundle/bundle_ceiling.h"
#include "runtime/bundle/bundle_write.h"
#include "tools/pinfold-kept/up.h"
#include "tools/pinfold-kept/up_books.h"
#include "tools/pinfold-kept/verbs.h"
#include "tools/pinfold/lease.h"
#include "tools/pinfold/refusal.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/workspace.h"

struct up_options {
    struct pin_front_options front; /* first: PIN_FRONT_ROWS */
    struct pin_number idle, lifetime;
    const char *receipt;
    bool audit_sync;
};

static const struct pin_option options[] = {
    PIN_FRONT_ROWS,
    {"idle-timeout", 0, PIN_OPTION_TIME, offsetof(struct up_options, idle),       "T",
      "end the sandbox when nobody has used it for this long",       NULL},
    {"lifetime",     0, PIN_OPTION_TIME, offsetof(struct up_options, lifetime),   "T",
      "end the sandbox when it is this old",                         NULL},
    {"audit-sync",   0, PIN_OPTION_FLAG, offsetof(struct up_options, audit_sync), NULL,
      "each audit record is on the disk before the sandbox goes on", NULL},
    {"receipt",      0, PIN_OPTION_TEXT, offsetof(struct up_options, receipt),    "FILE",
      "write what is enforced, signed, into this new file",          NULL},
};

static bool may_set(void *self, const char *variable) {
    const struct up *up = self;
    const struct pin_policy *policy = up->front.effective != NULL ? up->front.effective : up->front.ceiling;
    char name[256];
    size_t length = strcspn(variable, "=");
    if (length >= sizeof(name))
        return false;
    memcpy(name, variable, length);
    name[length] = '\0';
    for (size_t i = 0; i < policy->environment.refuse.count; i++)
        if (pin_glob_match(policy->environment.refuse.items[i].text, name))
            return false;
    return true;
}

struct told { /* NONE: it is up */
    struct pin_error err;
    char fingerprint[PIN_DIGEST_TEXT];
};

/* False: nobody waits for it any more. */
static bool tell(struct up *up, const struct pin_error *err) {
    struct told told = {.err = *err};
    memcpy(told.fingerprint, up->fingerprint, sizeof(told.fingerprint));
    bool heard = write(up->told, &told, sizeof(told)) == (ssize_t)sizeof(told);
    pin_close_fd(&up->told);
    return heard;
}

/* A caller that was interrupted, or cancelled, may not even know the name: nobody would ever use or end it.
 */
static bool tell_ready(void *self, struct pin_error *err) {
    static const struct pin_error none = {0};
    struct up *up = self;
    (void)malloc_trim(0); /* what reading the policy and building took isn't needed any more */
    up->ready = tell(up, &none);
    return up->ready ||
           pin_fail(err, PIN_ERROR_SYSTEM, "who asked for the sandbox has gone before it was up");
}

static bool finish_workspace(struct up *up, struct pin_error *err) {
    if (up->sandbox.changes < 0 || !up->ready)
        return true;
    json_t *changes =
        pin_workspace_finish(up->front.bundle, &up->sandbox, up->front.state_dir, up->name, err);
    bool ok = changes != NULL && pin_home_write(up->home.folder, "changes.json", changes, err);
    json_decref(changes);
    return ok;
}

static bool destroy(void *self, struct pin_error *err) {
    struct up *up = self;
    struct pin_error unread = {0};
    if (up->sandbox.cgroup != NULL)
        (void)pin_cgroup_usage_read(up->sandbox.cgroup, &up->usage, &unread); /* zeroes then */
    struct pin_error left = {0}, unkilled = {0};
    if (up->sandbox.cgroup != NULL)
        (void)pin_cgroup_kill(up->sandbox.cgroup, &unkilled); /* init's death ends all as well */
    bool gone = pin_sandbox_end(&up->sandbox, &left);
    pin_up_end_calls(up);
    pin_egress_session_free(&up->egress); /* over already, but for a sandbox that was never served */
    pin_publishing_free(&up->publishing);
    bool ok = !gone || finish_workspace(up, err); /* nobody writes there any more */
    gone = gone && pin_sandbox_destroy(&up->sandbox, &left) && pin_slot_release(&up->slot, &left);
    if (ok && !gone)
        *err = left;
    return ok && gone;
}

static json_t *serve_egress(void *self, const struct pin_kept_request *request, struct pin_error *err) {
    struct up *up = self;
    json_t *answer =
        pin_live_egress_serve(&up->live, up->front.ceiling, &up->egress, &up->publishing, request, err);
    if (answer != NULL && request->unpublish_count > 0) {
        struct pin_error unwritten = {0}; /* `ls` shows a port that is closed, then */
        (void)json_object_set_new(up->facts, "published", pin_publishing_list(&up->publishing));
        (void)pin_home_write(up->home.folder, "sandbox.json", up->facts, &unwritten);
    }
    return answer;
}

static json_t *describe(struct up *up) {
    const struct pin_bundle_ext *ext = &up->front.bundle->ext;
    struct timespec now;
    json_t *missing = json_array();
    (void)clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < up->missing_count; i++)
        (void)json_array_append_new(missing, json_string(up->missing[i]));
    return json_pack("{s:i, s:s, s:I, s:I, s:s?, s:s?, s:s?, s:s, s:b, s:o, s:o}", "pinfold", 1, "name",
                     up->name, "created_ms",
                     (json_int_t)now.tv_sec * 1000 + now.tv_nsec / (long)PIN_NS_PER_MS, "supervisor",
                     (json_int_t)getpid(), "policy", ext->policy_name, "image", ext->image, "workspace",
                     ext->workspace.source, "fingerprint", up->fingerprint, "audited",
                     (int)up->audit.lifecycle, "missing", missing, "labels", pin_set_up_labels(ext));
}

/* For the auditor: what is enforced here, whatever becomes of the files that say so. */
static bool keep_policy(struct up *up, struct pin_error *err) {
    const struct pin_front *front = &up->front;
    struct pin_policy *asked = NULL;
    if (front->effective == NULL)
        asked = pin_bundle_as_policy(front->bundle, front->ceiling, NULL);
    if (asked != NULL)
        pin_bundle_state_places(asked, front->ceiling);
    json_t *snapshot = pin_policy_snapshot(asked != NULL ? asked : front->effective);
    bool ok = snapshot != NULL ? pin_home_write(up->home.folder, "policy.json", snapshot, err)
                               : pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory for a copy of the policy");
    json_decref(snapshot);
    pin_policy_free(asked);
    return ok;
}

static bool is_sealed(const struct pin_plan *plan, const char *target) {
    for (size_t i = 0; i < plan->op_count; i++)
        if ((plan->ops[i].kind == PIN_OP_SEAL || plan->ops[i].kind == PIN_OP_READ_ONLY) &&
            strcmp(plan->ops[i].target, target) == 0)
            return true;
    return false;
}

static bool is_scratch(const struct pin_plan *plan, const struct pin_op *op) {
    return op->kind == PIN_OP_FILESYSTEM &&
           (strcmp(op->type, "tmpfs") == 0 || strcmp(op->type, "mqueue") == 0) &&
           !is_sealed(plan, op->target);
}

/* The runner, with the file systems that each call may write to, and that nobody else sees. */
static const struct pin_kept_runner *take_runner(struct up *up) {
    const struct pin_plan *plan = up->front.plan;
    if (up->settings == NULL || up->settings->runner == NULL)
        return NULL;
    const char **scratch = pin_arena_array(&up->front.arena, PIN_KEPT_SCRATCH_MAX, sizeof(*scratch));
    up->runner = *up->settings->runner;
    up->runner.scratch = scratch;
    for (size_t i = 0; i < plan->op_count && up->runner.scratch_count < PIN_KEPT_SCRATCH_MAX; i++)
        if (is_scratch(plan, &plan->ops[i]))
            scratch[up->runner.scratch_count++] = plan->ops[i].target;
    return &up->runner;
}

bool pin_up_can_share(const struct pin_front *front, struct pin_error *err) {
    const struct pin_plan *plan = front->plan;
    size_t scratch = 0;
    for (size_t i = 0; i < plan->op_count; i++) {
        scratch += is_scratch(plan, &plan->ops[i]);
        if (plan->ops[i].kind == PIN_OP_OVERLAY)
            return pin_fail(err, PIN_ERROR_UNSUPPORTED, "the workspace is copied for each call");
    }
    for (int set = 0; set < PIN_CAP_SET_COUNT; set++)
        if (plan->capabilities[set] != 0)
            return pin_fail(err, PIN_ERROR_UNSUPPORTED, "the policy grants capabilities");
    if (!plan->root_read_only)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "the root is writable");
    if (!front->bundle->seccomp.present)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "there is no system call filter");
    return scratch <= PIN_KEPT_SCRATCH_MAX ||
           pin_fail(err, PIN_ERROR_UNSUPPORTED, "there are more than %d file systems to write to",
                    PIN_KEPT_SCRATCH_MAX);
}

static bool serve(struct up *up, const struct up_options *values, const char **why, struct pin_error *err) {
    const struct pin_bundle *bundle = up->front.bundle;
    up->missing_count = pin_set_up_missing(up->sandbox.missing, up->missing);
    struct pin_kept_given given = {
        .folder = up->home.folder,
        .name = up->name,
        .fingerprint = up->fingerprint,
        .facts = describe(up),
        .missing = up->missing,
        .missing_count = up->missing_count,
        .sandbox = &up->sandbox,
        .envp = pin_set_up_list(&up->front.arena, bundle->process.env, bundle->process.env_count),
        .cwd = bundle->process.cwd,
        .umask = bundle->process.has_umask ? bundle->process.umask : 0022,
        .has_owner = up->front.plan->ranged,
        .owner_uid = pin_set_up_owner(&up->slot, bundle->process.uid),
        .owner_gid = pin_set_up_owner(&up->slot, bundle->process.gid),
        .first_id = up->front.plan->ranged ? pin_set_up_owner(&up->slot, 0) : 0,
        .image_digest = up->front.request.image_digest,
        .tty = up->front.ceiling->tty,
        .uid = bundle->process.uid,
        .gid = bundle->process.gid,
        .secrets = (const char *const *)bundle->ext.secrets,
        .secret_count = bundle->ext.secret_count,
        .ids = bundle->ext.ids,
        .capabilities = up->front.plan->capabilities[PIN_CAP_AMBIENT],
        .secret_folder = bundle->ext.secret_folder,
        .secret_variables = up->front.secret_variables,
        .secret_variable_count = up->front.secret_variable_count,
        .runner = take_runner(up),
        .idle_ns = values->idle.given ? values->idle.value : PIN_UNLIMITED,
        .lifetime_ns = values->lifetime.given ? values->lifetime.value : PIN_UNLIMITED,
        .self = up,
        .serve_egress = serve_egress,
        .may_set = may_set,
        .may_hand = pin_up_may_hand,
        .denied = pin_up_denied,
        .ready = tell_ready,
        .destroy = destroy,
    };
    pin_up_give_audit(up, &given.audit);
    pin_set_up_limits(&bundle->ext, &given.limits);
    bool ok = given.facts != NULL || pin_fail(err, PIN_ERROR_INVALID, "a label or a path isn't UTF-8");
    ok = ok && pin_up_start_calls(up, err);
    if (ok && up->sandbox.cgroup != NULL)
        ok = pin_cgroup_leaf_prepare(up->sandbox.cgroup, up->sandbox.init, err);
    if (ok && up->sandbox.cgroup != NULL) /* to be paused on v1 it has to be in the freezer too */
        ok =
            pin_cgroup_join(up->sandbox.cgroup, up->front.cgroups, PIN_CGROUP_FREEZER, up->sandbox.init, err);
    ok = ok && pin_up_begin_bill(up, &given, err) && pin_up_start_egress(up, &given.egress, err);
    up->facts = given.facts;
    if (ok && up->publishing.count > 0)
        (void)json_object_set_new(given.facts, "published", pin_publishing_list(&up->publishing));
    if (ok) {
        ok = pin_kept_serve(&given, why, err);
    } else {
        struct pin_error later = {0};
        (void)destroy(up, &later); /* the first cause is the one to tell */
    }
    json_decref(given.facts);
    return ok;
}

static bool leave_caller(struct pin_error *err) {
    struct rlimit files;
    PIN_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || chdir("/") != 0)
        return pin_fail_errno(err, "leave the caller");
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (dup2(null, fd) < 0)
            return pin_fail_errno(err, "leave the caller's descriptors");
    (void)umask(077);
    (void)prctl(PR_SET_NAME, "pinfold-kept", 0, 0, 0);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files); /* fewer clients then */
    }
    return true;
}

/* The list may become another one below the ceiling, with kinds of rules that the first one lacks. */
static void prepare_egress(struct up *up) {
    if (up->front.plan->egress)
        up->front.plan->egress_plan = pin_live_egress_plan(up->front.ceiling);
}

static bool build(struct up *up, struct pin_error *err) {
    prepare_egress(up);
    struct pin_build_input input = {
        .plan = up->front.plan,
        .cgroups = up->front.cgroups,
        .slot = &up->slot,
        .watch = pin_run_calls_wanted(up->front.bundle) ? PIN_WATCH_DENIED : PIN_WATCH_NONE,
    };
    struct pin_result nothing = {.sandbox = up->name, .fingerprint = up->fingerprint};
    bool ok = pin_build(&input, &up->sandbox, err) && pin_run_receipt_read(&up->receipt, &up->sandbox, err) &&
              pin_run_receipt_write(&up->receipt, up->front.bundle, &nothing, false, &up->audit, err);
    pin_run_secrets_free(&up->secrets);
    /* what a command prints passes through us before it is masked; not sooner: the child that builds would be
     * of nobody we may map */
    if (up->front.bundle->ext.secret_count > 0 || up->front.ceiling->secrets.count > 0)
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return ok;
}

static void forget_home(struct up *up) {
    struct pin_error err = {0};
    pin_home_close(&up->home);
    (void)pin_home_remove(up->front.state_dir, up->name, &err); /* `rm` can do it later */
}

/* The supervisor's whole life. The lease comes first: what it says of dead ones is for the caller's eyes. */
static void supervise(struct up *up, const struct up_options *values) {
    struct pin_error err = {0};
    const char *why = "failed";
    bool ours = pin_home_make(up->front.state_dir, up->name, &up->home, &err);
    bool built = ours && keep_policy(up, &err) && pin_up_open_books(up, values->audit_sync, &err) &&
                 pin_lease_take(up->front.state_dir, up->front.cgroups, &up->slot, &err) &&
                 leave_caller(&err) && build(up, &err);
    bool ok = built && serve(up, values, &why, &err);
    pin_up_close_books(up, why, &err);
    if (!ok && !up->ready) {
        if (ours)
            forget_home(up);
        (void)tell(up, &err); /* nobody to tell: nothing is left either way */
    }
    if (!built && up->slot.table >= 0) {
        struct pin_error later = {0};
        (void)pin_slot_release(&up->slot, &later);
    }
    _exit(ok ? 0 : 1);
}

/* Twice, and with a session between: nobody of the caller's is its parent, and no terminal is its own. */
static pid_t detach(struct up *up, const struct up_options *values, int ends[2]) {
    pid_t middle = fork();
    if (middle != 0)
        return middle;
    (void)close(ends[0]);
    up->told = ends[1];
    (void)setsid();
    pid_t supervisor = fork();
    if (supervisor == 0) {
        (void)setpgid(0, 0);
        supervise(up, values);
    }
    _exit(supervisor > 0 ? 0 : 1);
}

static bool await(struct up *up, int from, struct pin_error *err) {
    struct told told;
    ssize_t got;
    do
        got = read(from, &told, sizeof(told));
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof(told))
        return pin_fail(err, PIN_ERROR_SYSTEM, "the sandbox's supervisor died while it was built");
    memcpy(up->fingerprint, told.fingerprint, sizeof(up->fingerprint));
    *err = told.err;
    return !pin_is_set(err);
}

static bool start(struct up *up, const struct up_options *values, struct pin_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return pin_fail_errno(err, "make a pipe");
    PIN_CLOSE int from = ends[0];
    pid_t middle = detach(up, values, ends);
    (void)close(ends[1]);
    if (middle < 0)
        return pin_fail_errno(err, "start a supervisor");
    while (waitpid(middle, NULL, 0) < 0 && errno == EINTR)
        ;
    return await(up, from, err);
}

bool pin_up_start(struct pin_front *front, const struct pin_up_settings *settings, struct pin_error *err) {
    const struct up_options values = {
        .idle = {settings->idle_ns != PIN_UNLIMITED, settings->idle_ns}
    };
    struct up up = {.front = *front,
                    .home = PIN_HOME_NONE,
                    .slot = PIN_SLOT_NONE,
                    .sandbox = PIN_SANDBOX_NONE,
                    .egress = PIN_EGRESS_SESSION_NONE,
                    .publishing = PIN_PUBLISHING_NONE,
                    .audit = PIN_RUN_AUDIT_NONE,
                    .name = settings->name,
                    .settings = settings,
                    .told = -1};
    bool ok = start(&up, &values, err);
    *front = up.front; /* its arena may have grown */
    return ok;
}

static int print(const struct up *up, bool as_json) {
    struct pin_error err = {0};
    bool ok = true;
    json_t *object = json_pack("{s:s, s:s}", "sandbox", up->name, "fingerprint", up->fingerprint);
    if (as_json)
        ok = pin_json_print(STDOUT_FILENO, object, &err);
    else
        (void)printf("%s\n", up->name);
    json_decref(object);
    return ok ? 0 : pin_report(&err, false);
}

static bool place_receipt(struct up *up, const char *file, struct pin_error *err) {
    char here[PATH_MAX];
    up->receipt_file = file;
    if (file == NULL || file[0] == '/')
        return true;
    if (getcwd(here, sizeof(here)) == NULL)
        return pin_fail_errno(err, "find the working directory") ||
               pin_hint(err, "name '%.100s' by a path from /", file);
    up->receipt_file = pin_arena_printf(&up->front.arena, "%s/%s", here, file);
    return true;
}

static int run_up(const struct pin_invocation *invocation) {
    static char shell[] = "sh"; /* what the bundle names; each exec brings its own command */
    char *command[] = {shell, NULL};
    const struct up_options *values = invocation->values;
    static struct pin_findings found;
    struct pin_error err = {0};
    struct up up = {.front = PIN_FRONT_NONE,
                    .home = PIN_HOME_NONE,
                    .slot = PIN_SLOT_NONE,
                    .sandbox = PIN_SANDBOX_NONE,
                    .egress = PIN_EGRESS_SESSION_NONE,
                    .publishing = PIN_PUBLISHING_NONE,
                    .audit = PIN_RUN_AUDIT_NONE,
                    .name = invocation->arguments[0],
                    .told = -1};
    int code = 0;
    up.front.request.records = up.front.request.hands_secrets = up.front.request.records_calls =
        up.front.request.publishes = true;
    bool bundled =
        pin_front_bundle(&up.front, &values->front, command, values->front.bundle != NULL ? 0 : 1, &found);
    if (bundled) /* 'exec --secret NAME:file' may come */
        up.front.bundle->ext.secret_folder = up.front.ceiling->secrets.count > 0;
    if (!bundled || !pin_front_plan(&up.front, &found))
        code = pin_refusal_report(&up.front, &found, values->audit_sync, values->front.json);
    else if (!place_receipt(&up, values->receipt, &err) || !start(&up, values, &err))
        code = pin_report(&err, values->front.json);
    else
        code = print(&up, values->front.json);
    pin_front_free(&up.front);
    return code;
}

const struct pin_verb pin_kept_verb_up = {
    .name = "up",
    .synopsis = "NAME",
    .summary = "make a sandbox that stays, for 'exec'",
    .description =
        "The sandbox has a supervisor of its own in the background and lives until 'stop', 'kill', or the "
        "end of a lifetime.\n"
        "Time and output limits of the policy hold for each exec, all others for the sandbox.",
    .example = "  pinfold up work --workspace . --idle-timeout 30m\n  pinfold exec work -- python3 step1.py",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct up_options),
    .least_arguments = 1,
    .most_arguments = 1,
    .run = run_up,
};
