#include "images/store/hash.h"

#include <stdlib.h>

#include <openssl/evp.h>

struct pin_hasher {
    EVP_MD_CTX *context;
};

/* libcrypto's digest calls fail only without memory or without SHA-256: nothing that we can go on from. */
static void must(int done) {
    if (done != 1)
        abort();
}

struct pin_hasher *pin_hasher_new(void) {
    struct pin_hasher *hasher = malloc(sizeof(*hasher));
    if (hasher == NULL)
        abort();
    hasher->context = EVP_MD_CTX_new();
    must(hasher->context != NULL);
    pin_hasher_start(hasher);
    return hasher;
}

void pin_hasher_start(struct pin_hasher *hasher) {
    must(EVP_DigestInit_ex(hasher->context, EVP_sha256(), NULL));
}

void pin_hasher_add(struct pin_hasher *hasher, const void *data, size_t size) {
    must(EVP_DigestUpdate(hasher->context, data, size));
}

void pin_hasher_finish(struct pin_hasher *hasher, uint8_t digest[PIN_SHA256_SIZE]) {
    must(EVP_DigestFinal_ex(hasher->context, digest, NULL));
}

void pin_hasher_free(struct pin_hasher *hasher) {
    if (hasher == NULL)
        return;
    EVP_MD_CTX_free(hasher->context);
    free(hasher);
}

void pin_hasher_free_slot(struct pin_hasher **hasher) {
    pin_hasher_free(*hasher);
}
