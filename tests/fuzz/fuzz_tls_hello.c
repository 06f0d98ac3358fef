/* A hello that was whole stays whole and the same when more comes; one that was cut is never whole. */
#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "runtime/egress/tls_hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_tls_hello whole, part;
    enum pin_tls_reading reading = pin_tls_read_hello(data, size, &whole);
    assert(whole.name_size < sizeof(whole.name));
    for (size_t cut = 0; cut < size; cut += size / 16 + 1) {
        enum pin_tls_reading earlier = pin_tls_read_hello(data, cut, &part);
        if (earlier == PIN_TLS_MORE)
            continue;
        assert(earlier == reading);
        if (earlier == PIN_TLS_WHOLE)
            assert(part.hidden == whole.hidden && part.name_size == whole.name_size &&
                   memcmp(part.name, whole.name, whole.name_size) == 0);
    }
    return 0;
}
