#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "runtime/build/build.h"
#include "runtime/bundle/bundle_write.h"
#include "runtime/egress/session.h"
#include "runtime/state/slots.h"
#include "runtime/supervise/supervise.h"
#include "tools/pinfold/front.h"
#include "tools/pinfold/lease.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/run_audit.h"
#include "tools/pinfold/verbs.h"
#include "tools/pinfold/workspace.h"

struct run_options {
    struct pin_front_options front; /* first: PIN_FRONT_ROWS */
    const char *input;
    bool stream, audit_sync;
    int io;
};

static const char *const io_choices[] = {"auto", "uring", "epoll", NULL};
static const enum pin_io io_values[] = {PIN_IO_AUTO, PIN_IO_URING, PIN_IO_EPOLL};

static const struct pin_option options[] = {
    PIN_FRONT_ROWS,
    {"stdin",      0, PIN_OPTION_TEXT,   offsetof(struct run_options, input),      "FILE|-",
      "what the command reads (nothing)",                                                                                      NULL},
    {"stream",     0, PIN_OPTION_FLAG,   offsetof(struct run_options, stream),     NULL,
      "print JSON lines while things happen",                                                                                  NULL},
    {"audit-sync", 0, PIN_OPTION_FLAG,   offsetof(struct run_options, audit_sync), NULL,
      "each audit record is on the disk before the run goes on",                                                               NULL},
    {"io",         0, PIN_OPTION_CHOICE, offsetof(struct run_options, io),         NULL,     "how the loop waits, for tests",
      io_choices                                                                                                                   },
};

struct run { /* what one run owns, from the slot to the result */
    struct pin_front front;
    struct pin_slot slot;
    struct pin_sandbox sandbox;
    struct pin_egress_session egress;
    struct pin_result result;
    struct pin_run_audit audit;
    struct pin_stream stream;
    int input;
    char name[32];
    char fingerprint[PIN_DIGEST_TEXT];
};

