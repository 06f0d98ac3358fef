/* bundle_places.h: which line of which file gave what.
 *
 * A denial at run time names the rule that denies, as `pinfold policy why` would. The places grant nothing:
 * the fingerprint leaves them out, and a bundle's own word for them is only ever shown.
 */
#pragma once

#include "runtime/bundle/bundle.h"

/* The places of the fields that deny at run time: limits, the list of destinations, what refused calls get.
 */
void pin_fill_places(struct pin_bundle *bundle, const struct pin_policy *policy);

/* "file:line:column", or NULL where the bundle doesn't say. */
const char *pin_bundle_place(const struct pin_bundle_ext *ext, enum pin_field field);
