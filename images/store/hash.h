/* hash.h: SHA-256 of streams, by libcrypto, which uses what the processor has for it.
 *
 * A hasher is made once and used for one stream after another. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"

struct pin_hasher;

struct pin_hasher *pin_hasher_new(void); /* aborts when memory is out */
void pin_hasher_start(struct pin_hasher *hasher);
void pin_hasher_add(struct pin_hasher *hasher, const void *data, size_t size);
void pin_hasher_finish(struct pin_hasher *hasher, uint8_t digest[PIN_SHA256_SIZE]);
void pin_hasher_free(struct pin_hasher *hasher);
void pin_hasher_free_slot(struct pin_hasher **hasher);

#define PIN_HASHER __attribute__((cleanup(pin_hasher_free_slot)))
