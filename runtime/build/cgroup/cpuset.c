#include "runtime/build/cgroup/cpuset.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "runtime/build/cgroup/files.h"

enum { MASK_ROOM = 4096 };

static bool inherit_file(int dir, int parent, const char *file) {
    char mask[MASK_ROOM];
    ssize_t size = pin_cgroup_file_read(dir, file, mask, sizeof(mask));
    if (size < 0 || (size > 0 && mask[0] != '\n'))
        return size >= 0;
    return pin_cgroup_file_read(parent, file, mask, sizeof(mask)) > 0 &&
           pin_cgroup_file_write(dir, file, mask);
}

static bool inherit(const char *directory) {
    static const char *const files[] = {"cpuset.cpus", "cpuset.mems"};
    PIN_CLOSE int dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    PIN_CLOSE int parent = dir < 0 ? -1 : openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; parent >= 0 && i < PIN_COUNT(files); i++)
        if (!inherit_file(dir, parent, files[i]))
            return false;
    return parent >= 0;
}

static bool inherit_level(void *base, const char *directory) {
    return strcmp(directory, base) == 0 || inherit(directory);
}

bool pin_cgroup_cpuset_inherit(const struct pin_cgroup *group, const char *base, struct pin_error *err) {
    char full[PIN_CGROUP_FULL], copy[PIN_CGROUP_PATH];
    pin_cgroup_full_path(group, base, full);
    memcpy(copy, base, strlen(base) + 1);
    return (pin_cgroup_walk_levels(group, base, inherit_level, copy) && inherit(full)) ||
           pin_fail_errno(err, "give the cgroup '%s' its processors", full);
}
