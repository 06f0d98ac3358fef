/* verbs.h: the verbs of `pinfold tool`. */
#pragma once

#include "tools/pinfold/options.h"

extern const struct pin_verb pin_tool_verb_call, pin_tool_verb_prepare, pin_tool_verb_serve,
    pin_tool_verb_pool_show, pin_tool_verb_pool_set, pin_tool_verb_pool_clear;
