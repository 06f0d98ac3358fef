/* host_name.h: names of hosts in their one canonical form, and patterns over them.
 *
 * Canonical: lower case, ASCII (internationalised labels as A-labels), labels of 1 to 63 letters, digits, '-'
 * and '_' that neither start nor end with '-', at most 253 characters, no trailing dot, and not an address:
 * a last label that is a number is how resolvers recognise one. A pattern is a name or "*." and a name; it
 * matches one or more labels under that name and never the name itself. Pure. Source: RFC 1123 2.1, RFC 5890
 * 2.3.2.1, docs/policy.md "network.egress".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* The one name that stands for the host's own loopback; only a rule that spells it out grants it. */
#define PIN_HOST_INTERNAL "host.pinfold.internal"

#define PIN_HOST_MAX 254          /* with the zero byte */
#define PIN_HOST_WRITTEN_MAX 1024 /* of what a person may write for one, in bytes of UTF-8 */

/* The canonical form of a name as it comes over the wire, in `to`. Upper case is folded and one trailing dot
 * dropped; all else that isn't canonical is an error. */
bool pin_host_name(const char *text, size_t size, char to[PIN_HOST_MAX], struct pin_error *err);

/* As above, of what a person wrote: internationalised labels may stand in Unicode, and become A-labels as in
 * browsers. Source: UTS #46, non-transitional, by libidn2; so what IDNA 2008 doesn't know, as emoji, is
 * refused (its A-label isn't). */
bool pin_host_written(const char *text, size_t size, char to[PIN_HOST_MAX], struct pin_error *err);

/* As pin_host_written(), and a leading "*." may stand. `to` then has room for it too. */
bool pin_host_pattern(const char *text, char to[PIN_HOST_MAX + 2], struct pin_error *err);

/* Both canonical. "*" matches every name: only a site's ceiling has it. */
bool pin_host_match(const char *pattern, const char *name);

/* Whether all names that `inner` matches are matched by `outer`. */
bool pin_host_covers(const char *outer, const char *inner);

/* Says that a text is none, and why; `hint` may be NULL. Returns false. */
bool pin_host_refuse(const char *text, size_t size, const char *why, const char *hint, struct pin_error *err);
#define PIN_HOST_ASCII_HINT "write it in its A-label form, \"xn--...\""
