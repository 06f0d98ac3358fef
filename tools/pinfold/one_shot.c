#include "tools/pinfold/one_shot.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "runtime/bundle/bundle_write.h"
#include "runtime/secrets/mask.h"
#include "runtime/state/scratch.h"
#include "tools/pinfold/egress_why.h"
#include "tools/pinfold/lease.h"
#include "tools/pinfold/run_calls.h"
#include "tools/pinfold/workspace.h"

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

static bool read_memory(void *self, uint64_t *bytes) {
    struct pin_error err = {0};
    return pin_cgroup_memory_now(self, bytes, &err);
}

static bool has_run_out_of_memory(void *self) {
    struct pin_error err = {0};
    bool happened = false;
    return pin_cgroup_oom_happened(self, &happened, &err) && happened;
}

static bool watch_cgroup(struct pin_one_shot *run, struct pin_cgroup_ops *ops, struct pin_error *err) {
    short events = 0;
    *ops = (struct pin_cgroup_ops){.oom_event_fd = -1};
    if (run->sandbox.cgroup == NULL)
        return true;
    ops->self = run->sandbox.cgroup;
    ops->kill = kill_group;
    ops->usage = read_usage;
    if (run->bill.id[0] != '\0')
        ops->memory = read_memory;
    if (run->front.plan->limits.memory_bytes == PIN_UNLIMITED ||
        (run->sandbox.missing & (1u << PIN_PROTECT_MEMORY)) != 0)
        return true;
    ops->oom_event_fd = pin_cgroup_oom_fd(run->sandbox.cgroup, &events, err);
    ops->oom_events = (unsigned)events;
    ops->oom_happened = has_run_out_of_memory;
    return ops->oom_event_fd >= 0;
}

/* Bytes that leave without a record are worse than a run that ends early. */
static void record_egress(struct pin_one_shot *run, const json_t *event) {
    if (!pin_run_audit_egress(&run->audit, event))
        (void)syscall(SYS_pidfd_send_signal, run->sandbox.pidfd, SIGKILL, NULL, 0);
}

static bool wants_egress(void *self, const struct pin_egress_event *event) {
    const struct pin_one_shot *run = self;
    if (run->watch != NULL)
        run->watch->egress(run->watch->self, event);
    return run->audit.egress || event->kind == PIN_EGRESS_EVENT_REFUSE;
}

static void tell_published(const struct pin_one_shot *run, const json_t *event) {
    const char *kind = json_string_value(json_object_get(event, "event"));
    if (run->tells_published && kind != NULL && strcmp(kind, "published") == 0)
        (void)fprintf(stderr, "pinfold: port %d is published at %s\n",
                      (int)json_integer_value(json_object_get(event, "port")),
                      json_string_value(json_object_get(event, "published")));
}

static void see_egress(void *self, json_t *event) {
    struct pin_one_shot *run = self;
    bool published = json_object_get(event, "published") != NULL; /* what the host does is no denial */
    if (!published)
        pin_egress_why_add(event, pin_front_policy(&run->front));
    record_egress(run, event);
    if (published)
        tell_published(run, event);
    else
        pin_run_denials_egress(&run->denials, event);
}

static bool start_egress(struct pin_one_shot *run, struct pin_egress_ops *ops, struct pin_error *err) {
    run->egress_seen = (struct pin_set_up_egress){.session = &run->egress,
                                                  .publishing = &run->publishing,
                                                  .folder = -1,
                                                  .both = -1,
                                                  .self = run,
                                                  .wants = wants_egress,
                                                  .see = see_egress};
    if (pin_set_up_needs_folder(run->front.plan)) {
        run->published_in = pin_scratch_make(run->front.state_dir, run->slot.number, err);
        if (run->published_in < 0)
            return pin_wrap(err, "make the folder of published sockets");
        run->egress_seen.folder = run->published_in;
    }
    return pin_set_up_egress_start(&run->egress_seen, &run->front, &run->sandbox, ops, err);
}

static void count_egress(struct pin_one_shot *run) {
    run->result.usage.egress = run->egress.usage;
    run->result.usage.egress.cpu_ns += run->publishing.session.usage.cpu_ns;
    if (run->publishing.count > 0)
        run->result.published = pin_publishing_totals(&run->publishing);
    run->bill.published_out = run->publishing.session.usage.bytes_out;
    run->bill.published_in = run->publishing.session.usage.bytes_in;
}

static void take_changes(struct pin_one_shot *run) {
    struct pin_error err = {0};
    run->result.changes =
        pin_workspace_finish(run->front.bundle, &run->sandbox, run->front.state_dir, run->name, &err);
    if (run->result.changes == NULL)
        pin_result_note(&run->result, &err);
}

