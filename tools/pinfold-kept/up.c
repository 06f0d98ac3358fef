/* up: from a command line to a sandbox that stays, with a supervisor of its own in the background. */
#include <errno.h>
#include <fcntl.h>
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
#include "runtime/build/cgroup/leaf.h"
#include "runtime/bundle/bundle_write.h"
#include "runtime/egress/session.h"
#include "runtime/kept/home.h"
#include "runtime/kept/serve.h"
#include "tools/pinfold-kept/verbs.h"
#include "tools/pinfold/front.h"
#include "tools/pinfold/lease.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/workspace.h"

struct up_options {
    struct pin_front_options front; /* first: PIN_FRONT_ROWS */
    struct pin_number idle, lifetime;
};

static const struct pin_option options[] = {
    PIN_FRONT_ROWS,
    {"idle-timeout", 0, PIN_OPTION_TIME, offsetof(struct up_options, idle),     "T",
      "end the sandbox when nobody has used it for this long", NULL},
    {"lifetime",     0, PIN_OPTION_TIME, offsetof(struct up_options, lifetime), "T",
      "end the sandbox when it is this old",                   NULL},
};

struct up { /* what the supervisor owns, from the name to the end */
    struct pin_front front;
    struct pin_home home;
    struct pin_slot slot;
    struct pin_sandbox sandbox;
    struct pin_egress_session egress;
    const char *name;
    int told; /* the pipe to who waits for us */
    bool ready;
    char fingerprint[PIN_DIGEST_TEXT];
    const char *missing[PIN_PROTECT_COUNT];
    size_t missing_count;
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

/* One byte: it is up. An error otherwise. */
static void tell_ready(void *self) {
    struct up *up = self;
    up->ready = true;
    (void)malloc_trim(0);          /* what reading the policy and building took isn't needed any more */
    (void)!write(up->told, "", 1); /* nobody may be waiting any more */
    pin_close_fd(&up->told);
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

static void reap_init(struct pin_sandbox *sandbox) {
    struct pin_error err = {0};
    if (sandbox->cgroup != NULL)
        (void)pin_cgroup_kill(sandbox->cgroup, &err); /* init's death ends all as well */
    if (sandbox->init <= 0)
        return;
    (void)kill(sandbox->init, SIGKILL); /* our child, not reaped: the number is its own */
    while (waitpid(sandbox->init, NULL, 0) < 0 && errno == EINTR)
        ;
    sandbox->init = 0;
}

static bool destroy(void *self, struct pin_error *err) {
    struct up *up = self;
    reap_init(&up->sandbox);
    pin_egress_session_end(&up->egress);
    bool ok = finish_workspace(up, err);
    struct pin_error left = {0};
    bool gone = pin_sandbox_destroy(&up->sandbox, &left) && pin_slot_release(&up->slot, &left);
    if (ok && !gone)
        *err = left;
    return ok && gone;
}

static int egress_fd(void *self) {
    return pin_egress_session_fd(self);
}

static bool next_egress(void *self, json_t **object) {
    struct pin_egress_session *session = self;
    struct pin_egress_event event;
    if (!pin_egress_session_next(session, &event))
        return false;
    if (object != NULL)
        *object = pin_egress_event_json(&event, &session->rules);
    return true;
}

static void end_egress(void *self) {
    pin_egress_session_end(self);
}

static bool start_egress(struct up *up, struct pin_egress_ops *ops, struct pin_error *err) {
    const char *libexec = secure_getenv("PINFOLD_LIBEXEC"); /* of a build tree */
    struct pin_egress_setup setup = pin_front_egress(&up->front);
    *ops = (struct pin_egress_ops){.self = &up->egress};
    if (!up->front.plan->egress)
        return true;
    *ops = (struct pin_egress_ops){&up->egress, egress_fd, next_egress, end_egress};
    return pin_egress_session_start(&up->egress, libexec != NULL ? libexec : PIN_LIBEXEC, &setup,
                                    &up->sandbox.egress, err);
}

static json_t *describe(struct up *up) {
    const struct pin_bundle_ext *ext = &up->front.bundle->ext;
    struct timespec now;
    json_t *labels = json_object(), *missing = json_array();
    (void)clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < ext->label_count; i++)
        (void)json_object_set_new(labels, ext->labels[i].key, json_string(ext->labels[i].value));
    for (size_t i = 0; i < up->missing_count; i++)
        (void)json_array_append_new(missing, json_string(up->missing[i]));
    return json_pack("{s:i, s:s, s:I, s:I, s:s?, s:s?, s:s?, s:s, s:o, s:o}", "pinfold", 1, "name", up->name,
                     "created_ms", (json_int_t)now.tv_sec * 1000 + now.tv_nsec / (long)PIN_NS_PER_MS,
                     "supervisor", (json_int_t)getpid(), "policy", ext->policy_name, "image", ext->image,
                     "workspace", ext->workspace.source, "fingerprint", up->fingerprint, "missing", missing,
                     "labels", labels);
}

static const char *const *ended(struct up *up, const char *const *items, size_t count) {
    const char **list = pin_arena_array(&up->front.arena, count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++)
        list[i] = items[i];
    return list;
}

static void set_limits(const struct pin_bundle_ext *ext, struct pin_limits *limits) {
    *limits = (struct pin_limits){
        .wall_time_ns = ext->wall_time_ns,
        .cpu_time_ns = PIN_UNLIMITED,
        .grace_ns = ext->grace_ns,
        .stdout_bytes = ext->stdout_bytes,
        .stderr_bytes = ext->stderr_bytes,
        .frame_bytes = ext->frame_bytes,
        .on_output_cap = ext->on_output_cap,
    };
}

static void list_missing(struct up *up) {
    for (int i = 0; i < PIN_PROTECT_COUNT; i++)
        if (up->sandbox.missing & (1u << i))
            up->missing[up->missing_count++] = pin_protection_name((enum pin_protection)i);
}

static bool serve(struct up *up, const struct up_options *values, struct pin_error *err) {
    const struct pin_bundle *bundle = up->front.bundle;
    list_missing(up);
    struct pin_kept_given given = {
        .folder = up->home.folder,
        .name = up->name,
        .fingerprint = up->fingerprint,
        .facts = describe(up),
        .missing = up->missing,
        .missing_count = up->missing_count,
        .sandbox = &up->sandbox,
        .envp = ended(up, bundle->process.env, bundle->process.env_count),
        .cwd = bundle->process.cwd,
        .umask = bundle->process.has_umask ? bundle->process.umask : 0022,
        .has_owner = up->front.plan->ranged,
        .owner_uid = pin_slot_id_base(up->slot.number) + bundle->process.uid,
        .owner_gid = pin_slot_id_base(up->slot.number) + bundle->process.gid,
        .tty = up->front.ceiling->tty,
        .idle_ns = values->idle.given ? values->idle.value : PIN_UNLIMITED,
        .lifetime_ns = values->lifetime.given ? values->lifetime.value : PIN_UNLIMITED,
        .self = up,
        .may_set = may_set,
        .ready = tell_ready,
        .destroy = destroy,
    };
    set_limits(&bundle->ext, &given.limits);
    bool ok = given.facts != NULL || pin_fail(err, PIN_ERROR_INVALID, "a label or a path isn't UTF-8");
    if (ok && up->sandbox.cgroup != NULL) /* to be paused on v1 it has to be in the freezer too */
        ok = pin_cgroup_join(up->sandbox.cgroup, &up->front.cgroups, PIN_CGROUP_FREEZER, up->sandbox.init,
                             err);
    ok = ok && start_egress(up, &given.egress, err);
    if (ok) {
        ok = pin_kept_serve(&given, err);
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

static bool build(struct up *up, struct pin_error *err) {
    struct pin_build_input input = {.plan = up->front.plan, .cgroups = &up->front.cgroups, .slot = &up->slot};
    return pin_build(&input, &up->sandbox, err);
}

static void forget_home(struct up *up) {
    struct pin_error err = {0};
    pin_home_close(&up->home);
    (void)pin_home_remove(up->front.state_dir, up->name, &err); /* `rm` can do it later */
}

/* The supervisor's whole life. The lease comes first: what it says of dead ones is for the caller's eyes. */
static void supervise(struct up *up, const struct up_options *values) {
    struct pin_error err = {0};
    bool built = pin_home_make(up->front.state_dir, up->name, &up->home, &err);
    bool ours = built;
    built = built && pin_lease_take(up->front.state_dir, &up->front.cgroups, &up->slot, &err) &&
            leave_caller(&err) && build(up, &err);
    bool ok = built && serve(up, values, &err);
    if (!ok && !up->ready) {
        (void)!write(up->told, &err, sizeof(err));
        if (ours)
            forget_home(up);
    }
    if (!built && up->slot.lock_fd >= 0) {
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

static bool await(int from, struct pin_error *err) {
    struct pin_error told = {0};
    ssize_t got;
    do
        got = read(from, &told, sizeof(told));
    while (got < 0 && errno == EINTR);
    if (got == 1)
        return true;
    if (got == (ssize_t)sizeof(told))
        *err = told;
    else
        (void)pin_fail(err, PIN_ERROR_SYSTEM, "the sandbox's supervisor died while it was built");
    return false;
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
    return await(from, err);
}

/* What a kept sandbox doesn't carry out is refused by name, never left out. */
static bool check(const struct up *up, struct pin_error *err) {
    if (up->front.bundle->ext.cpu_time_ns != PIN_UNLIMITED) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "a kept sandbox doesn't limit CPU time");
        (void)pin_point(err, "/resources/cpu_time");
        return pin_hint(err, "use 'pinfold run', or a policy with \"cpu_time\": \"unlimited\"");
    }
    if (up->front.bundle->ext.secret_count > 0) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "a kept sandbox gets no secrets");
        (void)pin_point(err, "/secrets");
        return pin_hint(err, "use 'pinfold run'");
    }
    if (up->front.bundle->ext.record_count > 0) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "a kept sandbox writes no audit log");
        (void)pin_point(err, "/audit/record");
        return pin_hint(err, "use 'pinfold run', or a policy whose audit.record is empty");
    }
    return true;
}

static bool fingerprint(struct up *up, struct pin_error *err) {
    uint8_t digest[PIN_SHA256_SIZE];
    if (!pin_bundle_fingerprint(up->front.bundle, digest, err))
        return false;
    (void)pin_digest_print(up->fingerprint, digest);
    return true;
}

static void print(const struct up *up, bool as_json) {
    struct pin_error err = {0};
    json_t *object = json_pack("{s:s, s:s}", "sandbox", up->name, "fingerprint", up->fingerprint);
    if (as_json)
        (void)pin_json_print(STDOUT_FILENO, object, &err);
    else
        (void)printf("%s\n", up->name);
    json_decref(object);
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
                    .name = invocation->arguments[0],
                    .told = -1};
    int code = 0;
    if (!pin_front_bundle(&up.front, &values->front, command, values->front.bundle != NULL ? 0 : 1, &found) ||
        !pin_front_plan(&up.front, &found))
        code = pin_report_findings(&found, values->front.json);
    else if (!check(&up, &err) || !fingerprint(&up, &err) || !start(&up, values, &err))
        code = pin_report(&err, values->front.json);
    else
        print(&up, values->front.json);
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
    .name_first = true,
};
