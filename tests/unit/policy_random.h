/* policy_random.h: random policies from small pools, so that any two of them often overlap.
 *
 * The same seed gives the same policies: a failure names its seed.
 */
#pragma once

#include <stdint.h>

#include "policy/policy.h"

struct random {
    uint64_t state; /* not 0 */
};
uint32_t random_below(struct random *random, uint32_t limit);

/* The text of a policy, or of a site's file, in `to`. Each field stands in it with `percent` in a hundred. */
#define RANDOM_POLICY_TEXT 8192
char *random_policy_text(struct random *random, unsigned percent, char to[RANDOM_POLICY_TEXT]);

/* A policy that stands; the caller frees it. */
struct pin_policy *random_policy(struct random *random, unsigned percent);

/* A destination as the text of an egress rule. */
#define RANDOM_DESTINATION_TEXT 192
char *random_destination(struct random *random, char to[RANDOM_DESTINATION_TEXT]);
