/* state_dir.h: the directory in which pinfold's commands meet.
 *
 * Root: /run/pinfold. A user: $XDG_RUNTIME_DIR/pinfold where that variable names a directory of the user's
 * own, otherwise /tmp/pinfold-UID. $PINFOLD_STATE goes before both. The directory is made with mode 0700; one
 * that somebody else owns, that others may enter, or that is a link, is refused. It is opened once:
 * everything in it is reached by the descriptor.
 */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "base/error.h"

struct pin_state_where {
    uid_t uid;
    const char *state;           /* PINFOLD_STATE; NULL: not set */
    const char *xdg_runtime_dir; /* NULL: not set, or not a directory of the user's own */
};

/* Pure: the path that the rules above choose. */
bool pin_state_choose(const struct pin_state_where *where, char path[PATH_MAX], struct pin_error *err);

/* Opens the state directory of this process, and makes it where it is missing. -1 on failure. */
int pin_state_open(struct pin_error *err);

/* The same for a directory that is named. */
int pin_state_open_path(const char *path, struct pin_error *err);

/* A folder of the state directory, checked as the directory itself; made when `create` says so. A missing one
 * is an error of kind NOT_FOUND. */
int pin_state_folder(int state_dir, const char *name, bool create, struct pin_error *err);

/* The name that this state directory gives to its cgroups: "pinfold" for root's and the user's own, another
 * one for each $PINFOLD_STATE, so that equal slots of two directories never meet in one cgroup. */
#define PIN_STATE_TAG 32
bool pin_state_tag(int state_dir, char tag[PIN_STATE_TAG], struct pin_error *err);
