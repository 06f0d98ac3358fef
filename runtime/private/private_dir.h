/* private_dir.h: directories and files that belong to one user alone.
 *
 * The audit log, secrets and keys lie in such directories: owned by the user, mode 0700, no link at the end
 * of the path. A directory is opened once, and what is in it is reached by the descriptor. Which one it is, a
 * table says: an environment variable (an absolute path) goes before all, then root's place or the user's.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"

struct pin_private_place {
    const char *variable;   /* "PINFOLD_SECRETS" */
    const char *of_root;    /* "/etc/pinfold/secrets" */
    const char *xdg, *home; /* "XDG_CONFIG_HOME", and ".config" below $HOME where that isn't set */
    const char *below;      /* "pinfold/secrets", below either */
};

/* The path for this process. */
bool pin_private_choose(const struct pin_private_place *place, char path[PATH_MAX], struct pin_error *err);

/* Opens the directory; `create` makes it, and the parents that are missing, with mode 0700. -1 on failure; a
 * missing one is an error of kind NOT_FOUND. */
int pin_private_dir(const char *path, bool create, struct pin_error *err);

/* Opens a file in it: regular, the user's own, with nothing for others. It is made with mode 0600 when the
 * flags have O_CREAT. -1 on failure; a missing one is an error of kind NOT_FOUND. */
int pin_private_file(int dir, const char *name, int flags, struct pin_error *err);
