#include "runtime/build/channel.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union descriptors {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int) * PIN_CHANNEL_FDS_MAX)];
};

/* Sends bytes, and descriptors with the first of them. */
static bool send_with(int control, const void *data, size_t size, const int *fds, int count) {
    struct iovec part = {(void *)(uintptr_t)data, size};
    union descriptors ancillary = {0};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        header.msg_control = &ancillary;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
        memcpy(CMSG_DATA(rights), fds, sizeof(int) * (size_t)count);
    }
    return sendmsg(control, &header, MSG_NOSIGNAL) == (ssize_t)size;
}

/* Receives all the bytes; descriptors beyond `most` don't fit into the message and are closed by the kernel.
 */
static bool receive_with(int control, void *data, size_t size, int *fds, int most, int *count) {
    *count = 0;
    for (size_t done = 0; done < size;) {
        struct iovec part = {(char *)data + done, size - done};
        union descriptors ancillary = {0};
        struct msghdr header = {.msg_iov = &part,
                                .msg_iovlen = 1,
                                .msg_control = &ancillary,
                                .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)most)};
        ssize_t got = recvmsg(control, &header, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        const struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        if (rights != NULL && rights->cmsg_type == SCM_RIGHTS && *count == 0) {
            *count = (int)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            memcpy(fds, CMSG_DATA(rights), sizeof(int) * (size_t)*count);
        }
        done += (size_t)got;
    }
    return true;
}

bool pin_channel_sync(int control, enum pin_sync sync, const int *fds, int count, struct pin_error *err) {
    char byte = (char)sync;
    return send_with(control, &byte, 1, fds, count) || pin_fail_errno(err, "tell the sandbox to go on");
}

bool pin_channel_wait(int control, enum pin_sync sync, int fds[PIN_CHANNEL_FDS_MAX], int *count,
                      struct pin_error *err) {
    char byte = 0;
    if (!receive_with(control, &byte, 1, fds, PIN_CHANNEL_FDS_MAX, count) || byte != (char)sync)
        return pin_fail(err, PIN_ERROR_SYSTEM, "the supervisor went away");
    return true;
}

static bool send_directory(int control, enum pin_init_type type, int directory, struct pin_error *err) {
    struct pin_init_message message = {.type = (uint32_t)type};
    return send_with(control, &message, sizeof(message), &directory, 1) ||
           pin_fail_errno(err, "hand the directory of the changes over");
}

bool pin_channel_send_changes(int control, int changes, struct pin_error *err) {
    return send_directory(control, PIN_INIT_CHANGES, changes, err);
}

bool pin_channel_send_upper(int control, int upper, struct pin_error *err) {
    return send_directory(control, PIN_INIT_UPPER, upper, err);
}

bool pin_channel_send_egress(int control, const struct pin_egress_sockets *sockets, struct pin_error *err) {
    struct pin_init_message message = {.type = PIN_INIT_EGRESS};
    int fds[PIN_EGRESS_SOCKET_COUNT], count = 0;
    for (int i = 0; i < PIN_EGRESS_SOCKET_COUNT; i++)
        if (sockets->fds[i] >= 0) {
            message.value |= 1 << i;
            fds[count++] = sockets->fds[i];
        }
    return send_with(control, &message, sizeof(message), fds, count) ||
           pin_fail_errno(err, "hand the egress sockets over");
}

bool pin_channel_send_door(int control, int door, struct pin_error *err) {
    struct pin_init_message message = {.type = PIN_INIT_DOOR};
    return send_with(control, &message, sizeof(message), &door, 1) ||
           pin_fail_errno(err, "hand a socket of the sandbox's network over");
}

void pin_channel_send_failure(int control, const struct pin_error *failure) {
    struct pin_init_message message = {.type = PIN_INIT_BUILD_FAILED, .length = sizeof(*failure)};
    char bytes[sizeof(message) + sizeof(*failure)];
    memcpy(bytes, &message, sizeof(message));
    memcpy(bytes + sizeof(message), failure, sizeof(*failure));
    /* whoever doesn't get it sees the end of the socket instead */
    (void)send(control, bytes, sizeof(bytes), MSG_NOSIGNAL);
}

/* Waits for a message of this type and its descriptors; a message that the build failed becomes the error. */
static bool take(int control, enum pin_init_type type, struct pin_init_message *message, int *fds, int most,
                 int *count, struct pin_error *err) {
    struct pin_error failure;
    int none[1], no_count;
    if (!receive_with(control, message, sizeof(*message), fds, most, count))
        return pin_fail(err, PIN_ERROR_SYSTEM, "the sandbox died while it was built");
    if (message->type == (uint32_t)type && (*count > 0 || type == PIN_INIT_READY))
        return true;
    while (*count > 0)
        (void)close(fds[--*count]);
    if (message->type != PIN_INIT_BUILD_FAILED || message->length != sizeof(failure) ||
        !receive_with(control, &failure, sizeof(failure), none, 0, &no_count) ||
        failure.kind == PIN_ERROR_NONE || failure.kind >= PIN_ERROR_COUNT)
        return pin_fail(err, PIN_ERROR_SYSTEM, "the sandbox sent no answer while it was built");
    *err = failure; /* from our own code, before anything hostile runs */
    return false;
}

bool pin_channel_send_ready(int control, struct pin_error *err) {
    struct pin_init_message message = {.type = PIN_INIT_READY};
    return send_with(control, &message, sizeof(message), NULL, 0) ||
           pin_fail_errno(err, "report to the maker");
}

bool pin_channel_take_ready(int control, struct pin_error *err) {
    struct pin_init_message message;
    int none, count;
    return take(control, PIN_INIT_READY, &message, &none, 0, &count, err);
}

bool pin_channel_take_execution(int control, struct pin_error *err) {
    char byte;
    ssize_t got;
    while ((got = recv(control, &byte, 1, MSG_PEEK)) < 0 && errno == EINTR)
        ;
    return got <= 0 || pin_channel_take_ready(control, err);
}

static bool take_one(int control, enum pin_init_type type, int *taken, struct pin_error *err) {
    struct pin_init_message message;
    int descriptor, count;
    if (!take(control, type, &message, &descriptor, 1, &count, err))
        return false;
    *taken = descriptor;
    return true;
}

bool pin_channel_take_changes(int control, int *changes, struct pin_error *err) {
    return take_one(control, PIN_INIT_CHANGES, changes, err);
}

bool pin_channel_take_upper(int control, int *upper, struct pin_error *err) {
    return take_one(control, PIN_INIT_UPPER, upper, err);
}

bool pin_channel_take_door(int control, int *door, struct pin_error *err) {
    return take_one(control, PIN_INIT_DOOR, door, err);
}

bool pin_channel_take_watch(int control, int *listener, struct pin_error *err) {
    return take_one(control, PIN_INIT_WATCH, listener, err);
}

bool pin_channel_take_egress(int control, struct pin_egress_sockets *sockets, struct pin_error *err) {
    struct pin_init_message message;
    struct pin_egress_sockets made = PIN_EGRESS_SOCKETS_NONE;
    int fds[PIN_EGRESS_SOCKET_COUNT], count, used = 0;
    if (!take(control, PIN_INIT_EGRESS, &message, fds, PIN_EGRESS_SOCKET_COUNT, &count, err))
        return false;
    for (int i = 0; i < PIN_EGRESS_SOCKET_COUNT && used < count; i++)
        if ((message.value & 1 << i) != 0)
            made.fds[i] = fds[used++];
    *sockets = made;
    return true;
}
