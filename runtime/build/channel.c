#include "runtime/build/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

bool pin_channel_sync(int control, enum pin_sync sync, struct pin_error *err) {
    char byte = (char)sync;
    if (send(control, &byte, 1, MSG_NOSIGNAL) != 1)
        return pin_fail_errno(err, "tell the sandbox to go on");
    return true;
}

bool pin_channel_wait(int control, enum pin_sync sync, struct pin_error *err) {
    char byte = 0;
    ssize_t got;
    do
        got = recv(control, &byte, 1, 0);
    while (got < 0 && errno == EINTR);
    if (got != 1 || byte != (char)sync)
        return pin_fail(err, PIN_ERROR_SYSTEM, "the supervisor went away");
    return true;
}

union one_descriptor {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
};

bool pin_channel_send_changes(int control, int changes, struct pin_error *err) {
    struct pin_init_message message = {.type = PIN_INIT_CHANGES};
    struct iovec part = {&message, sizeof(message)};
    union one_descriptor ancillary = {0};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof(ancillary)};
    struct cmsghdr *control_message = CMSG_FIRSTHDR(&header);
    control_message->cmsg_level = SOL_SOCKET;
    control_message->cmsg_type = SCM_RIGHTS;
    control_message->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(control_message), &changes, sizeof(changes));
    if (sendmsg(control, &header, MSG_NOSIGNAL) != (ssize_t)sizeof(message))
        return pin_fail_errno(err, "hand the directory of the changes over");
    return true;
}

void pin_channel_send_failure(int control, const struct pin_error *failure) {
    struct pin_init_message message = {.type = PIN_INIT_BUILD_FAILED, .length = sizeof(*failure)};
    char bytes[sizeof(message) + sizeof(*failure)];
    memcpy(bytes, &message, sizeof(message));
    memcpy(bytes + sizeof(message), failure, sizeof(*failure));
    /* whoever doesn't get it sees the end of the socket instead */
    (void)send(control, bytes, sizeof(bytes), MSG_NOSIGNAL);
}

static bool receive(int control, void *data, size_t size, int *descriptor) {
    union one_descriptor ancillary = {0};
    for (size_t done = 0; done < size;) {
        struct iovec part = {(char *)data + done, size - done};
        struct msghdr header = {.msg_iov = &part,
                                .msg_iovlen = 1,
                                .msg_control = &ancillary,
                                .msg_controllen = sizeof(ancillary)};
        ssize_t got = recvmsg(control, &header, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        const struct cmsghdr *found = CMSG_FIRSTHDR(&header);
        if (descriptor != NULL && *descriptor < 0 && found != NULL && found->cmsg_type == SCM_RIGHTS &&
            found->cmsg_len == CMSG_LEN(sizeof(int)))
            memcpy(descriptor, CMSG_DATA(found), sizeof(int));
        done += (size_t)got;
    }
    return true;
}

bool pin_channel_take_changes(int control, int *changes, struct pin_error *err) {
    struct pin_init_message message;
    struct pin_error failure;
    int descriptor = -1;
    if (!receive(control, &message, sizeof(message), &descriptor))
        return pin_fail(err, PIN_ERROR_SYSTEM, "the sandbox died while it was built");
    if (message.type == PIN_INIT_CHANGES && descriptor >= 0) {
        *changes = descriptor;
        return true;
    }
    if (descriptor >= 0)
        (void)close(descriptor);
    if (message.type != PIN_INIT_BUILD_FAILED || message.length != sizeof(failure) ||
        !receive(control, &failure, sizeof(failure), NULL) || failure.kind == PIN_ERROR_NONE ||
        failure.kind >= PIN_ERROR_COUNT)
        return pin_fail(err, PIN_ERROR_SYSTEM, "the sandbox sent no answer while it was built");
    *err = failure; /* from our own code, before anything hostile runs */
    return false;
}
