/* memory_account.h: memory times time, from samples: what a sample says holds until the next one.
 *
 * The first second is sampled more often than the hours after: the interval doubles, up to a second.
 */
#pragma once

#include <stdint.h>

#include "base/units.h"

#define PIN_MEMORY_SAMPLE_FIRST_NS (10 * PIN_NS_PER_MS)
#define PIN_MEMORY_SAMPLE_LAST_NS PIN_NS_PER_S

struct pin_memory_account { /* zeroed, with `at_ns` of its begin */
    uint64_t at_ns, held_bytes, interval_ns;
    uint64_t byte_ms, rest_ns; /* `rest_ns`: time that isn't a whole millisecond yet */
};

static inline void pin_memory_account_add(struct pin_memory_account *account, uint64_t now_ns,
                                          uint64_t held_bytes) {
    uint64_t elapsed_ns = now_ns - account->at_ns + account->rest_ns;
    account->byte_ms += account->held_bytes * (elapsed_ns / PIN_NS_PER_MS);
    account->rest_ns = elapsed_ns % PIN_NS_PER_MS;
    account->at_ns = now_ns;
    account->held_bytes = held_bytes;
}

/* When the next one is due. */
static inline uint64_t pin_memory_account_next(struct pin_memory_account *account) {
    uint64_t interval_ns = account->interval_ns == 0 ? PIN_MEMORY_SAMPLE_FIRST_NS : 2 * account->interval_ns;
    account->interval_ns = interval_ns > PIN_MEMORY_SAMPLE_LAST_NS ? PIN_MEMORY_SAMPLE_LAST_NS : interval_ns;
    return account->at_ns + account->interval_ns;
}
