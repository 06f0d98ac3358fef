#include "runtime/bills/bill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/private/private_dir.h"

#define TRIES 100 /* each one finds that a reader has taken the spool away */

static const struct pin_private_place place = {"PINFOLD_BILLS", "/var/lib/pinfold/bills", "XDG_DATA_HOME",
                                               ".local/share", "pinfold/bills"};

struct number {
    const char *key;
    size_t offset;
    bool may_miss; /* in lines of an older pinfold: then it is 0 */
};
static const struct number numbers[] = {
    {"at_ms",          offsetof(struct pin_bill, at_ms),          false},
    {"cpu_ns",         offsetof(struct pin_bill, cpu_ns),         false},
    {"memory_byte_ms", offsetof(struct pin_bill, memory_byte_ms), false},
    {"wall_ms",        offsetof(struct pin_bill, wall_ms),        false},
    {"egress_out",     offsetof(struct pin_bill, egress_out),     false},
    {"egress_in",      offsetof(struct pin_bill, egress_in),      false},
    {"runs",           offsetof(struct pin_bill, runs),           false},
    {"published_out",  offsetof(struct pin_bill, published_out),  true },
    {"published_in",   offsetof(struct pin_bill, published_in),   true },
};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

bool pin_bill_begin(struct pin_bill *bill, struct pin_error *err) {
    uint8_t random[(PIN_BILL_ID - 1) / 2];
    *bill = (struct pin_bill){.part = 0};
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return pin_fail_errno(err, "draw the number of a bill");
    for (size_t i = 0; i < sizeof(random); i++)
        (void)snprintf(bill->id + 2 * i, 3, "%02x", random[i]);
    return true;
}

int pin_bill_folder(bool create, struct pin_error *err) {
    char path[PATH_MAX];
    return pin_private_choose(&place, path, err) ? pin_private_dir(path, create, err) : -1;
}

static char *print(const struct pin_bill *bill) {
    json_t *whole =
        json_pack("{s:i, s:s, s:I, s:s, s:s, s:O}", "v", 1, "id", bill->id, "part", (json_int_t)bill->part,
                  "kind", bill->kind, "sandbox", bill->sandbox, "labels", bill->labels);
    for (size_t i = 0; i < NUMBERS; i++) {
        uint64_t value = *(const uint64_t *)(const void *)((const char *)bill + numbers[i].offset);
        (void)json_object_set_new(whole, numbers[i].key, json_integer((json_int_t)value));
    }
    char *text = json_dumps(whole, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(whole);
    return text;
}

/* Under the lock it must still be the spool: a reader may have renamed it between the two calls. */
static bool is_spool(int folder, int file) {
    struct stat named, opened;
    return fstatat(folder, "spool", &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(file, &opened) == 0 &&
           named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

static int open_spool(int folder, struct pin_error *err) {
    for (int i = 0; i < TRIES; i++) {
        PIN_CLOSE int file = pin_private_file(folder, "spool", O_RDWR | O_APPEND | O_CREAT, err);
        if (file < 0)
            return -1;
        if (flock(file, LOCK_SH) != 0) {
            (void)pin_fail_errno(err, "lock the spool of bills");
            return -1;
        }
        if (is_spool(folder, file))
            return pin_steal_fd(&file);
    }
    (void)pin_fail(err, PIN_ERROR_BUSY, "the spool of bills is taken away again and again");
    return -1;
}

bool pin_bill_write(struct pin_bill *bill, struct pin_error *err) {
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    bill->at_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    bill->part++;
    PIN_FREE char *text = print(bill);
    size_t size = text == NULL ? 0 : strlen(text);
    if (text == NULL || size >= PIN_BILL_LINE_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "a bill has no memory, or more labels than a line has room");
    text[size] = '\n'; /* over its zero: its size is known */
    PIN_CLOSE int folder = pin_bill_folder(true, err);
    PIN_CLOSE int spool = folder < 0 ? -1 : open_spool(folder, err);
    if (spool < 0)
        return pin_wrap(err, "write a bill");
    ssize_t wrote = write(spool, text, size + 1);
    if (wrote != (ssize_t)size + 1 && wrote >= 0)
        errno = ENOSPC;
    return wrote == (ssize_t)size + 1 || pin_fail_errno(err, "write a bill");
}

static bool are_labels(json_t *labels) {
    const char *key;
    json_t *value;
    if (!json_is_object(labels))
        return false;
    json_object_foreach(labels, key, value) if (!json_is_string(value)) return false;
    return true;
}

static bool take_numbers(const json_t *whole, struct pin_bill *bill) {
    for (size_t i = 0; i < NUMBERS; i++) {
        const json_t *value = json_object_get(whole, numbers[i].key);
        if (value == NULL && numbers[i].may_miss)
            continue;
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return false;
        *(uint64_t *)(void *)((char *)bill + numbers[i].offset) = (uint64_t)json_integer_value(value);
    }
    return true;
}

static bool take(json_t *whole, struct pin_bill *bill) {
    const char *id = json_string_value(json_object_get(whole, "id"));
    json_int_t part = json_integer_value(json_object_get(whole, "part"));
    bill->kind = json_string_value(json_object_get(whole, "kind"));
    bill->sandbox = json_string_value(json_object_get(whole, "sandbox"));
    bill->labels = json_object_get(whole, "labels");
    if (json_integer_value(json_object_get(whole, "v")) != 1 || id == NULL || strlen(id) != PIN_BILL_ID - 1 ||
        part < 1 || part > UINT32_MAX || bill->kind == NULL || bill->sandbox == NULL ||
        !are_labels(json_object_get(whole, "labels")))
        return false;
    memcpy(bill->id, id, PIN_BILL_ID);
    bill->part = (uint32_t)part;
    return take_numbers(whole, bill);
}

bool pin_bill_parse(const char *line, size_t size, struct pin_bill *bill, json_t **whole) {
    json_error_t fault;
    if (size >= PIN_BILL_LINE_MAX)
        return false;
    *whole = json_loadb(line, size, JSON_REJECT_DUPLICATES, &fault);
    *bill = (struct pin_bill){.part = 0};
    if (take(*whole, bill))
        return true;
    json_decref(*whole);
    return false;
}

/* A name of its own: an older one may not have been entered yet. */
bool pin_bill_take_spool(int folder, struct pin_error *err) {
    char name[64];
    struct pin_bill unique;
    struct stat facts;
    struct pin_error missing = {0};
    PIN_CLOSE int spool = pin_private_file(folder, "spool", O_RDWR, &missing);
    if (spool < 0 && missing.kind == PIN_ERROR_NOT_FOUND)
        return true;
    if (spool < 0) {
        *err = missing;
        return false;
    }
    if (flock(spool, LOCK_EX) != 0)
        return pin_fail_errno(err, "lock the spool of bills");
    if (!is_spool(folder, spool) || (fstat(spool, &facts) == 0 && facts.st_size == 0))
        return true;
    if (!pin_bill_begin(&unique, err))
        return false;
    (void)snprintf(name, sizeof(name), "spool.%s", unique.id);
    return renameat(folder, "spool", folder, name) == 0 || pin_fail_errno(err, "take the spool of bills");
}
