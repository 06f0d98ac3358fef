/* client.h: the command's end of a kept sandbox's control socket.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/units.h"
#include "runtime/kept/wire.h"

#define PIN_CLIENT_ANSWER_NS (30 * PIN_NS_PER_S)

struct pin_client {
    const char *name;
    int state_dir, folder, socket; /* -1: none */
    uint64_t answer_ns;            /* for what is answered at once; 0: PIN_CLIENT_ANSWER_NS */
    uint64_t patience_ns;          /* of pin_client_set_patience() */
    bool is_silent;                /* something wasn't answered in time */
    struct pin_wire in;
};
#define PIN_CLIENT_NONE ((struct pin_client){.state_dir = -1, .folder = -1, .socket = -1})

/* Finds the sandbox's directory, and connects. Close it in any case. */
bool pin_client_find(struct pin_client *client, const char *name, struct pin_error *err);
bool pin_client_open(struct pin_client *client, const char *name, struct pin_error *err);
void pin_client_close(struct pin_client *client);
#define PIN_CLIENT __attribute__((cleanup(pin_client_close)))

/* A request of this verb, to be filled; never NULL. */
json_t *pin_client_request(const char *verb);
/* Text of a command line; what isn't UTF-8 can't be asked for: INVALID. NULL, or none: nothing is put. */
bool pin_client_put_text(json_t *request, const char *key, const char *text, struct pin_error *err);
bool pin_client_put_texts(json_t *request, const char *key, const char *const *texts, size_t count,
                          struct pin_error *err);
/* Takes the request over; descriptors go with its first byte, and stay the caller's. */
bool pin_client_send(struct pin_client *client, json_t *request, const int *fds, int count,
                     struct pin_error *err);
/* The next message, or NULL: an error of the sandbox's, or SYSTEM when it has gone. *fd (may be NULL) is a
 * descriptor that came with it, or -1. */
json_t *pin_client_receive(struct pin_client *client, int *fd, struct pin_error *err);
/* From now on sending, and each part of what is received, may take this long, then it is EXHAUSTED; 0: for
 * ever, as it is in the beginning. */
bool pin_client_set_patience(struct pin_client *client, uint64_t ns, struct pin_error *err);
uint64_t pin_client_answer_ns(const struct pin_client *client);
/* The error of a supervisor that doesn't answer; false. */
bool pin_client_is_unanswered(struct pin_client *client, struct pin_error *err);
/* Send, receive: the "ok" of the reply, for the caller to release. A supervisor that doesn't answer in time,
 * one that was stopped, say, is EXHAUSTED; `wait`, `stop` and `kill` are answered at an end, however long it
 * takes. */
json_t *pin_client_call(struct pin_client *client, json_t *request, struct pin_error *err);
/* Asks for a descriptor: the "ok" of the reply, for the caller to release; *fd is the caller's, never -1. */
json_t *pin_client_ask_fd(struct pin_client *client, const char *verb, int *fd, struct pin_error *err);
/* Gives the command of this number the size of the terminal on standard input. No reply is waited for: it has
 * id 2. */
bool pin_client_resize(struct pin_client *client, json_int_t exec, struct pin_error *err);
/* Freezes the sandbox until this connection ends. It can't be just while a command is being started: waits
 * for a second. UNSUPPORTED where the host's sandboxes can't be frozen. */
bool pin_client_hold(struct pin_client *client, struct pin_error *err);
