#include "tools/pinfold-audit/receipt_key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/private/private_dir.h"

static const struct pin_private_place place = {"PINFOLD_KEYS", "/var/lib/pinfold/keys", "XDG_DATA_HOME",
                                               ".local/share", "pinfold/keys"};
static const char file_name[] = "receipt.key", fresh_name[] = "receipt.key.new";

static void print_hex(char *to, const uint8_t *bytes, size_t size) {
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        to[2 * i] = hex[bytes[i] >> 4];
        to[2 * i + 1] = hex[bytes[i] & 15];
    }
    to[2 * size] = '\0';
}

static bool read_hex(const char *text, uint8_t *bytes, size_t size) {
    static const char hex[] = "0123456789abcdef";
    if (strlen(text) != 2 * size || strspn(text, hex) != 2 * size)
        return false;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)((strchr(hex, text[2 * i]) - hex) << 4 | (strchr(hex, text[2 * i + 1]) - hex));
    return true;
}

/* Whole under its own name or not there: two first uses at once agree on one key. */
static bool make_key(int dir, struct pin_error *err) {
    uint8_t seed[PIN_KEY_BYTES];
    if (getrandom(seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        return pin_fail_errno(err, "draw a key");
    if (unlinkat(dir, fresh_name, 0) != 0 && errno != ENOENT)
        return pin_fail_errno(err, "make a key");
    PIN_CLOSE int fd = pin_private_file(dir, fresh_name, O_WRONLY | O_CREAT | O_EXCL, err);
    bool ok = fd >= 0 && pin_write_all(fd, seed, sizeof(seed), err) &&
              (fsync(fd) == 0 || pin_fail_errno(err, "keep the key"));
    explicit_bzero(seed, sizeof(seed));
    if (ok && linkat(dir, fresh_name, dir, file_name, 0) != 0 && errno != EEXIST)
        ok = pin_fail_errno(err, "keep the key");
    (void)unlinkat(dir, fresh_name, 0);
    return ok;
}

static EVP_PKEY *read_key(int fd, struct pin_error *err) {
    uint8_t seed[PIN_KEY_BYTES + 1];
    EVP_PKEY *key = NULL;
    if (read(fd, seed, sizeof(seed)) == PIN_KEY_BYTES)
        key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, PIN_KEY_BYTES);
    explicit_bzero(seed, sizeof(seed));
    if (key == NULL)
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "'%s' is no key", file_name);
    return key;
}

EVP_PKEY *pin_receipt_key_open(bool create, struct pin_error *err) {
    char path[PATH_MAX];
    if (!pin_private_choose(&place, path, err))
        return NULL;
    PIN_CLOSE int dir = pin_private_dir(path, create, err);
    if (dir < 0)
        return NULL;
    struct pin_error missing = {0};
    PIN_CLOSE int fd = pin_private_file(dir, file_name, O_RDONLY, &missing);
    if (fd < 0 && missing.os_errno == ENOENT && create) {
        if (!make_key(dir, err))
            return NULL;
        fd = pin_private_file(dir, file_name, O_RDONLY, err);
    } else if (fd < 0) {
        *err = missing;
    }
    return fd >= 0 ? read_key(fd, err) : NULL;
}

bool pin_receipt_key_public(EVP_PKEY *key, char text[PIN_KEY_TEXT], struct pin_error *err) {
    uint8_t bytes[PIN_KEY_BYTES];
    size_t size = sizeof(bytes);
    if (EVP_PKEY_get_raw_public_key(key, bytes, &size) != 1 || size != sizeof(bytes))
        return pin_fail(err, PIN_ERROR_INTERNAL, "the key has no public part");
    print_hex(text, bytes, size);
    return true;
}

bool pin_receipt_sign(EVP_PKEY *key, const char *message, char signature[PIN_SIGNATURE_TEXT],
                      struct pin_error *err) {
    uint8_t bytes[PIN_SIGNATURE_BYTES];
    size_t size = sizeof(bytes);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool ok = context != NULL && EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
              EVP_DigestSign(context, bytes, &size, (const uint8_t *)message, strlen(message)) == 1 &&
              size == sizeof(bytes);
    EVP_MD_CTX_free(context);
    if (!ok)
        return pin_fail(err, PIN_ERROR_INTERNAL, "sign the receipt");
    print_hex(signature, bytes, size);
    return true;
}

bool pin_receipt_check(const char *public_key, const char *message, const char *signature) {
    uint8_t key_bytes[PIN_KEY_BYTES], bytes[PIN_SIGNATURE_BYTES];
    if (!read_hex(public_key, key_bytes, sizeof(key_bytes)) || !read_hex(signature, bytes, sizeof(bytes)))
        return false;
    EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key_bytes, sizeof(key_bytes));
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool ok = key != NULL && context != NULL && EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1 &&
              EVP_DigestVerify(context, bytes, sizeof(bytes), (const uint8_t *)message, strlen(message)) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    return ok;
}
