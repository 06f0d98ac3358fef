/* Whatever a log holds, verifying it ends: a record counts at most once, and a log of strange bytes is never
 * found to be whole. */
#include <assert.h>
#include <string.h>

#include "runtime/audit/verify.h"

static void count(void *self, const struct pin_audit_finding *finding) {
    (void)pin_audit_fault_name(finding->fault);
    ++*(uint64_t *)self;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_audit_verifier verifier;
    const struct pin_audit_head head = {.seq = 3, .first = 1, .size = 1000, .hash = PIN_AUDIT_NO_HASH};
    uint64_t findings = 0, lines = 0;
    pin_audit_verifier_init(&verifier, 1, count, &findings);
    for (const uint8_t *at = data, *end = data + size; at < end; lines++) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = stop != NULL ? (size_t)(stop - at) : (size_t)(end - at);
        pin_audit_verifier_line(&verifier, "log", lines + 1, (const char *)at, length);
        at += length + 1;
    }
    assert(verifier.records <= lines && findings == verifier.findings);
    pin_audit_verifier_end(&verifier, "log", &head);
    assert(findings > 0); /* no bytes have the hash of zeros */
    return 0;
}
