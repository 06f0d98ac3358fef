#include "runtime/oci/processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

#define PROCS_BYTES_MAX ((size_t)4 * 1024 * 1024)

enum { DEPTH_MOST = 32 };

struct listing {
    struct pin_arena *arena;
    pid_t *pids;
    size_t count;
    struct pin_error *err;
};

static bool add_group(struct listing *listing, int dir) {
    size_t size;
    struct pin_error found = {0};
    PIN_FREE char *text = pin_read_file_at(dir, "cgroup.procs", PROCS_BYTES_MAX, &size, &found);
    if (text == NULL) {
        if (found.os_errno == ENOENT || found.os_errno == ENODEV || found.os_errno == EOPNOTSUPP)
            return true;
        *listing->err = found;
        return false;
    }
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        pid_t *pid = pin_arena_grow(listing->arena, &listing->pids, &listing->count, sizeof(*pid));
        *pid = (pid_t)strtol(line, NULL, 10);
    }
    return true;
}

static bool add_tree(struct listing *listing, int dir, int depth) {
    if (!add_group(listing, dir))
        return false;
    PIN_CLOSE int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *below = again < 0 || depth > DEPTH_MOST ? NULL : fdopendir(again);
    if (below == NULL)
        return true;
    (void)pin_steal_fd(&again);
    bool ok = true;
    const struct dirent *entry;
    struct pin_error cut = {0};
    while (ok && (entry = pin_next_entry(below, &cut)) != NULL) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        PIN_CLOSE int child = openat(dir, entry->d_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        ok = child < 0 || add_tree(listing, child, depth + 1);
    }
    (void)closedir(below);
    if (!ok || !pin_is_set(&cut) || cut.os_errno == ENOENT) /* the group was removed meanwhile */
        return ok;
    *listing->err = cut;
    return false;
}

bool pin_processes_list(const struct pin_cgroup *group, struct pin_arena *arena, pid_t **pids, size_t *count,
                        struct pin_error *err) {
    struct listing listing = {.arena = arena, .err = err};
    int dir;
    const char *name;
    if (group != NULL && pin_cgroup_directory(group, 0, &dir, &name) && !add_tree(&listing, dir, 0))
        return false;
    *pids = listing.pids;
    *count = listing.count;
    return true;
}

bool pin_processes_signal(const struct pin_cgroup *group, int number, struct pin_error *err) {
    PIN_ARENA struct pin_arena arena = {0};
    pid_t *pids;
    size_t count;
    if (!pin_processes_list(group, &arena, &pids, &count, err))
        return false;
    for (size_t i = 0; i < count; i++)
        if (pids[i] > 0 && kill(pids[i], number) != 0 && errno != ESRCH)
            return pin_fail_errno(err, "signal process %d", (int)pids[i]);
    return true;
}
