#include "tools/pinfold-config/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/sha256.h"
#include "runtime/private/private_dir.h"

enum { KEY_SIZE = 32, ID_SIZE = 8, NONCE_SIZE = 12, TAG_SIZE = 16 };
/* version, id of the key, nonce, the encrypted value, tag */
enum {
    ID_AT = 1,
    NONCE_AT = ID_AT + ID_SIZE,
    VALUE_AT = NONCE_AT + NONCE_SIZE,
    OVERHEAD = VALUE_AT + TAG_SIZE
};
#define SEAL_VERSION 1
#define VALUE_MOST ((size_t)1024 * 1024)

static const struct pin_private_place keys = {"PINFOLD_KEYS", "/var/lib/pinfold/keys", "XDG_DATA_HOME",
                                              ".local/share", "pinfold/keys"};
static const char key_file[] = "environment.key", fresh_file[] = "environment.key.new";
static const char credential[] = "pinfold.environment-key";

/* --- the key --- */

static bool read_key(int fd, struct pin_locked *key, struct pin_error *err) {
    if (!pin_locked_alloc(key, KEY_SIZE + 1, err))
        return false;
    if (read(fd, key->bytes, KEY_SIZE + 1) == KEY_SIZE)
        return true;
    pin_locked_free(key);
    return pin_fail(err, PIN_ERROR_SYNTAX, "the key of environments isn't %d bytes", KEY_SIZE);
}

/* Whole under its own name or not there: two first uses at once agree on one key. */
static bool make_key(int dir, struct pin_error *err) {
    struct pin_locked key = {0};
    char fresh[sizeof(fresh_file) + 24];
    (void)snprintf(fresh, sizeof(fresh), "%s.%ld", fresh_file, (long)getpid());
    if (!pin_locked_alloc(&key, KEY_SIZE, err))
        return false;
    PIN_CLOSE int fd = pin_private_file(dir, fresh, O_WRONLY | O_CREAT | O_TRUNC, err);
    bool ok = fd >= 0 &&
              (getrandom(key.bytes, KEY_SIZE, 0) == KEY_SIZE || pin_fail_errno(err, "draw a key")) &&
              pin_write_all(fd, key.bytes, KEY_SIZE, err) &&
              ((fchmod(fd, 0400) == 0 && fsync(fd) == 0) || pin_fail_errno(err, "keep the key"));
    if (ok && linkat(dir, fresh, dir, key_file, 0) != 0 && errno != EEXIST)
        ok = pin_fail_errno(err, "keep the key");
    (void)unlinkat(dir, fresh, 0);
    pin_locked_free(&key);
    return ok;
}

static bool key_of_file(bool create, struct pin_locked *key, struct pin_error *err) {
    char path[PATH_MAX];
    struct pin_error missing = {0};
    if (!pin_private_choose(&keys, path, err))
        return false;
    PIN_CLOSE int dir = pin_private_dir(path, create, err);
    if (dir < 0)
        return false;
    PIN_CLOSE int fd = pin_private_file(dir, key_file, O_RDONLY, &missing);
    if (fd < 0 && missing.os_errno == ENOENT && create) {
        if (!make_key(dir, err))
            return false;
        fd = pin_private_file(dir, key_file, O_RDONLY, err);
    } else if (fd < 0) {
        *err = missing;
    }
    return fd >= 0 && read_key(fd, key, err);
}

/* A directory of credentials that can't be read is no reason to take another key. */
static bool find_key(bool create, struct pin_locked *key, struct pin_error *err) {
    const char *folder = secure_getenv("CREDENTIALS_DIRECTORY");
    PIN_CLOSE int dir = folder == NULL ? -1 : open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    PIN_CLOSE int fd = dir < 0 ? -1 : openat(dir, credential, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0)
        return read_key(fd, key, err);
    if (folder != NULL && errno != ENOENT)
        return pin_fail_errno(err, "read the credential '%s'", credential);
    return key_of_file(create, key, err);
}

static void print_id(const struct pin_locked *key, uint8_t id[ID_SIZE]) {
    static const char prefix[] = "pinfold environment key id";
    uint8_t digest[PIN_SHA256_SIZE];
    pin_sha256_pair(prefix, sizeof(prefix), key->bytes, KEY_SIZE, digest);
    memcpy(id, digest, ID_SIZE);
}

/* --- the cipher --- */

/* Each part ends with a zero, which none has in it: no two places have one text. */
static uint8_t *place_text(struct pin_arena *arena, const struct pin_seal_place *place, int *size) {
    const char *const parts[] = {"pinfold environment", place->organisation, place->configuration,
                                 place->name};
    size_t length = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        length += strlen(parts[i]) + 1;
    char *text = pin_arena_alloc(arena, length), *at = text;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        at = stpcpy(at, parts[i]) + 1;
    *size = (int)length;
    return (uint8_t *)text;
}

static bool start(EVP_CIPHER_CTX *context, const struct pin_locked *key, const uint8_t *nonce,
                  const struct pin_seal_place *place, bool encrypt) {
    PIN_ARENA struct pin_arena arena = {0};
    int size, ignored;
    const uint8_t *text = place_text(&arena, place, &size);
    return context != NULL &&
           EVP_CipherInit_ex(context, EVP_aes_256_gcm(), NULL, key->bytes, nonce, encrypt) == 1 &&
           EVP_CipherUpdate(context, NULL, &ignored, text, size) == 1;
}

