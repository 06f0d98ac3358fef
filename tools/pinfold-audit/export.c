/* audit export: records to syslog or to systemd's journal, each once, as long as the cursor is kept. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/audit/verify.h"
#include "tools/pinfold-audit/sink.h"
#include "tools/pinfold-audit/verbs.h"
#include "tools/pinfold/report.h"

struct export_options {
    bool syslog, journald, json;
    const char *file, *socket, *cursor;
    struct pin_number from;
};

#define ROW(name, type, member, value, help)                                                                 \
    { name, 0, type, offsetof(struct export_options, member), value, help, NULL }
static const struct pin_option options[] = {
    ROW("syslog", PIN_OPTION_FLAG, syslog, NULL, "to /dev/log, facility authpriv, RFC 5424"),
    ROW("journald", PIN_OPTION_FLAG, journald, NULL, "to systemd's journal, with fields PINFOLD_…"),
    ROW("cursor", PIN_OPTION_TEXT, cursor, "FILE",
        "begin behind the record that this file names, and keep the last one there"),
    ROW("from", PIN_OPTION_COUNT, from, "SEQ", "begin with this record"),
    ROW("socket", PIN_OPTION_TEXT, socket, "PATH", "another socket than the usual one"),
    ROW("file", PIN_OPTION_TEXT, file, "FILE", "this log instead of one's own, its absolute path"),
    ROW("json", PIN_OPTION_FLAG, json, NULL, "print what was done as one JSON object"),
};

struct exporter {
    struct pin_audit_sink sink;
    uint64_t after;             /* the last record that isn't to be sent */
    char hash[PIN_DIGEST_TEXT]; /* of the record before; "": not known */
    uint64_t last, sent, strange;
    struct pin_error fault;
};

/* What was exported must still be what the log says, and the next record must go on from it. */
static bool fits(struct exporter *exporter, const struct pin_audit_record *record) {
    bool is_cursor = record->seq == exporter->after && exporter->after > 0;
    if (!record->is_intact)
        (void)pin_fail(&exporter->fault, PIN_ERROR_REFUSED, "record %llu was edited",
                       (unsigned long long)record->seq);
    else if (is_cursor && exporter->hash[0] != '\0' && strcmp(record->hash, exporter->hash) != 0)
        (void)pin_fail(&exporter->fault, PIN_ERROR_REFUSED, "record %llu isn't the one that was exported",
                       (unsigned long long)record->seq);
    else if (record->seq > exporter->after && exporter->last > 0 &&
             (record->seq != exporter->last + 1 || strcmp(record->prev, exporter->hash) != 0))
        (void)pin_fail(&exporter->fault, PIN_ERROR_REFUSED, "record %llu doesn't go on from record %llu",
                       (unsigned long long)record->seq, (unsigned long long)exporter->last);
    else
        return true;
    return pin_hint(&exporter->fault, "see what 'pinfold audit verify' says");
}

static bool take(struct exporter *exporter, const struct pin_audit_record *record, const char *line,
                 size_t size) {
    if (record->seq < exporter->after)
        return true;
    if (!fits(exporter, record))
        return false;
    if (record->seq > exporter->after &&
        !pin_audit_sink_send(&exporter->sink, record, line, size, &exporter->fault))
        return false;
    exporter->sent += record->seq > exporter->after;
    exporter->last = record->seq;
    memcpy(exporter->hash, record->hash, sizeof(exporter->hash));
    return true;
}

static bool take_line(void *self, const char *file, uint64_t number, const char *line, size_t size) {
    struct exporter *exporter = self;
    struct pin_audit_record record;
    (void)file;
    (void)number;
    if (!pin_audit_record_parse(line, size, &record)) {
        exporter->strange++;
        return true;
    }
    bool ok = take(exporter, &record, line, size);
    pin_audit_record_free(&record);
    return ok;
}

