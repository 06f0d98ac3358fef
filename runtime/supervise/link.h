/* link.h: the supervisor's end of the control socket: runtime/init/protocol.h as calls.
 *
 * Init is inside the walls, so that what it says is checked: the type, the length, that a descriptor comes
 * exactly when it was asked for. Neither sending nor receiving ever blocks: what the socket doesn't take
 * waits here, and pin_link_wants_to_send() says so.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "runtime/init/protocol.h"

#define PIN_LINK_QUEUE_MAX ((size_t)64 * 1024) /* bytes of signals that wait behind a request */

struct pin_link {
    int fd; /* borrowed */
    struct {
        uint8_t bytes[sizeof(struct pin_init_message) + sizeof(struct pin_error)];
        size_t size;
        int fd; /* that came with the message; -1: none */
    } in;
    struct {
        uint8_t *bytes;
        size_t at, end, room;
        int fds[PIN_INIT_FDS_MAX]; /* that go with the first byte; owned */
        size_t fd_count;
    } out;
    bool expects_terminal, ready;
};

void pin_link_init(struct pin_link *link, int fd);
void pin_link_release(struct pin_link *link);

struct pin_link_command {
    uint32_t id, flags, umask; /* enum pin_init_flags */
    uint16_t rows, columns;
    uint32_t uid, gid; /* of PIN_INIT_USER */
    const char *cwd;
    const char *const *argv, *const *envp; /* end with NULL */
    const char *const *more_env;           /* the same; these come over envp's of the same name */
    int fds[PIN_INIT_FDS_MAX]; /* in the order of the flags; owned from here on, also on failure */
    size_t fd_count;
    uint32_t entrances; /* so many of them, the last ones, are entrances of a cgroup */
};

bool pin_link_execute(struct pin_link *link, const struct pin_link_command *command, struct pin_error *err);
bool pin_link_signal(struct pin_link *link, uint32_t id, int signal, struct pin_error *err);
bool pin_link_wants_to_send(const struct pin_link *link);
/* Sends what can be sent now. */
bool pin_link_send(struct pin_link *link, struct pin_error *err);

enum pin_link_event {
    PIN_LINK_NOTHING, /* for now */
    PIN_LINK_MESSAGE,
    PIN_LINK_CLOSED, /* end of file: init, or the builder before it, has gone */
    PIN_LINK_BROKEN, /* not what the protocol says; the error is set */
};

struct pin_link_message {
    struct pin_init_message head;
    enum pin_init_stage stage; /* of NOT_STARTED */
    int fd;                    /* of STARTED with a terminal; the receiver closes it */
    struct pin_error failure;  /* of BUILD_FAILED, made fit to print */
};

/* A message NOT_STARTED as an error for a person. Kind NOT_FOUND or NOT_EXECUTABLE where it was the program's
 * fault. */
void pin_link_say_why(const struct pin_link_message *message, const char *program, const char *cwd,
                      struct pin_error *err);

enum pin_link_event pin_link_receive(struct pin_link *link, struct pin_link_message *message,
                                     struct pin_error *err);
