/* capabilities.h: what the calling thread itself may, sets of UINT64_C(1) << CAP_*; see capabilities(7).
 *
 * Raw capget(2): libcap's state would be made for a few bits, and the set-up child may not allocate.
 */
#pragma once

#include <stdint.h>

struct pin_own_capabilities {
    uint64_t effective, permitted;
};

/* Nothing where they can't be read. */
struct pin_own_capabilities pin_own_capabilities(void);
