/* io.h: descriptors: opening below a root, reading with a bound, writing whole.
 *
 * Descriptors are close-on-exec from birth. Every path is resolved once, and what was opened is what is used.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* openat2(2), tried again where it gives up: ".." below a root, or a lease, while somebody renames or mounts
 * anything anywhere. -1 and errno on failure. */
int pin_openat2(int root, const char *path, int flags, mode_t mode, uint64_t resolve);

/* Opens `path` as if `root` were "/": "..", absolute links and absolute paths stay below it; magic links are
 * refused. `how_flags` are open(2)'s. openat2(2), RESOLVE_IN_ROOT. -1 on failure. */
int pin_open_in_root(int root, const char *path, int how_flags, mode_t mode, struct pin_error *err);

/* As above, and no symbolic link at all may be on the way. RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS. */
int pin_open_beneath(int root, const char *path, int how_flags, mode_t mode, struct pin_error *err);

/* A result that is ignored on purpose, where a cast to void isn't enough for the C library's declaration. */
static inline void pin_ignore(ssize_t result) {
    (void)result;
}

/* Reads to the end of the file, at most `limit` bytes (more is an error). The result ends with a zero byte
 * that `size` doesn't count; the caller frees it. NULL on failure. */
char *pin_read_all(int fd, size_t limit, size_t *size, struct pin_error *err);
char *pin_read_file_at(int dir, const char *path, size_t limit, size_t *size, struct pin_error *err);

/* The next entry of a directory but "." and ".."; NULL at its end, and where it can't be read to its end:
 * `err` is set then. */
struct dirent *pin_next_entry(DIR *list, struct pin_error *err);

/* Writes all of it, however often write(2) gives up half way. */
bool pin_write_all(int fd, const void *data, size_t size, struct pin_error *err);

/* One write to a file of the kernel's that takes a value in a single write(2): cgroup, sysctl, id map. */
bool pin_write_value_at(int dir, const char *path, const char *value, struct pin_error *err);
