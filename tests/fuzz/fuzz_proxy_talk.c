/* Where the pieces of a proxy's answer end doesn't matter, and not a byte beyond its end is taken. */
#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "runtime/egress/proxy_talk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct end {
    enum pin_proxy_step step;
    size_t used;
    int os_errno;
};

static struct end talk(enum pin_proxy_kind kind, const uint8_t *data, size_t size, size_t piece) {
    struct pin_proxy proxy = {.kind = kind, .port = 3128};
    struct pin_destination to = {.host = "api.example.com", .port = 443};
    struct pin_proxy_talk talk;
    struct end end = {.step = PIN_PROXY_MORE};
    assert(pin_proxy_begin(&talk, &proxy, "user:password", &to) && talk.send_size > 0);
    while (end.step == PIN_PROXY_MORE && end.used < size) {
        size_t used, part = size - end.used < piece ? size - end.used : piece;
        end.step = pin_proxy_read(&talk, data + end.used, part, &used);
        assert(used > 0 && used <= part && talk.send_size <= sizeof(talk.send));
        end.used += used;
    }
    end.os_errno = talk.os_errno;
    assert((end.step == PIN_PROXY_NO) == (end.os_errno != 0));
    return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (int kind = PIN_PROXY_HTTP; kind < PIN_PROXY_KIND_COUNT; kind++) {
        struct end whole = talk((enum pin_proxy_kind)kind, data, size, size + 1);
        struct end split = talk((enum pin_proxy_kind)kind, data, size, 1);
        assert(whole.step == split.step && whole.used == split.used && whole.os_errno == split.os_errno);
    }
    return 0;
}
