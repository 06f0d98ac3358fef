/* settle.h: what engines' filters say twice, said once.
 *
 * The profiles of engines name calls in several rules, repeat the default, and contradict themselves;
 * libseccomp takes the rule that comes first. Here the strictest counts, so that no filter becomes wider by
 * it. What remains contradictory is refused by name when the filter is made.
 * A rule for a call that is known here to nobody, of a kernel to come, is left out where the default is as
 * strict or stricter: the call then stays what it is without the rule. Where it isn't, the rule stays, and
 * making the filter fails.
 */
#pragma once

#include "policy/filter.h"

/* The names of calls whose rules were left out, with spaces between them; "" where there are none. */
#define PIN_OCI_LEFT_OUT 512
void pin_oci_settle_filter(struct pin_filter *filter, char left_out[PIN_OCI_LEFT_OUT]);
