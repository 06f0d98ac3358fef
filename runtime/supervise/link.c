#include "runtime/supervise/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/text.h"

void pin_link_init(struct pin_link *link, int fd) {
    *link = (struct pin_link){.fd = fd, .in.fd = -1};
}

static void close_sent(struct pin_link *link) {
    for (size_t i = 0; i < link->out.fd_count; i++)
        pin_close_fd(&link->out.fds[i]);
    link->out.fd_count = 0;
}

/* A request may hold secrets, in the environment. */
static void wipe_sent(struct pin_link *link, size_t size) {
    if (link->out.bytes != NULL)
        explicit_bzero(link->out.bytes, size);
}

void pin_link_release(struct pin_link *link) {
    close_sent(link);
    pin_close_fd(&link->in.fd);
    wipe_sent(link, link->out.room);
    free(link->out.bytes);
    link->out.bytes = NULL;
}

static bool reserve(struct pin_link *link, size_t size, struct pin_error *err) {
    if (link->out.at == link->out.end)
        link->out.at = link->out.end = 0;
    size_t wanted = link->out.end + size;
    if (wanted <= link->out.room)
        return true;
    uint8_t *larger = malloc(wanted);
    if (larger == NULL)
        return pin_fail_errno(err, "send a request to init");
    if (link->out.bytes != NULL)
        memcpy(larger, link->out.bytes, link->out.end);
    wipe_sent(link, link->out.end);
    free(link->out.bytes);
    link->out.bytes = larger;
    link->out.room = wanted;
    return true;
}

static void put(struct pin_link *link, const void *data, size_t size) {
    memcpy(link->out.bytes + link->out.end, data, size);
    link->out.end += size;
}

/* Whether "NAME=…" is named in the list as well. */
static bool is_overridden(const char *variable, const char *const *list) {
    size_t name = strcspn(variable, "=");
    for (; list != NULL && *list != NULL; list++)
        if (strncmp(*list, variable, name) == 0 && (*list)[name] == '=')
            return true;
    return false;
}

static void count_strings(const char *const *list, const char *const *over, uint32_t *count,
                          uint64_t *bytes) {
    for (; list != NULL && *list != NULL; list++) {
        if (is_overridden(*list, over))
            continue;
        ++*count;
        *bytes += strlen(*list) + 1;
    }
}

static void put_strings(struct pin_link *link, const char *const *list, const char *const *over) {
    for (; list != NULL && *list != NULL; list++)
        if (!is_overridden(*list, over))
            put(link, *list, strlen(*list) + 1);
}

static bool queue_command(struct pin_link *link, const struct pin_link_command *command,
                          struct pin_error *err) {
    struct pin_init_exec exec = {.flags = command->flags,
                                 .umask = command->umask,
                                 .rows = command->rows,
                                 .columns = command->columns,
                                 .uid = command->uid,
                                 .gid = command->gid,
                                 .entrances = command->entrances};
    uint64_t bytes = sizeof(exec) + strlen(command->cwd) + 1;
    count_strings(command->argv, NULL, &exec.argc, &bytes);
    count_strings(command->envp, command->more_env, &exec.envc, &bytes);
    count_strings(command->more_env, NULL, &exec.envc, &bytes);
    if (exec.argc == 0)
        return pin_fail(err, PIN_ERROR_USAGE, "there is no command to execute");
    const uint32_t most = PIN_INIT_REQUEST_MAX;
    if (bytes > most)
        return pin_fail(err, PIN_ERROR_INVALID, "arguments and environment are %llu bytes long, more than %u",
                        (unsigned long long)bytes, most);
    struct pin_init_message head = {PIN_INIT_EXEC, command->id, 0, (uint32_t)bytes};
    if (!reserve(link, sizeof(head) + (size_t)bytes, err))
        return false;
    put(link, &head, sizeof(head));
    put(link, &exec, sizeof(exec));
    put(link, command->cwd, strlen(command->cwd) + 1);
    put_strings(link, command->argv, NULL);
    put_strings(link, command->envp, command->more_env);
    put_strings(link, command->more_env, NULL);
    return true;
}

static void drop(struct pin_link *link) {
    wipe_sent(link, link->out.end);
    link->out.at = link->out.end = 0;
    close_sent(link);
}

