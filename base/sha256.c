#include "base/sha256.h"

#include <sha2.h>
#include <stdio.h>
#include <string.h>

void pin_sha256_pair(const void *a, size_t a_size, const void *b, size_t b_size,
                     uint8_t digest[PIN_SHA256_SIZE]) {
    SHA2_CTX context;
    SHA256Init(&context);
    if (a_size > 0)
        SHA256Update(&context, a, a_size);
    if (b_size > 0)
        SHA256Update(&context, b, b_size);
    SHA256Final(digest, &context);
}

void pin_sha256(const void *data, size_t size, uint8_t digest[PIN_SHA256_SIZE]) {
    pin_sha256_pair(data, size, NULL, 0, digest);
}

char *pin_digest_print(char to[PIN_DIGEST_TEXT], const uint8_t digest[PIN_SHA256_SIZE]) {
    static const char hex[] = "0123456789abcdef";
    memcpy(to, "sha256:", 7);
    for (size_t i = 0; i < PIN_SHA256_SIZE; i++) {
        to[7 + 2 * i] = hex[digest[i] >> 4];
        to[8 + 2 * i] = hex[digest[i] & 15];
    }
    to[7 + 2 * PIN_SHA256_SIZE] = '\0';
    return to;
}
