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
    struct pin_audit_head end; /* after the last record that was written */
    struct pin_error fault;
};

/* clang-format off */
#define PIN_RUN_AUDIT_NONE ((struct pin_run_audit){.log = PIN_AUDIT_NONE})
/* clang-format on */

static inline bool pin_run_audit_is_on(const struct pin_run_audit *audit) {
    return audit->log.head >= 0;
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
/* A broker's event; false when it couldn't be written. */
bool pin_run_audit_egress(struct pin_run_audit *audit, const json_t *event);
/* "limit" where one was hit, and "end"; `error` is of a run that has no result. False with the fault set. */
bool pin_run_audit_end(struct pin_run_audit *audit, const struct pin_result *result,
                       const struct pin_error *error);
void pin_run_audit_close(struct pin_run_audit *audit);

/* A request that was refused, where its policy is known and wants that recorded. */
bool pin_run_audit_refusal(const struct pin_front *front, const struct pin_findings *found, bool sync,
                           struct pin_error *err);
