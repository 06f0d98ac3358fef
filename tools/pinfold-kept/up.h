/* up.h: makes a sandbox that stays, with a supervisor of its own in the background. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "runtime/kept/serve.h"
#include "tools/pinfold/front.h"

struct pin_up_settings {
    const char *name;
    uint64_t idle_ns;                     /* PIN_UNLIMITED: none */
    const char *fingerprint;              /* NULL: the bundle's */
    const struct pin_kept_runner *runner; /* NULL: none; `scratch` is found here, from the plan */
};

/* After pin_front_plan(). True when clients can connect. The front is still the caller's. */
bool pin_up_start(struct pin_front *front, const struct pin_up_settings *settings, struct pin_error *err);

/* Whether what one call leaves in such a sandbox can be kept from the next one; an error of kind UNSUPPORTED
 * says why not. */
bool pin_up_can_share(const struct pin_front *front, struct pin_error *err);