bool pin_link_execute(struct pin_link *link, const struct pin_link_command *command, struct pin_error *err) {
    bool idle = !pin_link_wants_to_send(link);
    if (!idle || !queue_command(link, command, err)) {
        for (size_t i = 0; i < command->fd_count; i++)
            (void)close(command->fds[i]);
        return idle ? false : pin_fail(err, PIN_ERROR_BUSY, "init hasn't taken the last request yet");
    }
    memcpy(link->out.fds, command->fds, command->fd_count * sizeof(int));
    link->out.fd_count = command->fd_count;
    link->expects_terminal = (command->flags & PIN_INIT_TTY) != 0;
    if (pin_link_send(link, err))
        return true;
    if (link->out.at == 0) /* init has heard nothing of it, and shall not later */
        drop(link);
    return false;
}

void pin_link_say_why(const struct pin_link_message *message, const char *program, const char *cwd,
                      struct pin_error *err) {
    static const char *const doing[] = {
        [PIN_INIT_STAGE_FORK] = "start a process",
        [PIN_INIT_STAGE_CWD] = "enter the working directory",
        [PIN_INIT_STAGE_EXEC] = "execute",
        [PIN_INIT_STAGE_TTY] = "make a terminal",
        [PIN_INIT_STAGE_CGROUP] = "enter a cgroup of its own with",
        [PIN_INIT_STAGE_USER] = "become the user of",
    };
    char name[160];
    bool is_cwd = message->stage == PIN_INIT_STAGE_CWD;
    const char *what = is_cwd ? cwd : program;
    (void)pin_escape(name, sizeof(name), what, strlen(what));
    errno = message->head.value;
    (void)pin_fail_errno(err, "%s '%s'", doing[message->stage], name);
    (void)pin_point(err, is_cwd ? "/process/cwd" : "/process/args/0");
    if (message->stage == PIN_INIT_STAGE_FORK && message->head.value == EAGAIN)
        (void)pin_hint(
            err, "raise resources.pids, of which the sandbox's init takes one, or the caller's ulimit -u");
    if (message->stage == PIN_INIT_STAGE_USER)
        (void)pin_hint(err, "do the policy's system calls have setresuid, setresgid and capset?");
    if (message->stage != PIN_INIT_STAGE_EXEC)
        return;
    bool is_missing = message->head.value == ENOENT || message->head.value == ENOTDIR;
    err->kind = is_missing ? PIN_ERROR_NOT_FOUND : PIN_ERROR_NOT_EXECUTABLE;
    (void)pin_hint(err, is_missing ? "is it in the image, and its folder in PATH?"
                                   : "is it a program for this machine, with the permission to execute it?");
}

bool pin_link_signal(struct pin_link *link, uint32_t id, int signal, struct pin_error *err) {
    struct pin_init_message head = {PIN_INIT_SIGNAL, id, signal, 0};
    if (link->out.end > (size_t)PIN_INIT_REQUEST_MAX + PIN_LINK_QUEUE_MAX)
        return pin_fail(err, PIN_ERROR_BUSY, "init doesn't take requests any more");
    if (!reserve(link, sizeof(head), err))
        return false;
    put(link, &head, sizeof(head));
    return pin_link_send(link, err);
}

bool pin_link_wants_to_send(const struct pin_link *link) {
    return link->out.at < link->out.end;
}

