/* home.h: the directory of one kept sandbox: sandboxes/NAME in the state directory, mode 0700.
 *
 *   lock          held by the supervisor (F_OFD_SETLK) for as long as it lives; its pid and start are in it
 *   control       its socket; gone, or refusing, when it is dead
 *   sandbox.json  what it is; written once, whole
 *   policy.json   what it was made with: policy/policy_snapshot.h
 *   end.json      how it ended, when its supervisor could still say so
 *   log.0, log.1  see log.h
 *
 * A directory whose lock is free is of a sandbox that has ended: its log can be read until it is removed.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

#define PIN_HOME_FOLDER "sandboxes"

struct pin_home {
    int folder, lock; /* -1: none */
};
#define PIN_HOME_NONE ((struct pin_home){-1, -1})

/* Claims the name: EXISTS where it is taken, alive or ended. */
bool pin_home_make(int state_dir, const char *name, struct pin_home *place, struct pin_error *err);
void pin_home_close(struct pin_home *place);

/* The directory, or -1 with an error of kind NOT_FOUND, or INVALID for what can't be a name. */
int pin_home_open(int state_dir, const char *name, struct pin_error *err);
bool pin_home_is_live(int folder);
/* A pidfd of its supervisor, for signals; -1: it has none any more, or it can't be seen from here. */
int pin_home_supervisor(int folder);
/* Removes it; BUSY while its supervisor lives. */
bool pin_home_remove(int state_dir, const char *name, struct pin_error *err);

/* Calls for every directory, in no order; stops at the first false. */
typedef bool pin_home_each(void *context, const char *name, int folder);
bool pin_home_list(int state_dir, pin_home_each *each, void *context, struct pin_error *err);

/* Whole or not at all. */
bool pin_home_write(int folder, const char *file, const json_t *json, struct pin_error *err);
/* NULL with an error; NOT_FOUND where there is none. */
json_t *pin_home_read(int folder, const char *file, struct pin_error *err);

/* The control socket. Non-blocking for its owner, blocking for a client; -1 on failure. */
int pin_home_listen(int folder, struct pin_error *err);
/* Its inode; 0: it isn't there, because somebody has removed the directory, say. */
ino_t pin_home_socket(int folder);
/* BUSY where it is being made or is ending, NOT_FOUND where it has ended, EXHAUSTED where nobody is let in
 * for ten seconds. */
int pin_home_connect(int folder, const char *name, struct pin_error *err);
