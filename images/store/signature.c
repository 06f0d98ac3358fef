#include "images/store/signature.h"

#include <stdint.h>
#include <string.h>

#include <jansson.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "images/image_name.h"

#define SIGNATURE_MAX 2048   /* bytes */
#define KEY_STRENGTH_MIN 112 /* bits: RSA with 2,048; NIST SP 800-57 part 1 */

static EVP_PKEY *read_key(const char *pem) {
    BIO *in = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = in == NULL ? NULL : PEM_read_bio_PUBKEY(in, NULL, NULL, NULL);
    (void)BIO_free(in);
    return key;
}

bool pin_signature_key_digest(const char *pem, char digest[PIN_DIGEST_TEXT], struct pin_error *err) {
    EVP_PKEY *key = read_key(pem);
    unsigned char *der = NULL;
    bool weak = key != NULL && EVP_PKEY_get_security_bits(key) < KEY_STRENGTH_MIN;
    int size = key == NULL || weak ? 0 : i2d_PUBKEY(key, &der);
    uint8_t hash[PIN_SHA256_SIZE];
    if (size > 0) {
        pin_sha256(der, (size_t)size, hash);
        (void)pin_digest_print(digest, hash);
    }
    OPENSSL_free(der);
    EVP_PKEY_free(key);
    if (weak)
        return pin_fail(err, PIN_ERROR_REFUSED, "the key is too weak to be believed");
    if (size > 0)
        return true;
    (void)pin_fail(err, PIN_ERROR_INVALID, "it isn't a public key in PEM form");
    return pin_hint(err, "it begins with '-----BEGIN PUBLIC KEY-----'");
}

static bool decode(const char *text, unsigned char *to, size_t *size) {
    size_t length = strlen(text);
    if (length == 0 || length % 4 != 0 || length / 4 * 3 > SIGNATURE_MAX)
        return false;
    int got = EVP_DecodeBlock(to, (const unsigned char *)text, (int)length);
    if (got < 0)
        return false;
    *size = (size_t)got - (text[length - 1] == '=') - (text[length - 2] == '='); /* it counts the padding */
    return true;
}

/* Ed25519 hashes by itself, and knows no other digest. */
static const EVP_MD *digest_for(EVP_PKEY *key, bool *known) {
    int type = EVP_PKEY_get_base_id(key);
    *known = type == EVP_PKEY_EC || type == EVP_PKEY_RSA || type == EVP_PKEY_ED25519;
    return type == EVP_PKEY_ED25519 ? NULL : EVP_sha256();
}

bool pin_signature_verify(const char *pem, const void *payload, size_t size, const char *signature) {
    unsigned char raw[SIGNATURE_MAX];
    size_t raw_size;
    bool known = false, good = false;
    if (!decode(signature, raw, &raw_size))
        return false;
    EVP_PKEY *key = read_key(pem);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    const EVP_MD *digest = key == NULL ? NULL : digest_for(key, &known);
    if (known && context != NULL && EVP_DigestVerifyInit(context, NULL, digest, NULL, key) == 1)
        good = EVP_DigestVerify(context, raw, raw_size, payload, size) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    return good;
}

bool pin_signature_payload(const char *payload, size_t size, char digest[PIN_DIGEST_TEXT]) {
    json_t *document =
        size > PIN_SIGNATURE_PAYLOAD_MAX ? NULL : json_loadb(payload, size, JSON_REJECT_DUPLICATES, NULL);
    const json_t *critical = json_object_get(document, "critical");
    const char *type = json_string_value(json_object_get(critical, "type"));
    const char *image =
        json_string_value(json_object_get(json_object_get(critical, "image"), "docker-manifest-digest"));
    bool good = type != NULL && image != NULL && pin_image_is_digest(image) &&
                (strcmp(type, "cosign container image signature") == 0 ||
                 strcmp(type, "atomic container signature") == 0);
    if (good)
        memcpy(digest, image, PIN_DIGEST_TEXT);
    json_decref(document);
    return good;
}
