/* usage.h: what a sandbox has used of the network: the "egress" of a result, and of a container's end. */
#pragma once

#include <stdint.h>

struct pin_egress_usage {
    uint64_t allowed, denied, bytes_out, bytes_in, undelivered;
    uint64_t cpu_ns; /* of the broker, outside the sandbox's own; 0: there was none */
};

/* "undelivered" and "cpu_ms" only where there is some; the caller owns it. */
struct json_t;
struct json_t *pin_egress_usage_json(const struct pin_egress_usage *usage);
