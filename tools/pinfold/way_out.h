/* way_out.h: what the broker of a bundle is told: its rules, and the upstream proxy with the login that a
 * secret holds.
 */
#pragma once

#include "runtime/bundle/bundle.h"
#include "runtime/egress/rules_blob.h"
#include "runtime/secrets/secrets.h"

/* Fills in the setup, which borrows from the bundle and from `login`; the caller frees that one, on failure
 * too, once the broker has started. */
bool pin_way_out_find(const struct pin_bundle_ext *ext, struct pin_egress_setup *setup,
                      struct pin_secrets *login, struct pin_error *err);
