#include "runtime/state/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/state/state_dir.h"

static const char folder_name[] = "records";

enum { RECORD_VERSION = 1, RECORD_LIMIT = 64 * 1024, RECORD_NAME = 24 };

struct field {
    const char *key;
    size_t offset, room;
};

#define FIELD(name)                                                                                          \
    { #name, offsetof(struct pin_slot_record, name), sizeof(((struct pin_slot_record *)0)->name) }
static const struct field fields[] = {FIELD(cgroup), FIELD(scratch), FIELD(name)};

static void drop_json(json_t **json) {
    json_decref(*json);
}
#define DROP_JSON __attribute__((cleanup(drop_json)))

static const char *name_record(uint32_t number, char name[RECORD_NAME]) {
    (void)snprintf(name, RECORD_NAME, "%u", number);
    return name;
}

static char *encode(const struct pin_slot_record *record) {
    DROP_JSON json_t *json = json_object();
    if (json == NULL || json_object_set_new(json, "pinfold", json_integer(RECORD_VERSION)) != 0)
        return NULL;
    for (size_t i = 0; i < PIN_COUNT(fields); i++) {
        const char *text = (const char *)record + fields[i].offset;
        if (json_object_set_new(json, fields[i].key, json_string(text)) != 0)
            return NULL; /* bytes that aren't UTF-8 end here too */
    }
    return json_dumps(json, JSON_COMPACT);
}

/* No fsync: after a power cut the sandbox is gone with the machine, and a torn record is found as such. */
static bool put_file(int folder, const char *name, const char *text, struct pin_error *err) {
    char fresh_name[RECORD_NAME + 4];
    (void)snprintf(fresh_name, sizeof(fresh_name), "%s.new", name);
    if (unlinkat(folder, fresh_name, 0) != 0 && errno != ENOENT)
        return pin_fail_errno(err, "remove the half-written record '%s'", fresh_name);
    PIN_CLOSE int fresh =
        openat(folder, fresh_name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fresh < 0)
        return pin_fail_errno(err, "make the record '%s'", fresh_name);
    bool ok = pin_write_all(fresh, text, strlen(text), err) &&
              (fchmod(fresh, 0600) == 0 || pin_fail_errno(err, "protect the record '%s'", fresh_name)) &&
              (renameat(folder, fresh_name, folder, name) == 0 ||
               pin_fail_errno(err, "name the record '%s'", name));
    if (!ok)
        (void)unlinkat(folder, fresh_name, 0); /* the cause is told already */
    return ok;
}

bool pin_slot_record_write(int state_dir, uint32_t number, const struct pin_slot_record *record,
                           struct pin_error *err) {
    char name[RECORD_NAME];
    PIN_FREE char *text = encode(record);
    if (text == NULL)
        return pin_fail(err, PIN_ERROR_INVALID, "the record of slot %u is not UTF-8", number);
    PIN_CLOSE int folder = pin_state_folder(state_dir, folder_name, true, err);
    return folder >= 0 && put_file(folder, name_record(number, name), text, err);
}

static bool take_field(const json_t *json, const struct field *field, struct pin_slot_record *record,
                       struct pin_error *err) {
    const json_t *value = json_object_get(json, field->key);
    if (!json_is_string(value) || json_string_length(value) >= field->room)
        return pin_fail(err, PIN_ERROR_SYNTAX, "'%s' is missing or is no text of its length", field->key);
    memcpy((char *)record + field->offset, json_string_value(value), json_string_length(value) + 1);
    return true;
}

/* A path with ".." in it was never written by us, and would be removed by us. */
static bool is_plain_path(const char *path) {
    return path[0] == '\0' || (path[0] == '/' && strstr(path, "/../") == NULL &&
                               (strlen(path) < 3 || strcmp(path + strlen(path) - 3, "/..") != 0));
}

static bool decode(const char *text, size_t size, struct pin_slot_record *record, struct pin_error *err) {
    json_error_t where;
    DROP_JSON json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
    const json_t *version = json_object_get(json, "pinfold");
    if (!json_is_integer(version))
        return pin_fail(err, PIN_ERROR_SYNTAX, "it is not a record of pinfold");
    if (json_integer_value(version) != RECORD_VERSION) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "its version is %lld, and this pinfold knows version %d",
                       (long long)json_integer_value(version), RECORD_VERSION);
        return pin_hint(err, "run the newer pinfold that wrote it");
    }
    struct pin_slot_record read = {0};
    for (size_t i = 0; i < PIN_COUNT(fields); i++)
        if (!take_field(json, &fields[i], &read, err))
            return false;
    if (!is_plain_path(read.cgroup) || !is_plain_path(read.scratch))
        return pin_fail(err, PIN_ERROR_SYNTAX, "its paths are not plain absolute paths");
    *record = read;
    return true;
}

static char *read_record(int folder, const char *name, size_t *size, struct pin_error *err) {
    PIN_CLOSE int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat facts;
    if (file < 0 || fstat(file, &facts) != 0) {
        (void)pin_fail_errno(err, "open the record '%s'", name);
        return NULL;
    }
    if (!S_ISREG(facts.st_mode) || facts.st_uid != geteuid() || (facts.st_mode & 0022) != 0) {
        (void)pin_fail(err, PIN_ERROR_REFUSED, "the record '%s' is not a file of the owner's alone", name);
        return NULL;
    }
    return pin_read_all(file, RECORD_LIMIT, size, err);
}

bool pin_slot_record_read(int state_dir, uint32_t number, struct pin_slot_record *record,
                          struct pin_error *err) {
    char name[RECORD_NAME];
    size_t size = 0;
    PIN_CLOSE int folder = pin_state_folder(state_dir, folder_name, false, err);
    PIN_FREE char *text = folder < 0 ? NULL : read_record(folder, name_record(number, name), &size, err);
    if (text == NULL)
        return false;
    if (decode(text, size, record, err))
        return true;
    (void)pin_wrap(err, "record of slot %u", number);
    (void)pin_point(err, "%s/%u", folder_name, number);
    return pin_hint(err, "remove the file once what it named is gone");
}

static bool remove_file(int state_dir, const char *path, struct pin_error *err) {
    return unlinkat(state_dir, path, 0) == 0 || errno == ENOENT ||
           pin_fail_errno(err, "remove the record '%s'", path);
}

bool pin_slot_record_remove(int state_dir, uint32_t number, struct pin_error *err) {
    char path[sizeof(folder_name) + RECORD_NAME], fresh[sizeof(path) + 4];
    (void)snprintf(path, sizeof(path), "%s/%u", folder_name, number);
    (void)snprintf(fresh, sizeof(fresh), "%s.new", path);
    return remove_file(state_dir, path, err) && remove_file(state_dir, fresh, err);
}
