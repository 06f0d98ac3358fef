/* family.h: whose sandboxes a change of a stored configuration makes useless.
 *
 * Pure. A family is the calls of one language and one stored configuration (or of none); its revision changes
 * with anything that is stored in it, and with the runners of a release. What waits for calls has both in its
 * name. Source: docs/tool.md "Warm calls".
 */
#pragma once

#include "runtime/tool/config.h"

#define PIN_FAMILY_DIGITS 8

struct pin_family { /* hexadecimal */
    char family[PIN_FAMILY_DIGITS + 1], revision[PIN_FAMILY_DIGITS + 1];
};

/* `language`: the runner's. False only where memory is out. */
bool pin_family_of(const struct pin_tool_config *stored, const char *language, struct pin_family *family);
