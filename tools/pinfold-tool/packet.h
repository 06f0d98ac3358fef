/* packet.h: what a runner reads, in a file of memory alone: it holds the tool's arguments. */
#pragma once

#include <jansson.h>

#include "base/error.h"
#include "runtime/tool/request.h"
#include "runtime/tool/result.h"

/* `preface` (NULL: none) goes before it, with its zero byte. Draws the call's key. -1 on failure. */
int pin_packet_make(const struct pin_tool_request *request, const char *preface, const json_t *env,
                    char key[PIN_TOOL_KEY_TEXT], struct pin_error *err);
