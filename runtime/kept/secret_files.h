/* secret_files.h: the files of /run/secrets in a sandbox that lives, made anew when their values have
 * changed.
 *
 * The mount there is sealed for those inside. A child of ours enters the sandbox's namespaces, copies the
 * mount for itself, and puts each file in its place by a rename: who has the old one open reads the old value
 * to its end, and nobody sees half of one. The child runs nothing and opens nothing that those inside could
 * have put there.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "runtime/secrets/secrets.h"

struct pin_secret_files { /* zeroed at first: what the build has written isn't known, and is written once more
                           */
    bool known;
    uint8_t digest[PIN_SHA256_SIZE];
};

/* `uid`, `gid`: of the files, as they are inside. Nothing is done without files, or when no value has
 * changed. */
bool pin_secret_files_refresh(pid_t init, uid_t uid, gid_t gid, const struct pin_secrets *secrets,
                              struct pin_secret_files *files, struct pin_error *err);
/* Takes the file of this name away. */
bool pin_secret_files_remove(pid_t init, uid_t uid, gid_t gid, const char *name,
                             struct pin_secret_files *files, struct pin_error *err);
