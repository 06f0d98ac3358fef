#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "runtime/build/cgroup/group.h"

int pin_cgroup_entrances(const struct pin_cgroup *group, int files[PIN_CGROUP_HIERARCHIES],
                         struct pin_error *err) {
    int count = 0;
    for (size_t i = 0; i < group->count; i++) {
        if (group->dirs[i].v2)
            continue;
        files[count] = openat(group->dirs[i].fd, "tasks", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        if (files[count] < 0) {
            (void)pin_fail_errno(err, "open the tasks of the cgroup '%s/%s'", group->dirs[i].base,
                                 group->path);
            while (count > 0)
                (void)close(files[--count]);
            return -1;
        }
        count++;
    }
    return count;
}

bool pin_cgroup_enter(const int *files, int count, struct pin_error *err) {
    for (int i = 0; i < count; i++)
        if (write(files[i], "0", 1) != 1)
            return pin_fail_errno(err, "enter a cgroup");
    return true;
}
