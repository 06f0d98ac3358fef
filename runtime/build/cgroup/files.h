/* files.h: the small files of a cgroup directory; for this folder alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* Reads at most room - 1 bytes and ends them with a zero byte; the number of bytes, or -1 with errno. */
ssize_t pin_cgroup_file_read(int dir, const char *file, char *text, size_t room);

/* One write(2); false with errno. */
bool pin_cgroup_file_write(int dir, const char *file, const char *value);

/* A file that holds one number. False with errno; a word such as "max" is EINVAL. */
bool pin_cgroup_file_u64(int dir, const char *file, uint64_t *value);

/* The number at the begin of a text, and the end of its line; false with EINVAL. */
bool pin_cgroup_take_number(const char *text, uint64_t *value);

/* The number beside `key` in a text of lines "key number"; false when there is none. Pure. */
bool pin_cgroup_flat_key(const char *text, const char *key, uint64_t *value);

/* Calls `each` for every group directly below; stops at the first false. */
typedef bool pin_cgroup_each_child(void *context, int dir, const char *name);
bool pin_cgroup_children(int dir, pin_cgroup_each_child *each, void *context);

/* Sleeps *pause_ns and doubles it, up to 5 ms; false when `deadline_ns` has passed. */
bool pin_cgroup_pause(uint64_t deadline_ns, uint64_t *pause_ns);
