/* rules_blob.h: the rules of a sandbox as one sealed file, from the supervisor to its broker.
 *
 * The writer refuses what the reader would; the reader trusts nothing, checks every bound, and leaves the
 * rules in the arena. The order of the rules is kept: an event names a rule by its number.
 */
#pragma once

#include "base/error.h"
#include "policy/egress_judge.h"

#define PIN_RULES_BLOB_MAX (1024u * 1024)
#define PIN_RULES_MAX 1024 /* of either list */

struct pin_egress_limits { /* of one sandbox; 0: none */
    uint64_t connections_at_once, connections_total;
    uint64_t bytes_out, bytes_in;
    uint64_t bytes_per_second; /* both ways together */
    uint64_t idle_ns, lifetime_ns;
    uint64_t names_total, names_per_second; /* below wildcards: a question carries data */
};
/* What a sandbox gets when nobody says otherwise. */
struct pin_egress_limits pin_egress_default_limits(void);

/* A sealed memfd, close-on-exec; -1 on failure. */
int pin_rules_blob_write(const struct pin_egress_rules *rules, const struct pin_egress_limits *limits,
                         struct pin_error *err);

bool pin_rules_blob_read(const uint8_t *data, size_t size, struct pin_arena *arena,
                         struct pin_egress_rules *rules, struct pin_egress_limits *limits,
                         struct pin_error *err);
