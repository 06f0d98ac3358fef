#include <string.h>

#include "base/sha256.h"
#include "images/image_config.h"

#define KEY_MAX 4096 /* bytes of DER: an 8 kbit RSA key has 1,062 */

static int base64_value(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c == '\0' ? NULL : strchr(digits, c);
    return found == NULL ? -1 : (int)(found - digits);
}

/* The DER bytes between the lines of a PEM public key; 0: there is none. */
static size_t decode(const char *at, const char *end, uint8_t *der, size_t room) {
    uint32_t bits = 0;
    size_t have = 0, size = 0;
    for (; at < end && *at != '='; at++) {
        int value = base64_value(*at);
        if (value < 0 && strchr(" \t\r\n", *at) != NULL)
            continue;
        if (value < 0)
            return 0;
        bits = bits << 6 | (uint32_t)value;
        have += 6;
        if (have < 8)
            continue;
        have -= 8;
        if (size == room)
            return 0;
        der[size++] = (uint8_t)(bits >> have);
    }
    return size;
}

bool pin_image_signed_with(const struct pin_image_config *config, const char *pem) {
    static const char begin[] = "-----BEGIN PUBLIC KEY-----", finish[] = "-----END PUBLIC KEY-----";
    const char *from = strstr(pem, begin);
    const char *to = from == NULL ? NULL : strstr(from, finish);
    if (to == NULL)
        return false;
    uint8_t der[KEY_MAX], digest[PIN_SHA256_SIZE];
    size_t size = decode(from + strlen(begin), to, der, sizeof(der));
    if (size == 0)
        return false;
    pin_sha256(der, size, digest);
    char text[PIN_DIGEST_TEXT];
    (void)pin_digest_print(text, digest);
    for (size_t i = 0; i < config->signed_by_count; i++)
        if (strcmp(config->signed_by[i], text) == 0)
            return true;
    return false;
}
