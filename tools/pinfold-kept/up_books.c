#include "tools/pinfold-kept/up_books.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "policy/label_rules.h"
#include "runtime/bundle/bundle_write.h"
#include "runtime/bundle/request.h"
#include "tools/pinfold-kept/up.h"
#include "tools/pinfold/egress_why.h"

/* What has come since the bill before. One that can't be written is made up by the next. */
static void write_bill(void *self, uint64_t memory_byte_ms, uint64_t execs) {
    struct up *up = self;
    struct pin_error err = {0};
    struct pin_cgroup_usage usage = {0};
    struct pin_bill *bill = &up->bill, *before = &up->billed;
    if (up->sandbox.cgroup != NULL)
        (void)pin_cgroup_usage_read(up->sandbox.cgroup, &usage, &err); /* 0: nothing new is counted */
    const struct pin_egress_usage *egress = &up->egress.usage, *published = &up->publishing.session.usage;
    uint64_t cpu_ns = usage.cpu_ns + egress->cpu_ns + published->cpu_ns;
    struct pin_bill now = {.cpu_ns = cpu_ns > before->cpu_ns ? cpu_ns : before->cpu_ns,
                           .memory_byte_ms = memory_byte_ms,
                           .wall_ms = (pin_now_ns() - up->up_ns) / PIN_NS_PER_MS,
                           .egress_out = egress->bytes_out,
                           .egress_in = egress->bytes_in,
                           .published_out = published->bytes_out,
                           .published_in = published->bytes_in,
                           .runs = execs};
    bill->cpu_ns = now.cpu_ns - before->cpu_ns;
    bill->memory_byte_ms = now.memory_byte_ms - before->memory_byte_ms;
    bill->wall_ms = now.wall_ms - before->wall_ms;
    bill->egress_out = now.egress_out - before->egress_out;
    bill->egress_in = now.egress_in - before->egress_in;
    bill->published_out = now.published_out - before->published_out;
    bill->published_in = now.published_in - before->published_in;
    bill->runs = now.runs - before->runs;
    pin_error_clear(&err);
    if (pin_bill_write(bill, &err))
        *before = now;
}

bool pin_up_begin_bill(struct up *up, struct pin_kept_given *given, struct pin_error *err) {
    if (up->front.bundle->ext.label_count == 0)
        return true;
    if (!pin_bill_begin(&up->bill, err))
        return false;
    up->bill.kind = "kept";
    up->bill.sandbox = up->name;
    up->bill.labels = json_object_get(given->facts, "labels");
    up->up_ns = pin_now_ns();
    given->used = write_bill;
    return true;
}

static bool wants_egress(void *self, const struct pin_egress_event *event) {
    const struct up *up = self;
    return up->audit.egress || event->kind == PIN_EGRESS_EVENT_REFUSE;
}

/* Bytes that leave without a record are worse than a sandbox that ends early. */
static void see_egress(void *self, json_t *event) {
    struct up *up = self;
    if (json_object_get(event, "published") == NULL) { /* what the host does is no denial */
        pin_egress_why_add(event, pin_up_egress_policy(up));
        pin_up_keep_refusal(up, event);
    }
    if (!pin_run_audit_egress(&up->audit, event))
        (void)syscall(SYS_pidfd_send_signal, up->sandbox.pidfd, SIGKILL, NULL, 0);
}

bool pin_up_start_egress(struct up *up, struct pin_egress_ops *ops, struct pin_error *err) {
    up->egress_seen = (struct pin_set_up_egress){.session = &up->egress,
                                                 .publishing = &up->publishing,
                                                 .folder = up->home.folder,
                                                 .both = -1,
                                                 .self = up,
                                                 .wants = wants_egress,
                                                 .see = see_egress};
    return pin_set_up_egress_start(&up->egress_seen, &up->front, &up->sandbox, ops, err);
}

static bool audit_begin(void *self, uint32_t exec, const struct pin_kept_recorded *what,
                        struct pin_error *err) {
    struct up *up = self;
    return pin_run_audit_exec(&up->audit, exec, what->args, what->arg_count, what->user, what->mask, err) &&
           pin_run_audit_secrets(&up->audit, what->secrets, err);
}

