/* sink.h: where exported records go: a datagram socket of syslog's (RFC 5424) or of systemd's journal (its
 * native protocol: systemd.io/JOURNAL_NATIVE_PROTOCOL).
 *
 * A record that no datagram has room for goes to the journal in a sealed memory file; to syslog it can't go,
 * and is an error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "runtime/audit/record.h"

struct pin_audit_sink {
    int socket; /* -1: none */
    bool journald;
};

/* `path`: NULL for the usual one. */
bool pin_audit_sink_open(struct pin_audit_sink *sink, bool journald, const char *path, struct pin_error *err);
bool pin_audit_sink_send(const struct pin_audit_sink *sink, const struct pin_audit_record *record,
                         const char *line, size_t size, struct pin_error *err);
void pin_audit_sink_close(struct pin_audit_sink *sink);
