/* shield.h: what calls that share a sandbox are denied besides, so that none reaches the process that the
 * next one is forked from. Only ever takes away; docs/tool.md "Warm calls". */
#pragma once

#include "policy/policy.h"

void pin_shield(struct pin_policy *policy);
