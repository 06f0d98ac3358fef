/* bundle_annotations.h: what an engine's bundle asks of pinfold by annotations.
 *
 * io.pinfold.policy is the name of an installed policy; io.pinfold.egress, io.pinfold.secrets and
 * io.pinfold.labels are JSON, as in the "pinfold" block; egress may be a list of "HOST:PORT" (or a range, or
 * with
 * "/udp"), parted by blanks. They ask, and the policy grants. A bundle that has
 * the block may not have them as well. Source: docs/bundle.md "Annotations".
 */
#pragma once

#include "base/findings.h"
#include "runtime/bundle/bundle.h"

#define PIN_ANNOTATION_BYTES_MAX ((size_t)64 * 1024)

/* Reads them into bundle->ext; an unknown name that begins with "io.pinfold." is a finding. */
void pin_bundle_read_annotations(struct pin_bundle *bundle, struct pin_findings *found);
