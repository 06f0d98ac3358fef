#include <errno.h>

#include "base/units.h"
#include "runtime/build/cgroup/files.h"
#include "runtime/build/cgroup/group.h"

enum { FLAT_ROOM = 4096 };

/* A value that this kernel doesn't have stays 0. */
static bool read_number(const struct pin_cgroup *group, enum pin_cgroup_counter which,
                        const struct pin_cgroup_dir *dir, const char *file, uint64_t *value) {
    return dir == NULL || pin_cgroup_counter_u64(group, which, dir, file, value) || errno == ENOENT;
}

static bool read_key(const struct pin_cgroup *group, enum pin_cgroup_counter which,
                     const struct pin_cgroup_dir *dir, const char *file, const char *key, uint64_t *value) {
    char text[FLAT_ROOM];
    if (dir == NULL)
        return true;
    if (pin_cgroup_counter_read(group, which, dir, file, text, sizeof(text)) < 0)
        return errno == ENOENT;
    (void)pin_cgroup_flat_key(text, key, value); /* before Linux 4.13 there is no such line */
    return true;
}

static bool read_cpu(const struct pin_cgroup *group, uint64_t *cpu_ns) {
    const struct pin_cgroup_dir *account = pin_cgroup_dir_of(group, PIN_CGROUP_CPUACCT);
    if (account != NULL)
        return read_number(group, PIN_CGROUP_COUNT_CPU, account, "cpuacct.usage", cpu_ns);
    uint64_t us = 0;
    if (group->unified < 0)
        return true;
    if (!read_key(group, PIN_CGROUP_COUNT_CPU, &group->dirs[group->unified], "cpu.stat", "usage_usec", &us))
        return false;
    *cpu_ns = us * 1000;
    return true;
}

static bool read_memory(const struct pin_cgroup *group, struct pin_cgroup_usage *usage) {
    const struct pin_cgroup_dir *memory = pin_cgroup_dir_of(group, PIN_CGROUP_MEMORY);
    bool v2 = memory != NULL && memory->v2;
    return read_number(group, PIN_CGROUP_COUNT_MEMORY_PEAK, memory,
                       v2 ? "memory.peak" : "memory.max_usage_in_bytes", &usage->memory_peak_bytes) &&
           read_key(group, PIN_CGROUP_COUNT_OOM_KILLS, memory, v2 ? "memory.events" : "memory.oom_control",
                    "oom_kill", &usage->oom_kills);
}

bool pin_cgroup_usage_read(const struct pin_cgroup *group, struct pin_cgroup_usage *usage,
                           struct pin_error *err) {
    struct pin_cgroup_usage read = {0};
    if (!read_cpu(group, &read.cpu_ns) || !read_memory(group, &read) ||
        !read_number(group, PIN_CGROUP_COUNT_PIDS_PEAK, pin_cgroup_dir_of(group, PIN_CGROUP_PIDS),
                     "pids.peak", &read.pids_peak))
        return pin_fail_errno(err, "read what the cgroup '%s' used", group->path);
    *usage = read;
    return true;
}

bool pin_cgroup_memory_now(const struct pin_cgroup *group, uint64_t *bytes, struct pin_error *err) {
    const struct pin_cgroup_dir *memory = pin_cgroup_dir_of(group, PIN_CGROUP_MEMORY);
    uint64_t now = 0;
    const char *file = memory != NULL && memory->v2 ? "memory.current" : "memory.usage_in_bytes";
    if (memory != NULL && !pin_cgroup_file_u64(memory->fd, file, &now) && errno != ENOENT)
        return pin_fail_errno(err, "read what the cgroup '%s' holds", group->path);
    *bytes = now;
    return true;
}
