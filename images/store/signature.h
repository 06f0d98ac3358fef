/* signature.h: cosign's simple signing: is this payload signed by that key, and does it speak of this image?
 *
 * Pure. Keys are PEM public keys: ECDSA and RSA sign the payload's SHA-256, Ed25519 the payload itself.
 * Source: github.com/sigstore/cosign, specs/SIGNATURE_SPEC.md; containers/image, docs/containers-signature.5.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/sha256.h"

#define PIN_SIGNATURE_MEDIA_TYPE "application/vnd.dev.cosign.simplesigning.v1+json"
#define PIN_SIGNATURE_PAYLOAD_MAX ((size_t)64 * 1024) /* bytes */

/* A public key's name: the digest of its DER form. False with an error: it isn't a public key. */
bool pin_signature_key_digest(const char *pem, char digest[PIN_DIGEST_TEXT], struct pin_error *err);

/* Whether `signature` (base64) over the payload is this key's. False without error detail: any doubt. */
bool pin_signature_verify(const char *pem, const void *payload, size_t size, const char *signature);

/* The digest of the image that a payload speaks of. False: the payload isn't one. */
bool pin_signature_payload(const char *payload, size_t size, char digest[PIN_DIGEST_TEXT]);
