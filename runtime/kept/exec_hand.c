/* Cells that are handed to their context as descriptors: no process stands between that another one of the
 * sandbox's user could open. Descriptor 4 of a context is the library that closes its memory (undumpable.c):
 * a file in the sandbox could be replaced, or kept from being written, by what runs there already. The
 * messages are those of Node's own channel, one line and one descriptor each, so that a context of it needs
 * no code but JavaScript. docs/code.md "What holds". */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sealed.h"
#include "pin_context_modules.h"
#include "runtime/kept/parts.h"

#define LINE_ROOM 256

static const char *const parts[] = {"request", "stdout", "stderr",
                                    "frame"}; /* the last one completes a cell */
#define PART_COUNT (sizeof(parts) / sizeof(parts[0]))

/* What a context says there counts for nothing; that it is gone, or can't be handed anything any more, does.
 */
static void on_said(void *self, unsigned events) {
    struct exec *context = self;
    char dropped[4096];
    (void)events;
    ssize_t got = recv(context->hand, dropped, sizeof(dropped), MSG_DONTWAIT);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    pin_source_remove(&context->said);
    pin_exec_kill(context);
}

bool pin_context_open(struct exec *context, struct pin_link_command *command, struct pin_error *err) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return pin_fail_errno(err, "make a socket for the context");
    context->hand = ends[0];
    command->flags |= PIN_INIT_FRAME | PIN_INIT_MODULE;
    command->fds[command->fd_count++] = ends[1];
    int module =
        pin_sealed_program("pinfold-module", pin_context_modules[0].data, pin_context_modules[0].size, err);
    if (module < 0)
        return false;
    command->fds[command->fd_count++] = module;
    context->said = pin_loop_watch(context->kept->loop, ends[0], POLLIN, on_said, context, err);
    return context->said != NULL;
}

void pin_context_close(struct exec *context) {
    pin_source_remove(&context->said);
    pin_close_fd(&context->hand);
}

static bool send_line(const struct exec *context, const char *line, size_t size, int fd,
                      struct pin_error *err) {
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)line, size};
    struct msghdr whole = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        whole.msg_control = control.room;
        whole.msg_controllen = sizeof(control.room);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&whole);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &fd, sizeof(int));
    }
    return sendmsg(context->hand, &whole, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size ||
           pin_fail(err, PIN_ERROR_BUSY, "the context takes no cell");
}

bool pin_context_hand(struct exec *cell, const int *fds, size_t count, struct pin_error *err) {
    const struct exec *context = pin_exec_find(cell->kept, cell->request.cell_of);
    if (context == NULL || context->hand < 0)
        return pin_fail(err, PIN_ERROR_NOT_FOUND, "the context has ended");
    if (count != PART_COUNT)
        return pin_fail(err, PIN_ERROR_INTERNAL, "a cell has %zu descriptors", count);
    for (size_t i = 0; i < PART_COUNT; i++) {
        char line[LINE_ROOM];
        int size =
            snprintf(line, sizeof(line),
                     "{\"cmd\":\"NODE_HANDLE\",\"type\":\"net.Native\",\"msg\":{\"cell\":%u,\"as\":\"%s\","
                     "\"nonce\":\"%s\"}}\n",
                     cell->id, parts[i], strchr(cell->frames.nonce_variable, '=') + 1);
        if (!send_line(context, line, (size_t)size, fds[i], err))
            return false;
    }
    return true;
}

void pin_context_interrupt(const struct exec *cell) {
    const struct exec *context = pin_exec_find(cell->kept, cell->request.cell_of);
    struct pin_error err = {0};
    char line[LINE_ROOM];
    int size = snprintf(line, sizeof(line), "{\"interrupt\":%u}\n", cell->id);
    if (context != NULL && context->hand >= 0)
        (void)send_line(context, line, (size_t)size, -1,
                        &err); /* one that takes nothing is ended by the client */
}
