/* seal.h: values of environments at rest: AES-256-GCM, with a key of the host's.
 *
 * The key is the systemd credential "pinfold.environment-key" of this process ($CREDENTIALS_DIRECTORY) where
 * there is one, else environment.key in pinfold's directory of keys ($PINFOLD_KEYS, root's
 * /var/lib/pinfold/keys, a user's $XDG_DATA_HOME/pinfold/keys), mode 0400, which the first use makes: 32
 * bytes either way. A sealed value is bound to its place: put under another name, configuration or
 * organisation, it doesn't open. Its text says which key it wants, and nothing of the value but its length.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "runtime/secrets/locked.h"

struct pin_seal_place {
    const char *organisation, *configuration, *name;
};

/* Hexadecimal text, which the caller frees; NULL on failure. */
char *pin_seal(const struct pin_seal_place *place, const void *value, size_t size, struct pin_error *err);
/* The value, in locked memory that ends with a zero beyond its size. */
bool pin_unseal(const struct pin_seal_place *place, const char *sealed, struct pin_locked *value,
                struct pin_error *err);
