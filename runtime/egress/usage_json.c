#include <jansson.h>

#include "base/units.h"
#include "runtime/egress/usage.h"

static json_t *some(uint64_t value, uint64_t unit) {
    return value > 0 ? json_integer((json_int_t)((value + unit / 2) / unit)) : NULL;
}

json_t *pin_egress_usage_json(const struct pin_egress_usage *usage) {
    return json_pack("{s:I, s:I, s:I, s:I, s:o*, s:o*}", "allowed", (json_int_t)usage->allowed, "denied",
                     (json_int_t)usage->denied, "bytes_out", (json_int_t)usage->bytes_out, "bytes_in",
                     (json_int_t)usage->bytes_in, "undelivered", some(usage->undelivered, 1), "cpu_ms",
                     some(usage->cpu_ns, PIN_NS_PER_MS));
}
