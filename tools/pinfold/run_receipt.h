/* run_receipt.h: the receipt of a run: gathered here, signed by pinfold-audit, which has the key.
 */
#pragma once

#include <jansson.h>

#include "runtime/build/build.h"
#include "runtime/supervise/result.h"
#include "tools/pinfold/front.h"
#include "tools/pinfold/run_audit.h"

struct pin_run_receipt { /* zeroed: none is wanted */
    const char *file;
    const char *image_digest; /* of the manifest; NULL: the host's files. Borrowed */
    json_t *enforced;
};

/* Before anything is built: the program that signs is there and has a key, and the file is not there yet. */
bool pin_run_receipt_prepare(const struct pin_run_receipt *receipt, struct pin_error *err);
/* When the sandbox is built and its command not yet started. */
bool pin_run_receipt_read(struct pin_run_receipt *receipt, const struct pin_sandbox *sandbox,
                          struct pin_error *err);
/* When all is over; of a kept sandbox when it is up: `result` has no end then, `has_ended` false. */
bool pin_run_receipt_write(struct pin_run_receipt *receipt, const struct pin_bundle *bundle,
                           const struct pin_result *result, bool has_ended, const struct pin_run_audit *audit,
                           struct pin_error *err);
void pin_run_receipt_free(struct pin_run_receipt *receipt);
