/* result.h: what came of a tool call, from the result of its run; tools/schema/tool-result.schema.json.
 *
 * Pure. The runner's message (the result frame's payload) is hostile: it is parsed with bounds, and counts
 * only with the call's key in it, which the runner got on its stdin and which stands in no environment.
 */
#pragma once

#include <jansson.h>

#include "runtime/supervise/result.h"

#define PIN_TOOL_KEY_TEXT 33 /* 16 random bytes in hex, and the end */

/* The object: status, func_return, agent_state, stdout, stderr, sandbox_config_fingerprint, usage, notes; the
 * caller releases it. `*exit_code` is that of the command line. NULL when memory is out. */
json_t *pin_tool_result_json(const struct pin_result *result, const char *key, int *exit_code);
