#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* The name before the fields may hold anything. */
bool pin_process_stat(pid_t pid, char *state, uint64_t *start_time) {
    char path[32], text[1024];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    PIN_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (size <= 0)
        return false;
    text[size] = '\0';
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ')
        return false;
    at += 2;
    *state = *at;
    for (int field = 3; field < 22 && at != NULL; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL)
        return false;
    *start_time = strtoull(at + 1, NULL, 10);
    return true;
}

/* Looked at after it was opened: what is described is what the descriptor holds. */
int pin_process_open(pid_t pid, uint64_t start_time) {
    char state;
    uint64_t started;
    PIN_CLOSE int pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (pidfd < 0 || !pin_process_stat(pid, &state, &started) || started != start_time || state == 'Z' ||
        state == 'X')
        return -1;
    return pin_steal_fd(&pidfd);
}

static int open_namespace(pid_t pid, const char *name) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

int pin_process_enter(pid_t pid, const char *name, int kind) {
    PIN_CLOSE int user = open_namespace(pid, "user");
    PIN_CLOSE int other = user >= 0 ? open_namespace(pid, name) : -1;
    if (other < 0)
        return errno;
    /* our own user namespace can't be entered again: then the process has none of its own */
    if (setns(user, CLONE_NEWUSER) != 0 && errno != EINVAL)
        return errno;
    return setns(other, kind) == 0 ? 0 : errno;
}
