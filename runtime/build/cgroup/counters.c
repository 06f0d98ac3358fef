/* Opening a file of a cgroup costs the kernel more than reading it. Only files that it prints anew for each
 * read from their begin may stay open: version 1 answers a second read of cgroup.procs from a list that it
 * has made before (cgroup_pidlist_start()). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/build/cgroup/files.h"
#include "runtime/build/cgroup/group.h"
#include "runtime/build/cgroup/leaf.h"

bool pin_cgroup_leaf_keep_open(struct pin_cgroup *leaf) {
    if (leaf->counters != NULL)
        return true;
    leaf->counters = malloc(PIN_CGROUP_COUNTERS * sizeof(int));
    if (leaf->counters == NULL)
        return false;
    memset(leaf->counters, -1, PIN_CGROUP_COUNTERS * sizeof(int));
    return true;
}

void pin_cgroup_close_counters(struct pin_cgroup *group) {
    for (int i = 0; group->counters != NULL && i < PIN_CGROUP_COUNTERS; i++)
        pin_close_fd(&group->counters[i]);
    free(group->counters);
    group->counters = NULL;
}

/* They are printed whole at the first read: a part means that there was no room. */
static ssize_t read_again(int *fd, int dir, const char *file, char *text, size_t room) {
    if (*fd < 0)
        *fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return -1;
    ssize_t got;
    do
        got = pread(*fd, text, room - 1, 0);
    while (got < 0 && errno == EINTR);
    if (got >= 0)
        text[got] = '\0';
    return got;
}

ssize_t pin_cgroup_counter_read(const struct pin_cgroup *group, enum pin_cgroup_counter which,
                                const struct pin_cgroup_dir *dir, const char *file, char *text, size_t room) {
    return group->counters != NULL ? read_again(&group->counters[which], dir->fd, file, text, room)
                                   : pin_cgroup_file_read(dir->fd, file, text, room);
}

bool pin_cgroup_counter_u64(const struct pin_cgroup *group, enum pin_cgroup_counter which,
                            const struct pin_cgroup_dir *dir, const char *file, uint64_t *value) {
    char text[64];
    return pin_cgroup_counter_read(group, which, dir, file, text, sizeof(text)) >= 0 &&
           pin_cgroup_take_number(text, value);
}
