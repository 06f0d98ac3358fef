/* sha256.h: digests as the project writes them, "sha256:" and 64 hex characters. By libmd. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PIN_SHA256_SIZE 32
#define PIN_DIGEST_TEXT 72 /* "sha256:", 64 hex characters, a zero */

void pin_sha256(const void *data, size_t size, uint8_t digest[PIN_SHA256_SIZE]);
/* Two pieces as one. */
void pin_sha256_pair(const void *a, size_t a_size, const void *b, size_t b_size,
                     uint8_t digest[PIN_SHA256_SIZE]);
/* "sha256:…" into `to`, which it returns. */
char *pin_digest_print(char to[PIN_DIGEST_TEXT], const uint8_t digest[PIN_SHA256_SIZE]);
