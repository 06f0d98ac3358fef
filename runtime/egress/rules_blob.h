/* rules_blob.h: the rules of a sandbox as one sealed file, from the supervisor to its broker.
 *
 * The writer refuses what the reader would; the reader trusts nothing, checks every bound, and leaves the
 * rules in the arena. The order of the rules is kept: an event names a rule by its number.
 */
#pragma once

#include "base/error.h"
#include "policy/egress_judge.h"
#include "policy/proxy.h"

#define PIN_RULES_BLOB_MAX (1024u * 1024)
#define PIN_RULES_MAX 1024 /* of either list */

#define PIN_BUDGETS_MAX 256

struct pin_egress_setup {          /* all that a broker is told; borrows everything */
    struct pin_egress_rules rules; /* budgets of theirs lie in `budgets` */
    const struct pin_egress_budget *budgets;
    size_t budget_count;
    struct pin_egress_limits limits; /* of the whole sandbox */
    enum pin_unknown_names unknown_names;
    struct pin_proxy proxy;  /* PIN_PROXY_NONE: none */
    const char *proxy_login; /* "USER:PASSWORD"; "" or NULL: none */
};

/* A sealed memfd, close-on-exec; -1 on failure. */
int pin_rules_blob_write(const struct pin_egress_setup *setup, struct pin_error *err);

bool pin_rules_blob_read(const uint8_t *data, size_t size, struct pin_arena *arena,
                         struct pin_egress_setup *setup, struct pin_error *err);
