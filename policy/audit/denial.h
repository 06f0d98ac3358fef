/* denial.h: the answer of `policy why` to what was denied while a sandbox ran.
 *
 * The object is the one that `policy why --json` prints, from the same function. Where the policy alone would
 * have allowed it and something else stood in the way (a budget, a name in a TLS hello, a time that the
 * request set itself), it keeps its form: the verdict is "deny", the reason says what did, and there is no
 * edit. What can't be asked about (a name that is none) has that form, too. Pure. The caller owns each
 * object; NULL: there is nothing to tell, or memory is out.
 */
#pragma once

#include <jansson.h>

#include "policy/filter.h"
#include "policy/policy.h"

/* Arguments that no rule looks at are asked about as 0. `looked_at`: set of the others. */
json_t *pin_denial_of_call(const struct pin_policy *policy, const char *name,
                           const uint64_t args[PIN_FILTER_ARGS_MAX], uint8_t looked_at);

struct pin_denied_connection {
    const char *host;    /* NULL: a literal address */
    const char *address; /* NULL: not known */
    unsigned port;       /* 0: the name alone was asked for, and the question is about 443 */
    bool udp;
    const char *reason; /* what refused it, in the broker's word: "budget" */
};
json_t *pin_denial_of_connection(const struct pin_policy *policy, const struct pin_denied_connection *what);

/* `limit` and `value` as in `why limit NAME VALUE`; the value is more than what there was. */
json_t *pin_denial_of_limit(const struct pin_policy *policy, const char *limit, const char *value,
                            const char *otherwise);

/* Of a question in words; NULL where the policy allows it, too. */
json_t *pin_denial_of(const struct pin_policy *policy, const char *question);