/* The caller's terminal is put into raw mode where it is what the command reads. */
static int terminal_of(const struct pin_one_shot_settings *settings) {
    return settings->tty && settings->input >= 0 && isatty(settings->input) ? settings->input : -1;
}

static bool supervise(struct pin_one_shot *run, const struct pin_one_shot_settings *settings,
                      uint64_t started_ns, struct pin_error *err) {
    const struct pin_bundle *bundle = run->front.bundle;
    run->stream = (struct pin_stream){.fd = STDOUT_FILENO, .started_ns = started_ns};
    struct pin_supervision supervision = {
        .init_pid = run->sandbox.init,
        .init_pidfd = run->sandbox.pidfd,
        .control = run->sandbox.control,
        .argv = pin_set_up_list(&run->front.arena, bundle->process.args, bundle->process.arg_count),
        .envp = pin_run_secrets_environment(&run->secrets, &run->front.arena, bundle->process.env,
                                            bundle->process.env_count),
        .mask = run->secrets.mask,
        .cwd = bundle->process.cwd,
        .umask = bundle->process.has_umask ? bundle->process.umask : 0022,
        .stdin_fd = settings->input,
        .has_owner = run->front.plan->ranged,
        .owner_uid = pin_set_up_owner(&run->slot, bundle->process.uid),
        .owner_gid = pin_set_up_owner(&run->slot, bundle->process.gid),
        .output = settings->output,
        .stdout_fd = STDOUT_FILENO,
        .stderr_fd = STDERR_FILENO,
        .stream = &run->stream,
        .tty = settings->tty,
        .terminal_fd = terminal_of(settings),
        .frames = bundle->ext.frames,
        .started_ns = started_ns,
        .io = settings->io,
    };
    run->tells_published = settings->output != PIN_OUTPUT_STREAM;
    pin_set_up_limits(&bundle->ext, &supervision.limits);
    if (!watch_cgroup(run, &supervision.cgroup, err) || !start_egress(run, &supervision.egress, err))
        return false;
    if (run->sandbox.changes < 0 &&
        run->sandbox.upper < 0) /* what an overlay covers is used again after it */
        run->teardown = pin_teardown_start(run->sandbox.init, run->sandbox.pidfd);
    bool ok = pin_supervise(&supervision, &run->result, err);
    run->sandbox.init = 0; /* reaped, or given up */
    count_egress(run);
    if (ok && run->sandbox.changes >= 0 && !run->result.outlived) /* nobody writes there any more */
        take_changes(run);
    return ok;
}

/* Where the policy has denied calls recorded, the filter asks about them. */
static bool supervise_asked(struct pin_one_shot *run, const struct pin_one_shot_settings *settings,
                            uint64_t started_ns, struct pin_error *err) {
    if (!pin_run_calls_wanted(run->front.bundle))
        return supervise(run, settings, started_ns, err);
    const struct pin_run_calls_given given = {pin_front_policy(&run->front), &run->front.bundle->seccomp,
                                              run->sandbox.watch, run->sandbox.init};
    struct pin_run_calls *calls = pin_run_calls_start(&given, err);
    bool ok = calls != NULL && supervise(run, settings, started_ns, err);
    json_t *denied = pin_run_calls_end(calls), *call;
    size_t i;
    json_array_foreach(denied, i, call) {
        pin_run_denials_add(&run->denials, call);
        ok = pin_run_audit_call(&run->audit, call) && ok;
    }
    json_decref(denied);
    return ok;
}

static bool supervise_watched(struct pin_one_shot *run, const struct pin_one_shot_settings *settings,
                              uint64_t started_ns, struct pin_error *err) {
    run->watch = settings->watch;
    if (run->watch == NULL)
        return supervise_asked(run, settings, started_ns, err);
    bool ok = run->watch->start(run->watch->self, run, err) && supervise(run, settings, started_ns, err);
    run->watch->end(run->watch->self);
    return ok;
}

static bool build_and_supervise(struct pin_one_shot *run, const struct pin_one_shot_settings *settings,
                                struct pin_error *err) {
    uint64_t started_ns = pin_now_ns();
    struct pin_build_input input = {
        .plan = run->front.plan,
        .cgroups = run->front.cgroups,
        .slot = &run->slot,
        .watch = settings->watch != NULL                   ? PIN_WATCH_ALL
                 : pin_run_calls_wanted(run->front.bundle) ? PIN_WATCH_DENIED
                                                           : PIN_WATCH_NONE,
        .ahead = run->ahead,
    };
    return pin_lease_take(run->front.state_dir, run->front.cgroups, &run->slot, err) &&
           pin_build(&input, &run->sandbox, err) && pin_run_receipt_read(&run->receipt, &run->sandbox, err) &&
           supervise_watched(run, settings, started_ns, err);
}

