/* command.h: a secret's value from a program of the operator's: a password manager's, a vault's.
 *
 * $PINFOLD_SECRETS_COMMAND (an absolute path), root's /etc/pinfold/secrets-command, a user's
 * ~/.config/pinfold/secrets-command: an executable file of root's or one's own that nobody else may write. It
 * is run without a shell, as COMMAND NAME, with PATH, HOME and LANG alone, nothing to read, and its errors
 * thrown away; what it prints is the value, read into locked memory. It has ten seconds; then it is killed
 * with all that it has started and that is still in its session. Exit status 0: that is it; 1: it doesn't
 * have this one; else it failed.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "runtime/secrets/locked.h"

/* Whether there is one; false with an error where there is one that can't be trusted. */
bool pin_secret_command_exists(struct pin_error *err);
/* Its value behind `keep` bytes of `memory`, and a zero; false without an error: it doesn't have it, or there
 * is no such program. `memory` is the caller's to free in any case. */
bool pin_secret_command_run(const char *name, size_t keep, size_t most, struct pin_locked *memory,
                            size_t *size, struct pin_error *err);