/* "SEQ HASH"; a missing file is a beginning. */
static bool read_cursor(struct exporter *exporter, const char *path, struct pin_error *err) {
    char text[128], hash[PIN_DIGEST_TEXT] = "";
    unsigned long long seq;
    PIN_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return errno == ENOENT || pin_fail_errno(err, "open the cursor '%s'", path);
    ssize_t got = read(file, text, sizeof(text) - 1);
    text[got > 0 ? got : 0] = '\0';
    if (sscanf(text, "%llu %71s", &seq, hash) != 2 || strlen(hash) != PIN_DIGEST_TEXT - 1)
        return pin_fail(err, PIN_ERROR_SYNTAX, "'%s' isn't a cursor", path);
    exporter->after = seq;
    memcpy(exporter->hash, hash, sizeof(exporter->hash));
    return true;
}

static bool write_cursor(const struct exporter *exporter, const char *path, struct pin_error *err) {
    char fresh[PATH_MAX], text[128];
    int length = snprintf(fresh, sizeof(fresh), "%s.new", path);
    int size = snprintf(text, sizeof(text), "%llu %s\n", (unsigned long long)exporter->last, exporter->hash);
    if (length >= (int)sizeof(fresh))
        return pin_fail(err, PIN_ERROR_INVALID, "the path of the cursor is too long");
    PIN_CLOSE int file = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return pin_fail_errno(err, "write the cursor '%s'", path);
    return pin_write_all(file, text, (size_t)size, err) &&
           ((fsync(file) == 0 && rename(fresh, path) == 0) ||
            pin_fail_errno(err, "write the cursor '%s'", path));
}

static bool check(const struct export_options *values, struct pin_error *err) {
    if (values->syslog == values->journald)
        return pin_fail(err, PIN_ERROR_USAGE, "'audit export' needs --syslog or --journald, and not both");
    return (values->cursor == NULL || !values->from.given) ||
           pin_fail(err, PIN_ERROR_USAGE, "--cursor and --from exclude each other");
}

static bool export_all(struct exporter *exporter, const struct export_options *values,
                       struct pin_error *err) {
    struct pin_audit audit = PIN_AUDIT_NONE;
    struct pin_audit_head head;
    if (!check(values, err) || (values->cursor != NULL && !read_cursor(exporter, values->cursor, err)) ||
        !pin_audit_sink_open(&exporter->sink, values->journald, values->socket, err))
        return false;
    if (values->from.given && values->from.value > 0)
        exporter->after = values->from.value - 1;
    bool opened = values->file != NULL ? pin_audit_open_path(&audit, values->file, false, err)
                                       : pin_audit_open(&audit, false, err);
    bool ok = opened && pin_audit_each(&audit, take_line, exporter, &head, err);
    pin_audit_close(&audit);
    if (exporter->last > 0 && values->cursor != NULL) { /* also of what went out before a failure */
        struct pin_error unwritten = {0};
        if (!write_cursor(exporter, values->cursor, &unwritten) && ok) {
            *err = unwritten;
            ok = false;
        }
    }
    if (ok && pin_is_set(&exporter->fault))
        *err = exporter->fault;
    return ok && !pin_is_set(err);
}

static int run_export(const struct pin_invocation *invocation) {
    const struct export_options *values = invocation->values;
    struct exporter exporter = {.sink = {.socket = -1}};
    struct pin_error err = {0};
    bool ok = export_all(&exporter, values, &err);
    pin_audit_sink_close(&exporter.sink);
    if (!ok) {
        (void)pin_report(&err, values->json);
        return PIN_AUDIT_ERROR;
    }
    if (values->json)
        (void)printf("{\"sent\":%llu,\"last\":%llu,\"strange\":%llu}\n", (unsigned long long)exporter.sent,
                     (unsigned long long)exporter.last, (unsigned long long)exporter.strange);
    else
        (void)printf("%llu records sent, up to record %llu\n", (unsigned long long)exporter.sent,
                     (unsigned long long)exporter.last);
    return exporter.strange > 0 ? PIN_AUDIT_BAD : PIN_AUDIT_GOOD;
}

const struct pin_verb pin_audit_verb_export = {
    .name = "audit export",
    .synopsis = "",
    .summary = "send records to syslog or to systemd's journal",
    .description = "Each record goes out whole, as it is in the log, so that what was exported can be "
                   "checked against it. "
                   "With --cursor each goes out once, in a timer's runs: the file holds the number and the "
                   "hash of the last, "
                   "and a log that doesn't go on from there is refused.",
    .example = "  pinfold audit export --journald --cursor /var/lib/pinfold/exported",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct export_options),
    .run = run_export,
};
