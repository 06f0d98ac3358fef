/* receipt_key.h: the host's key for receipts: Ed25519, by OpenSSL's libcrypto.
 *
 * $PINFOLD_KEYS, root's /var/lib/pinfold/keys, a user's $XDG_DATA_HOME/pinfold/keys (~/.local/share): a
 * directory of mode 0700 with the file receipt.key, 0600, which is made at the first use.
 */
#pragma once

#include <openssl/evp.h>

#include "base/error.h"

#define PIN_KEY_BYTES 32
#define PIN_SIGNATURE_BYTES 64
#define PIN_KEY_TEXT (2 * PIN_KEY_BYTES + 1)
#define PIN_SIGNATURE_TEXT (2 * PIN_SIGNATURE_BYTES + 1)

/* The key, which the caller frees with EVP_PKEY_free(); NULL on failure. */
EVP_PKEY *pin_receipt_key_open(bool create, struct pin_error *err);
bool pin_receipt_key_public(EVP_PKEY *key, char text[PIN_KEY_TEXT], struct pin_error *err);
bool pin_receipt_sign(EVP_PKEY *key, const char *message, char signature[PIN_SIGNATURE_TEXT],
                      struct pin_error *err);
/* Whether the signature is of this key and this message. */
bool pin_receipt_check(const char *public_key, const char *message, const char *signature);