static ssize_t send_some(struct pin_link *link) {
    struct iovec rest = {link->out.bytes + link->out.at, link->out.end - link->out.at};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(PIN_INIT_FDS_MAX * sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &rest, .msg_iovlen = 1};
    if (link->out.fd_count > 0) {
        message.msg_control = control.room;
        message.msg_controllen = CMSG_SPACE(link->out.fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(link->out.fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), link->out.fds, link->out.fd_count * sizeof(int));
    }
    return sendmsg(link->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool pin_link_send(struct pin_link *link, struct pin_error *err) {
    while (pin_link_wants_to_send(link)) {
        ssize_t sent = send_some(link);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return true;
        if (sent < 0 &&
            (errno == EPIPE || errno == ECONNRESET)) { /* the end of file that we read will tell */
            link->out.at = link->out.end;
            close_sent(link);
            return true;
        }
        if (sent < 0)
            return pin_fail_errno(err, "send a request to init");
        link->out.at += (size_t)sent;
        close_sent(link);
    }
    wipe_sent(link, link->out.end);
    return true;
}

/* What may come, and how long its payload is. */
static const struct {
    bool allowed;
    uint32_t length;
} incoming[PIN_INIT_TYPE_COUNT] = {
    [PIN_INIT_BUILD_FAILED] = {true, sizeof(struct pin_error)},
    [PIN_INIT_READY] = {true, 0                       },
    [PIN_INIT_STARTED] = {true, 0                       },
    [PIN_INIT_NOT_STARTED] = {true, 1                       },
    [PIN_INIT_EXITED] = {true, 0                       },
};

static enum pin_link_event broken(struct pin_error *err, const char *what) {
    (void)pin_fail(err, PIN_ERROR_INTERNAL, "init sent %s", what);
    return PIN_LINK_BROKEN;
}

static void take_descriptor(struct pin_link *link, struct msghdr *message) {
    struct cmsghdr *rights = CMSG_FIRSTHDR(message);
    if (rights == NULL || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS)
        return;
    pin_close_fd(&link->in.fd);
    memcpy(&link->in.fd, CMSG_DATA(rights), sizeof(int)); /* there is room for one alone */
}

/* Up to `wanted` bytes of one message in all. */
static enum pin_link_event receive(struct pin_link *link, size_t wanted, struct pin_error *err) {
    while (link->in.size < wanted) {
        struct iovec rest = {link->in.bytes + link->in.size, wanted - link->in.size};
        union {
            struct cmsghdr align;
            char room[CMSG_SPACE(sizeof(int))];
        } control;
        struct msghdr message = {.msg_iov = &rest,
                                 .msg_iovlen = 1,
                                 .msg_control = control.room,
                                 .msg_controllen = CMSG_LEN(sizeof(int))};
        ssize_t got = recvmsg(link->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return PIN_LINK_NOTHING;
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return PIN_LINK_CLOSED;
        if (got < 0) {
            (void)pin_fail_errno(err, "hear from init");
            return PIN_LINK_BROKEN;
        }
        take_descriptor(link, &message);
        if (message.msg_flags & MSG_CTRUNC)
            return broken(err, "descriptors that nobody asked for");
        link->in.size += (size_t)got;
    }
    return PIN_LINK_MESSAGE;
}

/* The builder's own words, until init says that it is ready; from then on nobody may use them. */
static bool take_failure(const struct pin_link *link, struct pin_link_message *message) {
    struct pin_error raw;
    memcpy(&raw, link->in.bytes + sizeof(message->head), sizeof(raw));
    if (link->ready || raw.kind <= PIN_ERROR_NONE || raw.kind >= PIN_ERROR_COUNT)
        return false;
    message->failure = (struct pin_error){.kind = raw.kind, .os_errno = raw.os_errno};
    memcpy(message->failure.message, raw.message, sizeof(raw.message) - 1);
    memcpy(message->failure.pointer, raw.pointer, sizeof(raw.pointer) - 1);
    memcpy(message->failure.hint, raw.hint, sizeof(raw.hint) - 1);
    return true;
}

static enum pin_link_event judge(struct pin_link *link, struct pin_link_message *message,
                                 struct pin_error *err) {
    bool terminal = message->head.type == PIN_INIT_STARTED && link->expects_terminal;
    if (terminal != (link->in.fd >= 0))
        return broken(err, terminal ? "no terminal" : "a descriptor that nobody asked for");
    if (message->head.type == PIN_INIT_BUILD_FAILED && !take_failure(link, message))
        return broken(err, "an error of the builder's");
    if (message->head.type == PIN_INIT_NOT_STARTED) {
        uint8_t stage = link->in.bytes[sizeof(message->head)];
        if (stage >= PIN_INIT_STAGE_COUNT || message->head.value <= 0)
            return broken(err, "a stage that there isn't");
        message->stage = (enum pin_init_stage)stage;
    }
    link->ready = link->ready || message->head.type == PIN_INIT_READY;
    if (terminal)
        link->expects_terminal = false;
    message->fd = pin_steal_fd(&link->in.fd);
    link->in.size = 0;
    return PIN_LINK_MESSAGE;
}

enum pin_link_event pin_link_receive(struct pin_link *link, struct pin_link_message *message,
                                     struct pin_error *err) {
    *message = (struct pin_link_message){.fd = -1};
    enum pin_link_event event = receive(link, sizeof(message->head), err);
    if (event != PIN_LINK_MESSAGE)
        return event;
    memcpy(&message->head, link->in.bytes, sizeof(message->head));
    if (message->head.type >= PIN_INIT_TYPE_COUNT || !incoming[message->head.type].allowed ||
        message->head.length != incoming[message->head.type].length)
        return broken(err, "a message that there isn't");
    event = receive(link, sizeof(message->head) + message->head.length, err);
    return event == PIN_LINK_MESSAGE ? judge(link, message, err) : event;
}
