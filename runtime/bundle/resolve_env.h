/* resolve_env.h: the environment of a run, layer upon layer.
 *
 * Lowest first: TERM where there is a terminal, the request's `env_under`, the policy's `set`, the host names
 * that the policy passes, the request's. A name that matches `refuse` is never in it, wherever it comes from.
 * The order of the result is that of first mention. Source: docs/bundle.md "Environment".
 */
#pragma once

#include "runtime/bundle/request.h"

/* Fills process.env of the bundle, in its arena. */
void pin_resolve_env(struct pin_bundle *bundle, const struct pin_policy *policy,
                     const struct pin_request *request);

/* Puts the request's variables over those that a bundle brings. */
void pin_override_env(struct pin_bundle *bundle, const struct pin_policy *policy,
                      const struct pin_request *request);
