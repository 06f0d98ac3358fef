/* packet.h: what a runner reads, in a file of memory alone: it holds the tool's arguments. */
#pragma once

#include <jansson.h>

#include "base/error.h"
#include "runtime/tool/request.h"
#include "runtime/tool/result.h"
#include "tools/pinfold-tool/runners.h"

/* With what the runner of that mode wants before it. Draws the call's key. -1 on failure. */
int pin_packet_make(const struct pin_tool_request *request, enum pin_runner_mode mode, const json_t *env,
                    char key[PIN_TOOL_KEY_TEXT], struct pin_error *err);
