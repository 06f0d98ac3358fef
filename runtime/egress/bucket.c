#include "runtime/egress/bucket.h"

#include "base/units.h"

uint64_t pin_bucket_level(struct pin_bucket *bucket, uint64_t now_ns) {
    if (bucket->per_second == 0)
        return UINT64_MAX;
    if (!bucket->started) {
        bucket->started = true;
        bucket->level = bucket->burst;
        bucket->at_ns = now_ns;
    }
    uint64_t ns_per_one = PIN_NS_PER_S / bucket->per_second;
    uint64_t passed = now_ns > bucket->at_ns ? now_ns - bucket->at_ns : 0;
    /* Above 10^9 a second the step is below a nanosecond: each nanosecond then brings what it is worth. */
    uint64_t gained = ns_per_one > 0 ? passed / ns_per_one : passed * (bucket->per_second / PIN_NS_PER_S);
    if (gained == 0)
        return bucket->level;
    bucket->at_ns += ns_per_one > 0 ? gained * ns_per_one : passed;
    bucket->level = gained >= bucket->burst - bucket->level ? bucket->burst : bucket->level + gained;
    return bucket->level;
}

bool pin_bucket_take(struct pin_bucket *bucket, uint64_t now_ns, uint64_t amount) {
    uint64_t level = pin_bucket_level(bucket, now_ns);
    if (level < amount)
        return false;
    if (bucket->per_second != 0)
        bucket->level -= amount;
    return true;
}
