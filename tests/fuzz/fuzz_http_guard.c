/* Where the reads end doesn't matter: the same bytes pass, or the same verdict comes, however they were cut.
 */
#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "runtime/egress/http_guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    enum pin_http_reading reading;
    size_t passed;
    uint64_t requests;
};

static struct outcome feed(const uint8_t *data, size_t size, size_t step) {
    struct pin_http_guard guard = {.host = "api.example.com", .port = 80};
    struct outcome outcome = {.reading = PIN_HTTP_PASS};
    for (size_t end = step < size ? step : size; outcome.reading == PIN_HTTP_PASS; end += step) {
        size_t passed, have = end < size ? end : size;
        outcome.reading = pin_http_read(&guard, data + outcome.passed, have - outcome.passed, &passed);
        assert(passed <= have - outcome.passed);
        outcome.passed += passed;
        if (end >= size)
            break;
    }
    outcome.requests = guard.requests;
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct outcome whole = feed(data, size, size + 1), cut = feed(data, size, 7);
    assert(whole.reading == cut.reading && whole.passed == cut.passed && whole.requests == cut.requests);
    return 0;
}
