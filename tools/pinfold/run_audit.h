/* run_audit.h: what a run tells the audit log, as its policy's audit.record says.
 *
 * With an empty audit.record nothing is opened and nothing written. Otherwise the first record is in the log
 * before anything is built, with room for the last: a log that can't be written refuses the run. Later, the
 * first failure stays in `fault`, and the caller ends the run.
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "base/findings.h"
#include "runtime/audit/log.h"
#include "runtime/secrets/mask.h"
#include "runtime/secrets/secrets.h"
#include "runtime/supervise/result.h"
#include "tools/pinfold/front.h"

struct pin_run_audit { /* PIN_RUN_AUDIT_NONE at first */
    struct pin_audit log;
    bool lifecycle, egress; /* what is recorded */
    const char *sandbox;    /* borrowed; so is the bundle */
    const struct pin_bundle *bundle;
    json_t *labels;
    bool stays;    /* for long: the log may be put aside meanwhile, and is opened anew then */
    uint32_t exec; /* of a kept sandbox; 0: the sandbox itself */
    bool is_started, has_dropped;
    uint64_t dropped; /* records since the last that is in the log, where the policy has such counted */
    struct pin_audit_head end; /* after the last record that was written */
    struct pin_error fault;
};

/* clang-format off */
#define PIN_RUN_AUDIT_NONE ((struct pin_run_audit){.log = PIN_AUDIT_NONE})
/* clang-format on */

static inline bool pin_run_audit_is_on(const struct pin_run_audit *audit) {
    return audit->is_started;
}

/* Whether a run of this bundle is recorded at all. */
bool pin_run_audit_wanted(const struct pin_bundle *bundle);

/* Opens the log and writes "start"; the mask, which may be NULL, takes secrets out of the arguments. */
bool pin_run_audit_start(struct pin_run_audit *audit, const struct pin_bundle *bundle, const char *sandbox,
                         const char *fingerprint, const struct pin_mask *mask, bool sync,
                         struct pin_error *err);
/* "secret" for each that is handed over, by name. */
bool pin_run_audit_secrets(struct pin_run_audit *audit, const struct pin_secrets *secrets,
                           struct pin_error *err);
/* A kept sandbox: one command of it, before it is started. `user`: "UID:GID", NULL: the policy's. A secret
 * counts as of this command. */
bool pin_run_audit_exec(struct pin_run_audit *audit, uint32_t exec, const char *const *args, size_t count,
                        const char *user, const struct pin_mask *mask, struct pin_error *err);
bool pin_run_audit_exec_end(struct pin_run_audit *audit, uint32_t exec, const struct pin_result *result,
                            struct pin_error *err);
bool pin_run_audit_exec_refusal(struct pin_run_audit *audit, const char *const *args, size_t count,
                                const struct pin_mask *mask, const struct pin_error *refusal,
                                const json_t *denials, struct pin_error *err);
/* "end": of a kept sandbox; `why` it ended. */
bool pin_run_audit_kept_end(struct pin_run_audit *audit, const char *why, const struct pin_usage *usage,
                            const struct pin_error *error, struct pin_error *err);
/* "remove": what an ended sandbox had left is taken away by its owner. */
bool pin_run_audit_remove(const char *sandbox, const json_t *labels, struct pin_error *err);

/* A broker's event; false when it couldn't be written. */
bool pin_run_audit_egress(struct pin_run_audit *audit, const json_t *event);
/* A system call that was denied, as run_calls.h has it; false when it couldn't be written. */
bool pin_run_audit_call(struct pin_run_audit *audit, const json_t *denial);
/* "limit" where one was hit, and "end"; `error` is of a run that has no result. False with the fault set, or
 * without one where records were dropped and the policy has them counted. */
bool pin_run_audit_end(struct pin_run_audit *audit, const struct pin_result *result,
                       const struct pin_error *error);
void pin_run_audit_close(struct pin_run_audit *audit);

/* A request that was refused, where its policy is known and wants that recorded; `denials` may be NULL. */
bool pin_run_audit_refusal(const struct pin_front *front, const struct pin_findings *found,
                           const json_t *denials, bool sync, struct pin_error *err);
