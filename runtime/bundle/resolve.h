/* resolve.h: from a policy and a request to the bundle that will be built.
 *
 * Pure: no file is read and no system call made, so that it costs microseconds on the way of every run. The
 * policy is the effective one, from pin_request_narrow(): nothing is judged here any more, except what has no
 * filter. Source: docs/bundle.md "What a run resolves to".
 */
#pragma once

#include "images/rootfs.h"
#include "runtime/bundle/request.h"

/* The bundle, which the caller frees; NULL with findings. Strings are copied into the bundle; `rootfs` is
 * borrowed and must outlive it. */
struct pin_bundle *pin_resolve(const struct pin_policy *effective, const struct pin_request *request,
                               const struct pin_rootfs *rootfs, struct pin_findings *found);

/* What a sandbox is called inside unless the request says otherwise. */
#define PIN_DEFAULT_HOSTNAME "pinfold"
