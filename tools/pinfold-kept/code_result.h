/* code_result.h: what came of a cell, from the result of the command that brought it to its context;
 * docs/code.md.
 *
 * Pure. The context's message is hostile: the supervisor has read it as JSON within its bounds; here it
 * counts only with the cell's key in it, and only what its fields may hold is taken over.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct pin_code_outcome {
    json_t *object; /* as --json prints it; the caller releases it */
    int exit_code;
    bool lost;  /* the context hasn't answered, and must not be asked again */
    bool ended; /* it went away during the cell */
};

struct pin_code_outcome pin_code_result(const json_t *result, const char *key);
/* It went away because its memory had run out. */
void pin_code_say_memory(struct pin_code_outcome *outcome);
