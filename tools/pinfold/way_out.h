/* way_out.h: the upstream proxy of a bundle, with the login that a secret holds.
 */
#pragma once

#include "runtime/bundle/bundle.h"
#include "runtime/egress/rules_blob.h"
#include "runtime/secrets/secrets.h"

/* Fills in the setup's proxy; its login is in `login`, which the caller frees once the broker has started. */
bool pin_way_out_find(const struct pin_bundle_ext *ext, struct pin_egress_setup *setup,
                      struct pin_secrets *login, struct pin_error *err);
