/* settle.h: what engines' filters say twice, said once.
 *
 * The profiles of engines name calls in several rules, repeat the default, and contradict themselves;
 * libseccomp takes the rule that comes first. Here the strictest counts, so that no filter becomes wider by
 * it. What remains contradictory is refused by name when the filter is made.
 */
#pragma once

#include "policy/filter.h"

void pin_oci_settle_filter(struct pin_filter *filter);
