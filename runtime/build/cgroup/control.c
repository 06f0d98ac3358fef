#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/build/cgroup/files.h"
#include "runtime/build/cgroup/group.h"

#define FIRST_PAUSE_NS UINT64_C(50000)

/* The two versions of a freezer. */
struct freezer {
    int dir;
    const char *file, *freeze, *thaw;
    bool v1;
};

static bool find_freezer(const struct pin_cgroup *group, struct freezer *freezer, struct pin_error *err) {
    const struct pin_cgroup_dir *dir = pin_cgroup_dir_of(group, PIN_CGROUP_FREEZER);
    if (dir != NULL && !dir->v2) {
        *freezer = (struct freezer){dir->fd, "freezer.state", "FROZEN", "THAWED", true};
        return true;
    }
    if (group->unified >= 0) {
        *freezer = (struct freezer){group->dirs[group->unified].fd, "cgroup.freeze", "1", "0", false};
        return true;
    }
    (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "the sandbox is in no cgroup that can be frozen");
    (void)pin_hint(err, "cgroup v2, or the v1 controller 'freezer', is needed for pausing");
    return false;
}

static bool is_frozen(const struct freezer *freezer) {
    char text[256];
    uint64_t frozen = 0;
    if (pin_cgroup_file_read(freezer->dir, freezer->v1 ? freezer->file : "cgroup.events", text,
                             sizeof(text)) < 0)
        return false;
    return freezer->v1 ? strcmp(text, "FROZEN\n") == 0
                       : pin_cgroup_flat_key(text, "frozen", &frozen) && frozen == 1;
}

/* False where it can't be read. */
static bool ask_wanted(const struct freezer *freezer, bool *wanted) {
    char text[16] = "";
    if (pin_cgroup_file_read(freezer->dir, freezer->file, text, sizeof(text)) < 0)
        return false;
    *wanted = text[0] == '1' || strncmp(text, "FRE", 3) == 0 || strncmp(text, "FRO", 3) == 0;
    return true;
}

bool pin_cgroup_freeze(const struct pin_cgroup *group, uint64_t timeout_ns, struct pin_error *err) {
    struct freezer freezer = {0};
    uint64_t deadline = pin_now_ns() + timeout_ns, pause = FIRST_PAUSE_NS;
    if (!find_freezer(group, &freezer, err))
        return false;
    if (!pin_cgroup_file_write(freezer.dir, freezer.file, freezer.freeze))
        return pin_fail_errno(err, "freeze the cgroup '%s'", group->path);
    while (!is_frozen(&freezer)) {
        bool wanted = false;
        bool told = ask_wanted(&freezer, &wanted);
        if (!told && (errno == ENODEV || errno == ENOENT)) /* removed; else it has to be thawed in the end */
            return pin_fail_errno(err, "freeze the cgroup '%s'", group->path);
        if (told && !wanted)
            return pin_fail(err, PIN_ERROR_BUSY, "the cgroup '%s' was thawed while it froze", group->path);
        if (told && freezer.v1) /* one that is made meanwhile can be passed by: all are told once more; right
                           behind the look, so that nobody's thaw is taken back */
            (void)pin_cgroup_file_write(freezer.dir, freezer.file, freezer.freeze);
        if (pin_cgroup_pause(deadline, &pause))
            continue;
        (void)pin_cgroup_file_write(freezer.dir, freezer.file, freezer.thaw); /* all run, or none */
        return pin_fail(err, PIN_ERROR_BUSY, "the cgroup '%s' doesn't freeze", group->path);
    }
    return true;
}

bool pin_cgroup_is_frozen(const struct pin_cgroup *group) {
    struct freezer freezer = {0};
    struct pin_error ignored = {0};
    bool wanted = false;
    return find_freezer(group, &freezer, &ignored) && ask_wanted(&freezer, &wanted) && wanted;
}

bool pin_cgroup_thaw(const struct pin_cgroup *group, struct pin_error *err) {
    struct freezer freezer = {0};
    return find_freezer(group, &freezer, err) &&
           (pin_cgroup_file_write(freezer.dir, freezer.file, freezer.thaw) ||
            pin_fail_errno(err, "thaw the cgroup '%s'", group->path));
}

/* Version 1 tells an eventfd: cgroup-v1/memory.rst, "OOM Control". */
static bool listen_v1(struct pin_cgroup *group, int dir) {
    char line[48];
    PIN_CLOSE int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)snprintf(line, sizeof(line), "%d %d", event, group->oom_counter);
    if (event < 0 || !pin_cgroup_file_write(dir, "cgroup.event_control", line))
        return false;
    group->oom_fd = pin_steal_fd(&event);
    return true;
}

/* Reading from the start is what arms the poll of version 2. */
static bool count_kills(const struct pin_cgroup *group, uint64_t *kills) {
    char text[4096];
    ssize_t size = pread(group->oom_counter, text, sizeof(text) - 1, 0);
    if (size < 0)
        return false;
    text[size] = '\0';
    (void)pin_cgroup_flat_key(text, "oom_kill", kills);
    return true;
}

static bool listen_for_oom(struct pin_cgroup *group, const struct pin_cgroup_dir *memory) {
    const char *file = memory->v2 ? "memory.events" : "memory.oom_control";
    PIN_CLOSE int counter = openat(memory->fd, file, O_RDONLY | O_CLOEXEC);
    if (counter < 0)
        return false;
    group->oom_counter = counter;
    if ((memory->v2 || listen_v1(group, memory->fd)) && count_kills(group, &group->oom_seen)) {
        (void)pin_steal_fd(&counter);
        return true;
    }
    group->oom_counter = -1;
    return false;
}

int pin_cgroup_oom_fd(struct pin_cgroup *group, short *events, struct pin_error *err) {
    const struct pin_cgroup_dir *memory = pin_cgroup_dir_of(group, PIN_CGROUP_MEMORY);
    if (memory == NULL) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "the sandbox is in no cgroup that watches its memory");
        return -1;
    }
    if (group->oom_counter < 0 && !listen_for_oom(group, memory)) {
        (void)pin_fail_errno(err, "watch the memory of the cgroup '%s'", group->path);
        return -1;
    }
    *events = memory->v2 ? POLLPRI : POLLIN;
    return memory->v2 ? group->oom_counter : group->oom_fd;
}

bool pin_cgroup_oom_happened(struct pin_cgroup *group, bool *happened, struct pin_error *err) {
    uint64_t kills = group->oom_seen, ignored;
    if (group->oom_counter < 0)
        return pin_fail(err, PIN_ERROR_INTERNAL, "nobody watches the memory of the cgroup '%s'", group->path);
    if (group->oom_fd >= 0 && read(group->oom_fd, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
        return pin_fail_errno(err, "read the memory events of the cgroup '%s'", group->path);
    if (!count_kills(group, &kills))
        return pin_fail_errno(err, "read the memory events of the cgroup '%s'", group->path);
    *happened = kills > group->oom_seen;
    group->oom_seen = kills;
    return true;
}