static bool encrypt_value(const struct pin_locked *key, const struct pin_seal_place *place, const void *value,
                          size_t size, uint8_t *bytes) {
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int length = 0, rest = 0;
    bool ok = start(context, key, bytes + NONCE_AT, place, true) &&
              EVP_CipherUpdate(context, bytes + VALUE_AT, &length, value, (int)size) == 1 &&
              EVP_CipherFinal_ex(context, bytes + VALUE_AT + length, &rest) == 1 &&
              EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, TAG_SIZE, bytes + VALUE_AT + size) == 1;
    EVP_CIPHER_CTX_free(context);
    return ok;
}

static bool decrypt_value(const struct pin_locked *key, const struct pin_seal_place *place, uint8_t *bytes,
                          size_t size, uint8_t *value) {
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int length = 0, rest = 0;
    bool ok = start(context, key, bytes + NONCE_AT, place, false) &&
              EVP_CipherUpdate(context, value, &length, bytes + VALUE_AT, (int)size) == 1 &&
              EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, TAG_SIZE, bytes + VALUE_AT + size) == 1 &&
              EVP_CipherFinal_ex(context, value + length, &rest) == 1;
    EVP_CIPHER_CTX_free(context);
    return ok;
}

/* --- text --- */

static char *to_hex(const uint8_t *bytes, size_t size) {
    static const char digits[] = "0123456789abcdef";
    char *text = malloc(2 * size + 1);
    for (size_t i = 0; text != NULL && i < size; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    if (text != NULL)
        text[2 * size] = '\0';
    return text;
}

static uint8_t *from_hex(const char *text, size_t *size) {
    static const char digits[] = "0123456789abcdef";
    size_t length = strlen(text);
    if (length % 2 != 0 || strspn(text, digits) != length || length / 2 < OVERHEAD)
        return NULL;
    uint8_t *bytes = malloc(length / 2);
    for (size_t i = 0; bytes != NULL && i < length; i += 2)
        bytes[i / 2] =
            (uint8_t)((strchr(digits, text[i]) - digits) << 4 | (strchr(digits, text[i + 1]) - digits));
    *size = length / 2;
    return bytes;
}

char *pin_seal(const struct pin_seal_place *place, const void *value, size_t size, struct pin_error *err) {
    struct pin_locked key = {0};
    if (size > VALUE_MOST) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "a value has at most %zu bytes", VALUE_MOST);
        return NULL;
    }
    PIN_FREE uint8_t *bytes = malloc(size + OVERHEAD);
    if (bytes == NULL || !find_key(true, &key, err)) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, which the analyzer doesn't see */
        if (!pin_is_set(err))
            (void)pin_fail_errno(err, "seal the value");
        return NULL;
    }
    bytes[0] = SEAL_VERSION;
    print_id(&key, bytes + ID_AT);
    /* random nonces of 96 bits: a key is good for 2^32 values (NIST SP 800-38D 8.3) */
    bool ok = getrandom(bytes + NONCE_AT, NONCE_SIZE, 0) == NONCE_SIZE &&
              encrypt_value(&key, place, value, size, bytes);
    pin_locked_free(&key);
    char *text = ok ? to_hex(bytes, size + OVERHEAD) : NULL;
    if (text == NULL)
        (void)pin_fail(err, PIN_ERROR_INTERNAL, "the value of '%.60s' can't be sealed", place->name);
    return text;
}

static bool has_key(const struct pin_locked *key, const uint8_t *bytes, const struct pin_seal_place *place,
                    struct pin_error *err) {
    uint8_t id[ID_SIZE];
    print_id(key, id);
    if (memcmp(id, bytes + ID_AT, ID_SIZE) == 0)
        return true;
    (void)pin_fail(err, PIN_ERROR_REFUSED, "the value of '%.60s' was sealed with another key", place->name);
    return pin_hint(err, "bring the key back, or set the variable anew");
}

bool pin_unseal(const struct pin_seal_place *place, const char *sealed, struct pin_locked *value,
                struct pin_error *err) {
    struct pin_locked key = {0};
    size_t size = 0;
    PIN_FREE uint8_t *bytes = from_hex(sealed, &size);
    if (bytes == NULL || bytes[0] != SEAL_VERSION)
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, which the analyzer doesn't see */
        return pin_fail(err, PIN_ERROR_SYNTAX, "the sealed value of '%.60s' is damaged", place->name);
    if (!find_key(false, &key, err)) {
        (void)pin_wrap(err, "open the sealed value of '%.60s'", place->name);
        return false;
    }
    size_t length = size - OVERHEAD;
    bool ok = has_key(&key, bytes, place, err) && pin_locked_alloc(value, length + 1, err);
    if (ok && !decrypt_value(&key, place, bytes, length, value->bytes))
        ok = pin_fail(err, PIN_ERROR_SYNTAX,
                      "the sealed value of '%.60s' is damaged, or was of another variable", place->name);
    if (ok)
        value->size = length;
    else
        pin_locked_free(value);
    pin_locked_free(&key);
    return ok;
}
