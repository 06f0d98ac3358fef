#include "runtime/oci/start_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/build/channel.h"

/* By the descriptor of its directory: a path of any length fits then. */
static struct sockaddr_un address_in(int dir, const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%.64s", dir, name);
    return address;
}

int pin_start_socket_listen(int dir, struct pin_error *err) {
    struct sockaddr_un address = address_in(dir, PIN_START_SOCKET);
    PIN_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 8) != 0) {
        (void)pin_fail_errno(err, "make the start socket");
        return -1;
    }
    return pin_steal_fd(&fd);
}

static int connect_in(int dir, int flags) {
    struct sockaddr_un address = address_in(dir, PIN_START_SOCKET);
    PIN_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return -1;
    return pin_steal_fd(&fd);
}

bool pin_start_socket_is_waiting(int dir) {
    if (faccessat(dir, PIN_START_SOCKET, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    /* one that is stopped accepts nobody, and has room for some who asked before us: then it is waiting still
     */
    PIN_CLOSE int fd = connect_in(dir, SOCK_NONBLOCK);
    return fd >= 0 || errno == EAGAIN;
}

bool pin_start_socket_start(int dir, struct pin_error *err) {
    PIN_CLOSE int fd = connect_in(dir, 0);
    if (fd < 0)
        return pin_fail(err, PIN_ERROR_BUSY, "cannot start an already running container");
    if (send(fd, "s", 1, MSG_NOSIGNAL) != 1)
        return pin_fail_errno(err, "tell the container to start");
    if (!pin_channel_take_execution(fd, err))
        return false;
    (void)unlinkat(dir, PIN_START_SOCKET, 0);
    return true;
}

int pin_console_connect(const char *path, struct pin_error *err) {
    const char *slash = strrchr(path, '/');
    char folder[4096];
    (void)snprintf(folder, sizeof(folder), "%.*s",
                   slash == NULL   ? 1
                   : slash == path ? 1
                                   : (int)(slash - path),
                   slash == NULL ? "." : path);
    PIN_CLOSE int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    PIN_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = address_in(dir, slash != NULL ? slash + 1 : path);
    const struct timeval patience = {.tv_sec = 2}; /* with one who listens and takes nobody: unix(7) */
    if (dir < 0 || fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)pin_fail_errno(err, "connect to the console socket '%s'", path);
        return -1;
    }
    return pin_steal_fd(&fd);
}
