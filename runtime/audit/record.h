/* record.h: one line of the audit log.
 *
 * {"seq", "time", "mono_ns", "boot", "event", "sandbox", "labels", "data", "prev", "hash"}, in this order and
 * in ASCII. "hash" is the SHA-256 of the line's own bytes before `,"hash":`, so that there is nothing to
 * canonicalise; "prev" is the hash of the record before, of zeros for the first. docs/audit.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "base/sha256.h"

#define PIN_AUDIT_LINE_MAX ((size_t)256 * 1024) /* with its end */
#define PIN_AUDIT_NO_HASH "sha256:0000000000000000000000000000000000000000000000000000000000000000"

/* What an event can be called; a record of another name isn't made. Source: docs/audit.md. */
#define PIN_AUDIT_EVENTS 13
extern const char *const pin_audit_events[PIN_AUDIT_EVENTS];

struct pin_audit_event {
    const char *name;            /* "start" */
    const char *sandbox;         /* NULL: none */
    const struct json_t *labels; /* object, borrowed; NULL: {} */
    const struct json_t *data;   /* object, borrowed; NULL: {} */
};

struct pin_audit_stamp {
    uint64_t realtime_ns, mono_ns;
    const char *boot; /* the id of this boot */
};

/* The line with its end, which the caller frees, and its hash; NULL when it would be too long, or memory is
 * out. */
char *pin_audit_record_print(uint64_t seq, const char *prev, const struct pin_audit_stamp *stamp,
                             const struct pin_audit_event *event, size_t *size, char hash[PIN_DIGEST_TEXT],
                             struct pin_error *err);

struct pin_audit_record {
    uint64_t seq;
    char prev[PIN_DIGEST_TEXT], hash[PIN_DIGEST_TEXT]; /* as the line says */
    bool is_intact;                                    /* the hash is the one of its bytes */
    json_t *json;                                      /* the whole object */
};

/* Reads a line (without its end). False when it isn't a record at all; the caller frees the record. */
bool pin_audit_record_parse(const char *line, size_t size, struct pin_audit_record *record);
void pin_audit_record_free(struct pin_audit_record *record);
