/* spec.h: which filter a program was made from, as a digest.
 *
 * Equal digests mean equal programs: it covers the filter, the architecture, our tables and format, and the
 * version of libseccomp. The rules must be in pin_filter_sort()'s order for equal filters to be equal.
 */
#pragma once

#include "base/sha256.h"
#include "policy/filter.h"

bool pin_filter_spec(const struct pin_filter *filter, uint8_t digest[PIN_SHA256_SIZE]);
