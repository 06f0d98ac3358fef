/* hash.h: SHA-256 of streams, by libcrypto, which uses what the processor has for it.
 *
 * A hasher is made once and used for one stream after another. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"

struct pin_hasher;

struct pin_hasher *pin_hasher_new(void); /* aborts when memory is out */
void pin_hasher_start(struct pin_hasher *hasher);
void pin_hasher_add(struct pin_hasher *hasher, const void *data, size_t size);
void pin_hasher_finish(struct pin_hasher *hasher, uint8_t digest[PIN_SHA256_SIZE]);
/* Digest ("sha256:…") and size of a whole file, from its start. */
bool pin_hash_file(int file, char digest[PIN_DIGEST_TEXT], uint64_t *size, struct pin_error *err);
void pin_hasher_free(struct pin_hasher *hasher);
void pin_hasher_free_slot(struct pin_hasher **hasher);

#define PIN_HASHER __attribute__((cleanup(pin_hasher_free_slot)))
