#include "runtime/audit/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/units.h"

static const char hash_key[] = ",\"hash\":\"";

enum { TIME_TEXT = 48, HASH_TEXT = PIN_DIGEST_TEXT - 1, TAIL = sizeof(hash_key) - 1 + HASH_TEXT + 2 };

const char *const pin_audit_events[PIN_AUDIT_EVENTS] = {
    "create",  "dropped", "egress", "end",    "exec",  "exec-end", "limit",
    "refusal", "remove",  "repair", "secret", "start", "syscall",
};

static void print_time(char to[TIME_TEXT], uint64_t realtime_ns) {
    time_t seconds = (time_t)(realtime_ns / PIN_NS_PER_S);
    struct tm at = {0};
    (void)gmtime_r(&seconds, &at);
    size_t length = strftime(to, TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &at);
    (void)snprintf(to + length, TIME_TEXT - length, ".%09" PRIu64 "Z", realtime_ns % PIN_NS_PER_S);
}

/* ASCII alone: no direction mark and no control character reaches who reads the log with cat. */
static char *dump(const json_t *object) {
    json_t *empty = object == NULL ? json_object() : NULL;
    char *dumped = json_dumps(object != NULL ? object : empty, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(empty);
    return dumped;
}

static char *dump_text(const char *text) {
    json_t *string = json_string(text != NULL ? text : "");
    char *dumped = json_dumps(string, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    json_decref(string);
    return dumped;
}

char *pin_audit_record_print(uint64_t seq, const char *prev, const struct pin_audit_stamp *stamp,
                             const struct pin_audit_event *event, size_t *size, char hash[PIN_DIGEST_TEXT],
                             struct pin_error *err) {
    char at[TIME_TEXT];
    uint8_t digest[PIN_SHA256_SIZE];
    char *line = NULL;
    PIN_FREE char *labels = dump(event->labels), *data = dump(event->data);
    PIN_FREE char *name = dump_text(event->name), *sandbox = dump_text(event->sandbox);
    print_time(at, stamp->realtime_ns);
    if (pin_name_find(pin_audit_events, PIN_AUDIT_EVENTS, event->name) < 0) {
        (void)pin_fail(err, PIN_ERROR_INTERNAL, "no audit record is called '%s'", event->name);
        return NULL;
    }
    if (labels == NULL || data == NULL || name == NULL || sandbox == NULL) {
        (void)pin_fail(err, PIN_ERROR_INVALID,
                       "an audit record can't be made: it isn't UTF-8, or memory is out");
        return NULL;
    }
    int length = asprintf(
        &line,
        "{\"seq\":%" PRIu64 ",\"time\":\"%s\",\"mono_ns\":%" PRIu64
        ",\"boot\":\"%s\",\"event\":%s,\"sandbox\":%s,\"labels\":%s,\"data\":%s,\"prev\":\"%s\""
        "%s%s\"}\n",
        seq, at, stamp->mono_ns, stamp->boot, name, sandbox, labels, data, prev, hash_key, PIN_AUDIT_NO_HASH);
    if (length < 0 || (size_t)length > PIN_AUDIT_LINE_MAX) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "an audit record would be longer than %zu bytes",
                       PIN_AUDIT_LINE_MAX);
        if (length >= 0)
            free(line);
        return NULL;
    }
    size_t covered = (size_t)length - 1 - TAIL;
    pin_sha256(line, covered, digest);
    (void)pin_digest_print(hash, digest);
    memcpy(line + covered + sizeof(hash_key) - 1, hash, HASH_TEXT);
    *size = (size_t)length;
    return line;
}

static bool is_digest(const char *text, size_t size) {
    return size == HASH_TEXT && memcmp(text, "sha256:", 7) == 0 &&
           strspn(text + 7, "0123456789abcdef") >= HASH_TEXT - 7;
}

/* The bytes that the hash covers; false when the line doesn't end with one. */
static bool find_hash(const char *line, size_t size, size_t *covered) {
    if (size <= TAIL || memcmp(line + size - 2, "\"}", 2) != 0)
        return false;
    *covered = size - TAIL;
    return memcmp(line + *covered, hash_key, sizeof(hash_key) - 1) == 0;
}

static bool take_digest(const json_t *json, const char *key, char to[PIN_DIGEST_TEXT]) {
    const json_t *value = json_object_get(json, key);
    if (!json_is_string(value) || !is_digest(json_string_value(value), json_string_length(value)))
        return false;
    memcpy(to, json_string_value(value), PIN_DIGEST_TEXT);
    return true;
}

static bool is_shaped(const json_t *json) {
    return json_is_integer(json_object_get(json, "seq")) &&
           json_integer_value(json_object_get(json, "seq")) > 0 &&
           json_is_string(json_object_get(json, "time")) && json_is_string(json_object_get(json, "event")) &&
           json_is_string(json_object_get(json, "sandbox")) &&
           json_is_object(json_object_get(json, "labels")) && json_is_object(json_object_get(json, "data"));
}

bool pin_audit_record_parse(const char *line, size_t size, struct pin_audit_record *record) {
    size_t covered;
    uint8_t digest[PIN_SHA256_SIZE];
    char actual[PIN_DIGEST_TEXT];
    if (size >= PIN_AUDIT_LINE_MAX || !find_hash(line, size, &covered))
        return false;
    *record = (struct pin_audit_record){.json = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL)};
    if (record->json == NULL)
        return false;
    if (!is_shaped(record->json) || !take_digest(record->json, "prev", record->prev) ||
        !take_digest(record->json, "hash", record->hash)) {
        pin_audit_record_free(record);
        return false;
    }
    record->seq = (uint64_t)json_integer_value(json_object_get(record->json, "seq"));
    pin_sha256(line, covered, digest);
    record->is_intact = strcmp(pin_digest_print(actual, digest), record->hash) == 0;
    return true;
}

void pin_audit_record_free(struct pin_audit_record *record) {
    json_decref(record->json);
    record->json = NULL;
}
