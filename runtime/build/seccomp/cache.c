#include "runtime/build/seccomp/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "policy/filter.h"
#include "runtime/build/seccomp/cache_file.h"
#include "runtime/build/seccomp/spec.h"
#include "runtime/build/seccomp/verify.h"

#define NAME_SIZE (2 * PIN_SHA256_SIZE + 1)

static void entry_name(char name[NAME_SIZE], const uint8_t digest[PIN_SHA256_SIZE]) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < PIN_SHA256_SIZE; i++) {
        name[2 * i] = digits[digest[i] >> 4];
        name[2 * i + 1] = digits[digest[i] & 15];
    }
    name[NAME_SIZE - 1] = '\0';
}

/* A private file: nobody else could have opened it for writing, or holds it by another name. */
static bool is_ours(int file, size_t *size) {
    struct stat status;
    if (fstat(file, &status) < 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & 07777) != 0600 || status.st_nlink != 1 || status.st_size < PIN_CACHE_HEADER ||
        (size_t)status.st_size > PIN_CACHE_FILE_MAX)
        return false;
    *size = (size_t)status.st_size;
    return true;
}

static bool read_entry(int dir, const char *name, const uint8_t digest[PIN_SHA256_SIZE],
                       struct pin_program *program) {
    uint8_t data[PIN_CACHE_FILE_MAX];
    size_t size;
    /* O_NONBLOCK: a fifo in its place must not hold us */
    PIN_CLOSE int file = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return file >= 0 && is_ours(file, &size) && read(file, data, size) == (ssize_t)size &&
           pin_cache_file_read(data, size, digest, program);
}

static bool load_entry(int dir, const char *name, const struct pin_filter *filter,
                       const uint8_t digest[PIN_SHA256_SIZE], struct pin_program *program) {
    struct pin_program read = {0};
    struct pin_error reason = {0}; /* nobody asks: the program is made anew */
    if (!read_entry(dir, name, digest, &read))
        return false;
    if (!pin_program_verify(&read, filter, PIN_VERIFY_PROOF, &reason)) {
        pin_program_free(&read);
        return false;
    }
    read.flags = filter->flags;
    *program = read;
    return true;
}

/* Puts the entry in place whole or not at all: the file has no name before it is complete, and none is left
 * behind if we are killed. File systems without O_TMPFILE do without a cache. */
static void store_entry(int dir, const char *name, const struct pin_program *program) {
    size_t size;
    PIN_FREE void *data = pin_cache_file_write(program, &size);
    PIN_CLOSE int file = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    struct pin_error reason = {0}; /* nobody asks: the next run tries again */
    char self[32];
    if (data == NULL || file < 0 || fchmod(file, 0600) < 0 || !pin_write_all(file, data, size, &reason))
        return;
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", file);
    if (linkat(AT_FDCWD, self, dir, name, AT_SYMLINK_FOLLOW) == 0 || errno != EEXIST)
        return;
    if (unlinkat(dir, name, 0) == 0 && /* what was there was no good */
        linkat(AT_FDCWD, self, dir, name, AT_SYMLINK_FOLLOW) < 0)
        return; /* somebody was faster, and stored the same */
}

static bool check_filter(const struct pin_filter *filter, struct pin_error *err) {
    struct pin_findings found = {0};
    pin_filter_check(filter, &found);
    return !pin_found_any(&found) || pin_fail_findings(err, &found);
}

static bool make_program(const struct pin_filter *filter, struct pin_program *program,
                         struct pin_error *err) {
    struct pin_program made = {0};
    if (!check_filter(filter, err) || !pin_program_compile(filter, &made, err))
        return false;
    if (!pin_program_verify(&made, filter, PIN_VERIFY_PROBE, err)) {
        pin_program_free(&made);
        return pin_wrap(err, "verify the compiled filter");
    }
    *program = made;
    return true;
}

bool pin_program_get(const struct pin_filter *filter, int cache_dir, struct pin_program *program,
                     struct pin_error *err) {
    uint8_t digest[PIN_SHA256_SIZE];
    char name[NAME_SIZE];
    /* what comes now, libseccomp above all, takes the square of their number, or worse: minutes */
    if (filter->rule_count > PIN_PROGRAM_RULES_MAX)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "the filter has %zu rules, and %d are the most",
                        filter->rule_count, PIN_PROGRAM_RULES_MAX);
    if (!pin_filter_spec(filter, digest))
        return pin_fail_errno(err, "make room for the filter");
    entry_name(name, digest);
    if (cache_dir >= 0 && load_entry(cache_dir, name, filter, digest, program))
        return true;
    struct pin_program made = {0};
    if (!make_program(filter, &made, err))
        return false;
    memcpy(made.spec_digest, digest, sizeof(digest));
    if (cache_dir >= 0)
        store_entry(cache_dir, name, &made);
    *program = made;
    return true;
}
