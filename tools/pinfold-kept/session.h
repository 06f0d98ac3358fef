/* session.h: one command of a kept sandbox, from asking for it to its result, with the caller's signals
 * passed on: the first as it is, a second one ends the command. Whoever passes one on to a supervisor that
 * doesn't answer (it was stopped, say) isn't held up by it: after the time of all answers the command is
 * left, and at the next signal where the one before has been unanswered for a tenth of that. The supervisor
 * ends the command when it goes on.
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "tools/pinfold-kept/client.h"

struct pin_session {
    struct pin_client client;
    int signals; /* signalfd; -1: none */
    bool tty, detach;
    json_int_t exec; /* 0: it hasn't started, as far as we know */
    int held;        /* a signal that came before that; 0: none */
    bool resized;    /* so did a change of the window */
    unsigned interrupts;
    uint64_t asked_ns; /* when the first signal was passed on that hasn't been answered; 0: all were */
};
#define PIN_SESSION_NONE ((struct pin_session){.client = PIN_CLIENT_NONE, .signals = -1})

/* The signals that are passed on come by this descriptor from now on, the caller's to close. */
bool pin_session_take_signals(int *signals, struct pin_error *err);

/* Connects, and takes signals from now on. Close it in any case. */
bool pin_session_open(struct pin_session *session, const char *name, struct pin_error *err);
void pin_session_close(struct pin_session *session);
/* After the request was sent: the message with the result (of a detached command: that it has started), for
 * the caller to release; NULL with an error. */
json_t *pin_session_await(struct pin_session *session, struct pin_error *err);