static bool audit_refuse(void *self, const struct pin_kept_recorded *what, const struct pin_error *refusal,
                         struct pin_error *err) {
    struct up *up = self;
    json_t *denials = pin_up_refused(up, what->request);
    bool ok = pin_run_audit_exec_refusal(&up->audit, what->args, what->arg_count, what->mask, refusal,
                                         denials, err);
    json_decref(denials);
    return ok;
}

static bool audit_end(void *self, uint32_t exec, const struct pin_result *result, struct pin_error *err) {
    struct up *up = self;
    return pin_run_audit_exec_end(&up->audit, exec, result, err);
}

void pin_up_give_audit(struct up *up, struct pin_kept_audit *audit) {
    if (pin_run_audit_is_on(&up->audit))
        *audit = (struct pin_kept_audit){up, audit_begin, audit_refuse, audit_end};
}

static bool lists_secret(const struct pin_policy *policy, const char *name) {
    for (size_t i = 0; i < policy->secrets.count; i++)
        if (strcmp(policy->secrets.items[i].text, name) == 0)
            return true;
    return false;
}

bool pin_up_may_hand(void *self, const char *secret, struct pin_error *err) {
    struct up *up = self;
    struct pin_secret_spec spec;
    struct pin_findings found = {0};
    if (!pin_secret_spec_parse(secret, &spec, err))
        return false;
    if (!lists_secret(up->front.ceiling, spec.name)) {
        (void)pin_fail(err, PIN_ERROR_REFUSED, "the policy grants no secret '%.60s'", spec.name);
        (void)pin_point(err, "/secrets");
        return pin_hint(err, "add the name to the policy's \"secrets\"");
    }
    pin_request_check_secrets(up->front.ceiling, &secret, 1, &found);
    /* the sandbox's labels are the command's, and it was perhaps made without a secret */
    pin_request_check_labels(up->front.ceiling, PIN_LABELS_FOR_SECRETS, up->front.bundle->ext.labels,
                             up->front.bundle->ext.label_count, &found);
    if (!pin_found_any(&found))
        return true;
    *err = found.list[0];
    return false;
}

static bool fingerprint(struct up *up, struct pin_error *err) {
    uint8_t digest[PIN_SHA256_SIZE];
    if (up->settings != NULL && up->settings->fingerprint != NULL) {
        (void)snprintf(up->fingerprint, sizeof(up->fingerprint), "%s", up->settings->fingerprint);
        return true;
    }
    if (!pin_bundle_fingerprint(up->front.bundle, digest, err))
        return false;
    pin_run_secrets_fingerprint(&up->secrets, digest);
    (void)pin_digest_print(up->fingerprint, digest);
    return true;
}

bool pin_up_open_books(struct up *up, bool audit_sync, struct pin_error *err) {
    struct pin_error missing_secret = {0};
    bool have_secrets = pin_run_secrets_find(&up->secrets, &up->front, &missing_secret);
    up->receipt.file = up->receipt_file;
    up->receipt.image_digest = up->front.request.image_digest;
    up->audit.stays = true;
    if (!fingerprint(up, err) || !pin_run_receipt_prepare(&up->receipt, err) ||
        !pin_run_audit_start(&up->audit, up->front.bundle, up->name, up->fingerprint, up->secrets.mask,
                             audit_sync, err))
        return false;
    if (!have_secrets)
        *err = missing_secret;
    return have_secrets;
}

void pin_up_close_books(struct up *up, const char *why, const struct pin_error *error) {
    struct pin_error err = {0};
    const struct pin_usage usage = {.cpu_ns = up->usage.cpu_ns,
                                    .memory_peak_bytes = up->usage.memory_peak_bytes,
                                    .pids_peak = up->usage.pids_peak};
    (void)pin_run_audit_kept_end(&up->audit, why, &usage, error, &err); /* nobody is left to be told */
    pin_run_audit_close(&up->audit);
    pin_up_forget_refusals(up);
    pin_run_receipt_free(&up->receipt);
}
