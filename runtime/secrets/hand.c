#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "runtime/secrets/secrets.h"

struct handed { /* both ends come from one build */
    struct pin_secret_spec spec;
    enum pin_secret_source source;
    size_t value_size;
};

static bool hand_one(const struct pin_secret *secret, int pipe, struct pin_error *err) {
    struct handed head = {.spec = secret->spec, .source = secret->source};
    const char *value = pin_secret_value(secret, &head.value_size);
    return pin_write_all(pipe, &head, sizeof(head), err) && pin_write_all(pipe, value, head.value_size, err);
}

bool pin_secrets_hand(const struct pin_secrets *secrets, const struct pin_error *why_not, int pipe) {
    struct pin_error err = {0};
    bool ok = pin_write_all(pipe, why_not, sizeof(*why_not), &err);
    for (size_t i = 0; ok && i < secrets->count; i++)
        ok = hand_one(&secrets->list[i], pipe, &err);
    return ok;
}

static bool read_exactly(int pipe, void *to, size_t size, struct pin_error *err) {
    for (uint8_t *at = to; size > 0;) {
        ssize_t got = read(pipe, at, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return pin_fail(err, PIN_ERROR_SYSTEM, "who looked for the secrets has died");
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static bool take_one(struct pin_secret *secret, int pipe, struct pin_error *err) {
    struct handed head;
    if (!read_exactly(pipe, &head, sizeof(head), err))
        return false;
    secret->spec = head.spec;
    secret->source = head.source;
    secret->value_at = strnlen(head.spec.target, sizeof(head.spec.target)) + 1;
    if (head.value_size > PIN_SECRET_MOST || secret->value_at > sizeof(head.spec.target))
        return pin_fail(err, PIN_ERROR_INTERNAL, "a secret was handed over that is none");
    if (!pin_locked_alloc(&secret->memory, secret->value_at + head.value_size + 1, err))
        return false;
    memcpy(secret->memory.bytes, head.spec.target, secret->value_at - 1);
    secret->memory.bytes[secret->value_at - 1] = '=';
    secret->memory.size = secret->value_at + head.value_size;
    return read_exactly(pipe, secret->memory.bytes + secret->value_at, head.value_size, err);
}

bool pin_secrets_take(struct pin_secrets *secrets, size_t count, int pipe, struct pin_error *err) {
    struct pin_error why_not = {0};
    if (!read_exactly(pipe, &why_not, sizeof(why_not), err))
        return false;
    if (pin_is_set(&why_not)) {
        *err = why_not;
        return false;
    }
    secrets->list = calloc(count, sizeof(*secrets->list));
    if (secrets->list == NULL)
        return pin_fail_errno(err, "hold the secrets");
    secrets->count = count;
    for (size_t i = 0; i < count; i++)
        if (!take_one(&secrets->list[i], pipe, err)) {
            pin_secrets_free(secrets);
            return false;
        }
    return true;
}
