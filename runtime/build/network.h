/* network.h: the network namespace of a sandbox: nothing is in it but a loopback that is up. Only system
 * calls.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* In the namespace that the caller is in. */
bool pin_network_raise_loopback(struct pin_error *err);

/* The same by bare system calls (base/side.h): 0, or a negated error number. */
long pin_network_raise(void);
