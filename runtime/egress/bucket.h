/* bucket.h: a rate with a burst. Pure; the caller brings the time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pin_bucket {
    uint64_t per_second, burst; /* per_second 0: no limit */
    uint64_t level;             /* what may be taken now */
    uint64_t at_ns;
    bool started;
};

/* Brings the level up to now and returns it; UINT64_MAX without a limit. */
uint64_t pin_bucket_level(struct pin_bucket *bucket, uint64_t now_ns);
/* Takes `amount` if there is that much. */
bool pin_bucket_take(struct pin_bucket *bucket, uint64_t now_ns, uint64_t amount);
