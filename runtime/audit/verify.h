/* verify.h: whether the audit log is what was written: every record there, unaltered, in order.
 *
 * Finds records that were edited, removed, put elsewhere or cut off, and names them. What it can't find: a
 * log that was written anew from some record on, by somebody who also wrote the head. Against that, keep
 * heads elsewhere: a receipt holds one. docs/audit.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "runtime/audit/log.h"

enum pin_audit_fault {
    PIN_AUDIT_MALFORMED, /* a line that is no record */
    PIN_AUDIT_EDITED,    /* its bytes don't have its hash */
    PIN_AUDIT_REPLACED,  /* the next record was chained to another one in its place */
    PIN_AUDIT_REMOVED,   /* records `seq` to `last` are missing */
    PIN_AUDIT_MISPLACED, /* a record out of its order */
    PIN_AUDIT_TRUNCATED, /* the end is missing: records `seq` to `last` */
    PIN_AUDIT_UNHEADED,  /* there is more than the head says */
    PIN_AUDIT_FAULT_COUNT
};
const char *pin_audit_fault_name(enum pin_audit_fault fault); /* "edited", … */

struct pin_audit_finding {
    enum pin_audit_fault fault;
    const char *file;
    uint64_t line;      /* from 1; 0: of no line */
    uint64_t seq, last; /* the records it is about; 0: unknown */
};

typedef void pin_audit_on_finding(void *self, const struct pin_audit_finding *finding);

struct pin_audit_verifier {
    pin_audit_on_finding *on_finding;
    void *self;
    uint64_t from; /* the first record that there should be */
    uint64_t expected, records, findings;
    char hash[PIN_DIGEST_TEXT];    /* of the record before */
    char earlier[PIN_DIGEST_TEXT]; /* and of the one before that */
    bool has_hash, is_edited;      /* the one before had a fault of its own, which is told already */
    bool on_record;                /* the line before was one */
    bool is_torn;                  /* set by who reads: the last line has no end */
};

void pin_audit_verifier_init(struct pin_audit_verifier *verifier, uint64_t from,
                             pin_audit_on_finding *on_finding, void *self);
void pin_audit_verifier_line(struct pin_audit_verifier *verifier, const char *file, uint64_t number,
                             const char *line, size_t size);
/* After the last line; NULL: without a head. */
void pin_audit_verifier_end(struct pin_audit_verifier *verifier, const char *file,
                            const struct pin_audit_head *head);

/* The whole log: the files that were rotated away, and the current one up to where the head is now. False:
 * it couldn't be read. */
bool pin_audit_verify(struct pin_audit *audit, struct pin_audit_verifier *verifier,
                      struct pin_audit_head *head, struct pin_error *err);

/* Every line of it, in order; stops when `on_line` says false. */
typedef bool pin_audit_on_line(void *self, const char *file, uint64_t number, const char *line, size_t size);
bool pin_audit_each(struct pin_audit *audit, pin_audit_on_line *on_line, void *self,
                    struct pin_audit_head *head, struct pin_error *err);
