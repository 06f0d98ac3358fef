/* runners.h: the programs of ours that run inside, for each language; this program carries them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "runtime/tool/request.h"

enum pin_runner_mode {
    PIN_RUNNER_COLD,  /* reads its call from standard input */
    PIN_RUNNER_AHEAD, /* the same, and says when all is loaded */
    PIN_RUNNER_FORKS, /* answers each call with a fork of itself */
    PIN_RUNNER_MODE_COUNT
};

/* The command line; ends with NULL. NULL where the language has no such runner. */
char **pin_runner_argv(enum pin_tool_language language, enum pin_runner_mode mode, struct pin_arena *arena,
                       size_t *count);
/* "python3": languages with the same one can use the same sandboxes. */
const char *pin_runner_name(enum pin_tool_language language);
/* Of all that this program carries: a sandbox that waits with others is of another release. */
const char *pin_runners_digest(void);
/* Writes what goes before a call's packet: the code of a cold one's runner; of others, that there is none. */
bool pin_runner_preface(enum pin_tool_language language, enum pin_runner_mode mode, int to,
                        struct pin_error *err);
