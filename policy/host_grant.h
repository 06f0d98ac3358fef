/* host_grant.h: patterns of hosts that a rule may grant.
 *
 * As host_name.h has them, but no wildcard over a public suffix: anybody can have a name below one. Apart
 * from host_name.h because of the list, which the broker has no need of. Pure. Source: publicsuffix.org, by
 * libpsl.
 */
#pragma once

#include "policy/host_name.h"

bool pin_host_grant(const char *text, char to[PIN_HOST_MAX + 2], struct pin_error *err);
