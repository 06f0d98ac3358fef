/* The control socket's bytes: where reads end doesn't matter, no room is taken for what hasn't come, and what
 * is taken for a request is one. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/kept/request.h"
#include "runtime/kept/wire.h"

#define LIMIT ((size_t)2048)

struct tally {
    size_t messages, requests, eaten;
    bool broken;
};

static void check(const char *text, size_t size, struct tally *tally) {
    struct pin_kept_request request;
    struct pin_error err = {0};
    tally->messages++;
    if (pin_kept_request_parse(text, size, &request, &err)) {
        tally->requests++;
        assert(request.verb < PIN_KEPT_VERB_COUNT && !pin_is_set(&err));
        if (request.verb == PIN_KEPT_EXEC) {
            assert(request.arg_count > 0 && request.args[request.arg_count] == NULL);
            assert(request.cwd == NULL || request.cwd[0] == '/');
            for (size_t i = 0; i < request.env_count; i++)
                assert(strchr(request.env[i], '=') != NULL && request.env[i][0] != '=');
        }
    } else {
        assert(pin_is_set(&err) && err.message[0] != '\0');
    }
    pin_kept_request_free(&request);
}

static struct tally feed(const uint8_t *data, size_t size, size_t step) {
    struct pin_wire wire = {.limit = LIMIT};
    struct tally tally = {0};
    const char *text;
    size_t length;
    while (tally.eaten < size && !tally.broken) {
        struct pin_error err = {0};
        size_t room = 0, part;
        uint8_t *to = pin_wire_room(&wire, &room);
        assert(to != NULL && room > 0);
        part = room < step ? room : step;
        part = part < size - tally.eaten ? part : size - tally.eaten;
        memcpy(to, data + tally.eaten, part);
        tally.eaten += part;
        tally.broken = !pin_wire_put(&wire, part, &err);
        assert(wire.room <= 1024 || wire.room <= 2 * wire.size);
        if (tally.broken || !pin_wire_is_whole(&wire, &text, &length))
            continue;
        assert(length > 0 && length <= LIMIT);
        check(text, length, &tally);
        pin_wire_next(&wire);
    }
    pin_wire_free(&wire);
    return tally;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tally whole = feed(data, size, SIZE_MAX), split = feed(data, size, 1), alone = {0};
    assert(whole.messages == split.messages && whole.requests == split.requests &&
           whole.broken == split.broken);
    if (size > 0)
        check((const char *)data, size, &alone); /* without a head, so that the JSON is reached sooner */
    return 0;
}