/* The fingerprint is for results alone: a plain run doesn't compute it. */
static bool name_run(struct pin_one_shot *run, bool with_fingerprint, const uint8_t *given,
                     struct pin_error *err) {
    uint8_t random[8];
    uint8_t digest[PIN_SHA256_SIZE];
    uint64_t number = 0;
    if (getrandom(random, sizeof(random), 0) == (ssize_t)sizeof(random))
        memcpy(&number, random, sizeof(number));
    (void)snprintf(run->name, sizeof(run->name), "run-%016" PRIx64, number);
    if (!with_fingerprint)
        return true;
    if (given != NULL)
        memcpy(digest, given, sizeof(digest));
    else if (!pin_bundle_fingerprint(run->front.bundle, digest, err))
        return false;
    pin_run_secrets_fingerprint(&run->secrets, digest);
    (void)pin_digest_print(run->fingerprint, digest);
    return true;
}

/* Facts that only the front door knows. */
static void complete_result(struct pin_one_shot *run) {
    struct pin_result *result = &run->result;
    result->missing_count = pin_set_up_missing(run->sandbox.missing, run->missing);
    result->missing_count += pin_set_up_lost(&run->egress_seen, run->missing + result->missing_count);
    result->missing = run->missing;
    result->sandbox = run->name;
    result->fingerprint = run->fingerprint;
    const struct pin_run_limits limits = {run->front.bundle, pin_front_policy(&run->front), 0};
    result->denials = pin_run_denials_finish(&run->denials, &limits, result);
    if (run->front.bundle->ext.label_count > 0) /* jansson's first object reads random bytes */
        result->labels = pin_set_up_labels(&run->front.bundle->ext);
}

/* What can't be cleared now is taken up by the next command's sweep: the slot stays claimed until then. */
static void clear(struct pin_one_shot *run) {
    struct pin_error err = {0};
    bool gone = pin_sandbox_destroy(&run->sandbox, &err);
    if (run->slot.table >= 0 && gone)
        (void)pin_slot_release(&run->slot, &err);
    pin_egress_session_free(&run->egress);
    pin_publishing_free(&run->publishing);
    pin_close_fd(&run->published_in);
    pin_close_fd(&run->egress_seen.both);
    pin_slot_close(&run->slot);
}

bool pin_one_shot_run(struct pin_one_shot *run, const struct pin_one_shot_settings *settings,
                      struct pin_error *err) {
    const struct pin_bundle *bundle = run->front.bundle;
    bool named = settings->fingerprint || pin_run_audit_wanted(bundle) || settings->receipt != NULL;
    run->receipt.file = settings->receipt;
    run->receipt.image_digest = run->front.request.image_digest;
    struct pin_error missing_secret = {0}, later = {0};
    bool have_secrets = pin_run_secrets_find(&run->secrets, &run->front, &missing_secret);
    bool ok = name_run(run, named, settings->digest, err) &&
              (bundle->ext.label_count == 0 || pin_bill_begin(&run->bill, err)) &&
              pin_run_receipt_prepare(&run->receipt, err) &&
              pin_run_audit_start(&run->audit, bundle, run->name, run->fingerprint, run->secrets.mask,
                                  settings->audit_sync, err) &&
              pin_run_audit_secrets(&run->audit, &run->secrets.found, err);
    if (ok && !have_secrets)
        *err = missing_secret;
    ok = ok && have_secrets && build_and_supervise(run, settings, err);
    uint32_t missing = run->sandbox.missing;
    clear(run);
    pin_mask_error(run->secrets.mask, &run->result.error);
    pin_mask_error(run->secrets.mask, err);
    pin_run_secrets_free(&run->secrets);
    run->sandbox.missing = missing;
    if (ok)
        complete_result(run);
    if (ok && !pin_set_up_bill_run(&run->bill, &run->result, &later))
        run->missing[run->result.missing_count++] = "bill";
    if (!pin_run_audit_end(&run->audit, &run->result, err) && ok)
        run->missing[run->result.missing_count++] = "audit"; /* the run has happened: its result is given */
    if (ok)
        (void)pin_run_receipt_write(&run->receipt, bundle, &run->result, true, &run->audit,
                                    &run->receipt_fault);
    return ok;
}

void pin_one_shot_free(struct pin_one_shot *run) {
    pin_ahead_free(run->ahead);
    pin_teardown_end(run->teardown);
    pin_run_receipt_free(&run->receipt);
    pin_run_audit_close(&run->audit);
    json_decref(run->denials.list);
    pin_result_free(&run->result);
    pin_front_free(&run->front);
}
