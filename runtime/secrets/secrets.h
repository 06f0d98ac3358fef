/* secrets.h: the secrets of one run: found by name, held in locked memory, handed over once.
 *
 * A value is looked for in this order, and the first place that has the name counts: a variable of the
 * caller's own environment, where the caller names it; the directory of secrets ($PINFOLD_SECRETS, root's
 * /etc/pinfold/secrets, a user's ~/.config/pinfold/secrets: 0700, files 0600 or 0400, owners checked);
 * systemd's credentials ($CREDENTIALS_DIRECTORY); a program of the operator's (command.h). One line end at
 * the end of a file is not part of the value.
 *
 * No function prints a value, and no error holds one. Whether the policy grants a name is decided before.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"
#include "runtime/secrets/locked.h"
#include "runtime/secrets/secret_spec.h"

#define PIN_SECRET_LEAST 4                  /* bytes: a shorter one couldn't be masked in output */
#define PIN_SECRET_MOST ((size_t)64 * 1024) /* bytes */

enum pin_secret_source {
    PIN_SECRET_FROM_VARIABLE,
    PIN_SECRET_FROM_DIRECTORY,
    PIN_SECRET_FROM_CREDENTIALS,
    PIN_SECRET_FROM_COMMAND,
    PIN_SECRET_FROM_CONFIGURATION,
    PIN_SECRET_SOURCE_COUNT
};
const char *pin_secret_source_name(enum pin_secret_source source); /* "variable", … */

struct pin_secret {
    struct pin_secret_spec spec;
    enum pin_secret_source source;
    struct pin_locked memory; /* "TARGET=value" and a zero */
    size_t value_at;
};

struct pin_secrets { /* zeroed: none */
    struct pin_secret *list;
    size_t count;
};

/* Finds each. `from_env`: "NAME=VARIABLE" each. False with an error that names the secret. */
bool pin_secrets_find(struct pin_secrets *secrets, const char *const *specs, size_t spec_count,
                      const char *const *from_env, size_t from_env_count, struct pin_error *err);
/* Adds `count` variables whose values the caller has: of a stored configuration. Each is "VARIABLE=value" and
 * a zero; that, and nothing else, is in the text. */
bool pin_secrets_add_pairs(struct pin_secrets *secrets, const char *text, size_t size, size_t count,
                           struct pin_error *err);
/* Moves into `to` what it has no variable of that name for; `from` has none afterwards, success or not. */
bool pin_secrets_join(struct pin_secrets *to, struct pin_secrets *from, struct pin_error *err);
/* From one process to another through a pipe, without a copy outside locked memory: what was found, or why it
 * wasn't. pin_secrets_take() reads until the end of file; false with an error, also with the other's. */
bool pin_secrets_hand(const struct pin_secrets *secrets, const struct pin_error *why_not, int pipe);
bool pin_secrets_take(struct pin_secrets *secrets, size_t count, int pipe, struct pin_error *err);
/* Wipes them; fine with none. */
void pin_secrets_free(struct pin_secrets *secrets);

/* Keeps a copy of a value that isn't among them yet, and then sets *is_new; at `most` the oldest goes. */
bool pin_secrets_remember(struct pin_secrets *secrets, const struct pin_secret *secret, size_t most,
                          bool *is_new, struct pin_error *err);

/* The value, ended by a zero that `size` doesn't count. */
const char *pin_secret_value(const struct pin_secret *secret, size_t *size);
/* "TARGET=value" of an environment variable; as long as the secret lives. */
const char *pin_secret_variable(const struct pin_secret *secret);
/* Changes with every name, form and value; tells none. */
void pin_secrets_digest(const struct pin_secrets *secrets, uint8_t digest[PIN_SHA256_SIZE]);
