/* policy_order.h: the one partial order over policies: request <= policy <= site.
 *
 * a <= b ("a is at most b") when everything that a sandbox under `a` can do, one under `b` can do as well:
 * fewer files writable, calls, capabilities, destinations, secrets; smaller limits; more refusals and more
 * required labels. It is used for requests, for bundles, for the site's file and by `policy diff`. Rules:
 * docs/policy.md "The order".
 */
#pragma once

#include "base/findings.h"
#include "policy/policy.h"

/* Whether `inner` <= `outer`. Each field in which it isn't is one finding of kind REFUSED whose pointer is
 * the field's JSON pointer, whose message names both values, and whose hint says which line of `outer` sets
 * the ceiling. */
bool pin_policy_narrower(const struct pin_policy *inner, const struct pin_policy *outer,
                         struct pin_findings *found);
