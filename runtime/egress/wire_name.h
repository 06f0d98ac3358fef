/* wire_name.h: names from inside the sandbox (DNS questions, TLS hellos, HTTP hosts) in canonical form.
 *
 * As pin_host_name(), for counted bytes that may hold anything, and without a text for the fault: the log
 * shows the escaped bytes. Pure.
 */
#pragma once

#include "policy/host_name.h"

bool pin_wire_name(char to[PIN_HOST_MAX], const void *bytes, size_t size);
