/* policy_load.h: from the bytes of a file to a sealed policy: what policy_read.h and site.h stand on. */
#pragma once

#include "policy/policy.h"
#include "policy/policy_file.h"

/* NULL with findings on failure. A site's file starts from all there is, and extends nothing. */
struct pin_policy *pin_policy_load_file(const struct pin_policy_file *file, bool site,
                                        struct pin_findings *found);