static bool open_input(struct run *run, const struct run_options *values, struct pin_error *err) {
    if (values->input == NULL) {
        run->input = values->front.tty && isatty(STDIN_FILENO) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
        return true;
    }
    run->input = strcmp(values->input, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                                 : open(values->input, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (run->input >= 0)
        return true;
    (void)pin_fail_errno(err, "open '%s' for --stdin", values->input);
    return pin_point(err, "%s", values->input);
}

static bool kill_group(void *self) {
    struct pin_error err = {0};
    return pin_cgroup_kill(self, &err);
}

static bool read_usage(void *self, struct pin_usage *usage) {
    struct pin_error err = {0};
    struct pin_cgroup_usage now;
    if (!pin_cgroup_usage_read(self, &now, &err))
        return false;
    usage->cpu_ns = now.cpu_ns;
    usage->memory_peak_bytes = now.memory_peak_bytes;
    usage->pids_peak = now.pids_peak;
    usage->oom_kills = now.oom_kills;
    return true;
}

static bool has_run_out_of_memory(void *self) {
    struct pin_error err = {0};
    bool happened = false;
    return pin_cgroup_oom_happened(self, &happened, &err) && happened;
}

static bool watch_cgroup(struct run *run, struct pin_cgroup_ops *ops, struct pin_error *err) {
    short events = 0;
    *ops = (struct pin_cgroup_ops){.oom_event_fd = -1};
    if (run->sandbox.cgroup == NULL)
        return true;
    ops->self = run->sandbox.cgroup;
    ops->kill = kill_group;
    ops->usage = read_usage;
    if (run->front.plan->limits.memory_bytes == PIN_UNLIMITED ||
        (run->sandbox.missing & (1u << PIN_PROTECT_MEMORY)) != 0)
        return true;
    ops->oom_event_fd = pin_cgroup_oom_fd(run->sandbox.cgroup, &events, err);
    ops->oom_events = (unsigned)events;
    ops->oom_happened = has_run_out_of_memory;
    return ops->oom_event_fd >= 0;
}

static void set_limits(const struct pin_bundle_ext *ext, struct pin_limits *limits) {
    *limits = (struct pin_limits){
        .wall_time_ns = ext->wall_time_ns,
        .cpu_time_ns = ext->cpu_time_ns,
        .grace_ns = ext->grace_ns,
        .stdout_bytes = ext->stdout_bytes,
        .stderr_bytes = ext->stderr_bytes,
        .frame_bytes = ext->frame_bytes,
        .on_output_cap = ext->on_output_cap,
    };
}

/* The bundle's lists are counted; the kernel's end with NULL. */
static const char *const *ended(struct run *run, const char *const *items, size_t count) {
    const char **list = pin_arena_array(&run->front.arena, count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++)
        list[i] = items[i];
    return list;
}

static int egress_fd(void *self) {
    const struct run *run = self;
    return pin_egress_session_fd(&run->egress);
}

/* Bytes that leave without a record are worse than a run that ends early. */
static void record_egress(struct run *run, const json_t *event) {
    if (!pin_run_audit_egress(&run->audit, event))
        (void)syscall(SYS_pidfd_send_signal, run->sandbox.pidfd, SIGKILL, NULL, 0);
}

static bool next_egress(void *self, json_t **object) {
    struct run *run = self;
    struct pin_egress_event event;
    if (!pin_egress_session_next(&run->egress, &event))
        return false;
    if (object == NULL && !run->audit.egress)
        return true;
    json_t *json = pin_egress_event_json(&event, &run->egress.rules);
    record_egress(run, json);
    if (object != NULL)
        *object = json;
    else
        json_decref(json);
    return true;
}

static void end_egress(void *self) {
    struct run *run = self;
    pin_egress_session_end(&run->egress);
}

static bool start_egress(struct run *run, struct pin_egress_ops *ops, struct pin_error *err) {
    const struct pin_bundle_ext *ext = &run->front.bundle->ext;
    const char *libexec = secure_getenv("PINFOLD_LIBEXEC"); /* of a build tree */
    struct pin_egress_rules rules = {ext->egress, ext->egress_deny, ext->egress_count,
                                     ext->egress_deny_count};
    *ops = (struct pin_egress_ops){.self = run};
    if (!run->front.plan->egress)
        return true;
    *ops = (struct pin_egress_ops){run, egress_fd, next_egress, end_egress};
    return pin_egress_session_start(&run->egress, libexec != NULL ? libexec : PIN_LIBEXEC, &rules,
                                    &run->sandbox.egress, err);
}

static void count_egress(struct run *run) {
    const struct pin_egress_usage *usage = &run->egress.usage;
    run->result.usage.egress.allowed = usage->allowed;
    run->result.usage.egress.denied = usage->denied;
    run->result.usage.egress.bytes_out = usage->bytes_out;
    run->result.usage.egress.bytes_in = usage->bytes_in;
}

static bool supervise(struct run *run, const struct run_options *values, uint64_t started_ns,
                      struct pin_error *err) {
    const struct pin_bundle *bundle = run->front.bundle;
    run->stream = (struct pin_stream){.fd = STDOUT_FILENO, .started_ns = started_ns};
    struct pin_supervision supervision = {
        .init_pid = run->sandbox.init,
        .init_pidfd = run->sandbox.pidfd,
        .control = run->sandbox.control,
        .argv = ended(run, bundle->process.args, bundle->process.arg_count),
        .envp = ended(run, bundle->process.env, bundle->process.env_count),
        .cwd = bundle->process.cwd,
        .umask = bundle->process.has_umask ? bundle->process.umask : 0022,
        .stdin_fd = run->input,
        .has_owner = run->front.plan->ranged,
        .owner_uid = pin_slot_id_base(run->slot.number) + bundle->process.uid,
        .owner_gid = pin_slot_id_base(run->slot.number) + bundle->process.gid,
        .output = values->stream       ? PIN_OUTPUT_STREAM
                  : values->front.json ? PIN_OUTPUT_CAPTURE
                                       : PIN_OUTPUT_PASS,
        .stdout_fd = STDOUT_FILENO,
        .stderr_fd = STDERR_FILENO,
        .stream = &run->stream,
        .tty = values->front.tty,
        .terminal_fd = values->front.tty && isatty(STDIN_FILENO) ? STDIN_FILENO : -1,
        .frames = bundle->ext.frames,
        .started_ns = started_ns,
        .io = values->io >= 0 ? io_values[values->io] : PIN_IO_AUTO,
    };
    set_limits(&bundle->ext, &supervision.limits);
    if (!watch_cgroup(run, &supervision.cgroup, err) || !start_egress(run, &supervision.egress, err))
        return false;
    bool ok = pin_supervise(&supervision, &run->result, err);
    run->sandbox.init = 0; /* dead and reaped, either way */
    count_egress(run);
    if (ok && run->sandbox.changes >= 0)
        run->result.changes =
            pin_workspace_finish(bundle, &run->sandbox, run->front.state_dir, run->name, err);
    return ok && !pin_is_set(err);
}

static bool build_and_supervise(struct run *run, const struct run_options *values, struct pin_error *err) {
    uint64_t started_ns = pin_now_ns();
    struct pin_build_input input = {run->front.plan, &run->front.cgroups, &run->slot, NULL};
    return open_input(run, values, err) &&
           pin_lease_take(run->front.state_dir, &run->front.cgroups, &run->slot, err) &&
           pin_build(&input, &run->sandbox, err) && supervise(run, values, started_ns, err);
}

/* The fingerprint is for results alone: a plain run doesn't compute it. */
static bool name_run(struct run *run, bool with_fingerprint, struct pin_error *err) {
    uint8_t random[8];
    uint8_t digest[PIN_SHA256_SIZE];
    uint64_t number = 0;
    if (getrandom(random, sizeof(random), 0) == (ssize_t)sizeof(random))
        memcpy(&number, random, sizeof(number));
    (void)snprintf(run->name, sizeof(run->name), "run-%016" PRIx64, number);
    if (!with_fingerprint)
        return true;
    if (!pin_bundle_fingerprint(run->front.bundle, digest, err))
        return false;
    (void)pin_digest_print(run->fingerprint, digest);
    return true;
}

enum { MISSING_MAX = PIN_PROTECT_COUNT + 2 }; /* every protection, the broker, the log */

/* Facts that only the front door knows. */
static void complete_result(struct run *run, const char *missing[MISSING_MAX]) {
    const struct pin_bundle_ext *ext = &run->front.bundle->ext;
    struct pin_result *result = &run->result;
    for (int i = 0; i < PIN_PROTECT_COUNT; i++)
        if (run->sandbox.missing & (1u << i))
            missing[result->missing_count++] = pin_protection_name((enum pin_protection)i);
    if (run->egress.lost)
        missing[result->missing_count++] =
            "egress"; /* the broker has died, and the network was closed since */
    result->missing = missing;
    result->sandbox = run->name;
    result->fingerprint = run->fingerprint;
    result->labels = json_object();
    for (size_t i = 0; i < ext->label_count; i++)
        json_object_set_new(result->labels, ext->labels[i].key, json_string(ext->labels[i].value));
}

/* The result is given all the same: the run has happened. */
static int report_fault(struct run *run, const char *missing[MISSING_MAX]) {
    missing[run->result.missing_count++] = "audit";
    return pin_report(&run->audit.fault, false);
}

static int print_result(struct run *run, const struct run_options *values) {
    const char *missing[MISSING_MAX];
    struct pin_error err = {0};
    int fault = 0;
    complete_result(run, missing);
    if (!pin_run_audit_end(&run->audit, &run->result, &err))
        fault = report_fault(run, missing);
    if (values->stream) {
        (void)pin_stream_exit(&run->stream, &run->result, &err);
    } else if (values->front.json) {
        json_t *json = pin_result_json(&run->result);
        (void)pin_json_print(STDOUT_FILENO, json, &err);
        json_decref(json);
    } else {
        if (run->result.changes != NULL)
            pin_workspace_print(run->result.changes);
        if (pin_is_set(&run->result.error))
            (void)pin_report(&run->result.error, false);
    }
    return fault != 0 ? fault : run->result.exit_code;
}

/* A run that came to nothing; a refused one has a record of its own. */
static int report_failure(struct run *run, const struct pin_error *err, bool json) {
    if (!pin_run_audit_end(&run->audit, &run->result, err))
        (void)pin_report(&run->audit.fault, false);
    return pin_report(err, json);
}

static int report_refusal(const struct run *run, const struct pin_findings *found, bool sync, bool json) {
    struct pin_error err = {0};
    if (!pin_run_audit_refusal(&run->front, found, sync, &err))
        (void)pin_report(&err, false);
    return pin_report_findings(found, json);
}

static bool record_start(struct run *run, const struct run_options *values, struct pin_error *err) {
    return pin_run_audit_start(&run->audit, run->front.bundle, run->name, run->fingerprint,
                               values->audit_sync, err);
}

/* What can't be cleared now is taken up by the next command's sweep: the slot stays claimed until then. */
static void clear(struct run *run) {
    struct pin_error err = {0};
    bool gone = pin_sandbox_destroy(&run->sandbox, &err);
    if (run->slot.lock_fd >= 0 && gone)
        (void)pin_slot_release(&run->slot, &err);
    pin_egress_session_free(&run->egress);
    pin_slot_close(&run->slot);
    pin_close_fd(&run->input);
}

static int run_run(const struct pin_invocation *invocation) {
    const struct run_options *values = invocation->values;
    struct run run = {.front = PIN_FRONT_NONE,
                      .slot = PIN_SLOT_NONE,
                      .sandbox = PIN_SANDBOX_NONE,
                      .egress = PIN_EGRESS_SESSION_NONE,
                      .audit = PIN_RUN_AUDIT_NONE,
                      .input = -1};
    static struct pin_findings found; /* 40 KiB that a run without findings never touches */
    struct pin_error err = {0};
    bool json = values->front.json || values->stream;
    int code;
    run.front.request.records = true;
    if (!pin_front_bundle(&run.front, &values->front, invocation->arguments, invocation->argument_count,
                          &found) ||
        !pin_front_plan(&run.front, &found)) {
        code = report_refusal(&run, &found, values->audit_sync, json);
    } else {
        bool named = json || pin_run_audit_wanted(run.front.bundle);
        bool ok = name_run(&run, named, &err) && record_start(&run, values, &err) &&
                  build_and_supervise(&run, values, &err);
        uint32_t missing = run.sandbox.missing;
        clear(&run);
        run.sandbox.missing = missing;
        code = ok ? print_result(&run, values) : report_failure(&run, &err, json);
    }
    pin_run_audit_close(&run.audit);
    pin_result_free(&run.result);
    pin_front_free(&run.front);
    return code;
}

const struct pin_verb pin_verb_run = {
    .name = "run",
    .synopsis = "-- CMD ARG…",
    .summary = "run a command in a sandbox of its own, once",
    .description = "The command gets fresh namespaces, limits, a system call filter and a root of its own, "
                   "as the policy says.\n"
                   "A request beyond the policy is refused whole, and nothing is built. The run ends with "
                   "its process tree.",
    .example = "  pinfold run --workspace . --timeout 10s --json -- python3 tool.py",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct run_options),
    .most_arguments = SIZE_MAX,
    .run = run_run,
};
