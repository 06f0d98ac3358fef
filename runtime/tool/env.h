/* env.h: the environment of a tool call, above and below what the policy says.
 *
 * Pure. Lowest first: the runner's own settings (`under`); the policy's `set` and the names that it passes
 * (runtime/bundle/resolve_env.h); the stored configuration's; the request's layers sandbox, agent, call;
 * LETTA_*_ID, which are always the request's: without an id the name is taken away. A null takes the name
 * away from every layer below it. A sealed value that no higher layer covers is "" here, and among `sealed`:
 * the caller opens it, and puts it over. Source: docs/tool.md "Environment".
 */
#pragma once

#include "base/arena.h"
#include "runtime/bundle/bundle.h"
#include "runtime/tool/config.h"
#include "runtime/tool/request.h"

struct pin_tool_env {
    const struct pin_pair *under, *over; /* each name once in `over`; a NULL value takes it away */
    size_t under_count, over_count;
    const struct pin_tool_variable *const *sealed; /* the configuration's */
    size_t sealed_count;
};

/* Lists in the arena, whose strings are the request's and the configuration's. */
void pin_tool_env(const struct pin_tool_request *request, const struct pin_tool_config *config,
                  struct pin_arena *arena, struct pin_tool_env *env);
