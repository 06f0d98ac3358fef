#include "images/store/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <openssl/evp.h>

#define CHUNK ((size_t)128 * 1024) /* bytes, on the stack */

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

bool pin_hash_file(int file, char digest[PIN_DIGEST_TEXT], uint64_t *size, struct pin_error *err) {
    PIN_HASHER struct pin_hasher *hasher = pin_hasher_new();
    char buffer[CHUNK];
    uint8_t hash[PIN_SHA256_SIZE];
    uint64_t whole = 0;
    for (;;) {
        ssize_t got = pread(file, buffer, CHUNK, (off_t)whole);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_HASHER frees it, unseen */
            return pin_fail_errno(err, "read a file to hash it");
        if (got == 0)
            break;
        pin_hasher_add(hasher, buffer, (size_t)got);
        whole += (uint64_t)got;
    }
    pin_hasher_finish(hasher, hash);
    (void)pin_digest_print(digest, hash);
    *size = whole;
    return true;
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
