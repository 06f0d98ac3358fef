/* warm.h: calls in sandboxes that are there already.
 *
 * Two kinds, both kept sandboxes (runtime/kept) with a runner that waits: those that stay, named
 * warm-C-R-F-N, where C and R are of the stored configuration (family.h) and F of the sandbox's fingerprint,
 * and a call is answered by a fork; and those that were started ahead, named ahead-C-R-F-N, where F is the
 * pool's and the first call is the last. A call takes one that is idle, or none: then the caller runs it
 * cold, and starts what is missing afterwards. Nothing here waits for a sandbox to be built. Source:
 * docs/tool.md "Warm calls".
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "runtime/tool/fingerprint.h"
#include "runtime/tool/request.h"
#include "tools/pinfold-tool/deps.h"
#include "tools/pinfold-tool/family.h"
#include "tools/pinfold-tool/pool.h"
#include "tools/pinfold/front.h"

struct pin_warm { /* borrowed but for what is below the line */
    const struct pin_tool_request *request;
    const struct pin_front_options *options;
    const struct pin_front *front; /* of the call, with its bundle */
    const struct pin_tool_shape *shape;
    const struct pin_tool_config *stored;
    const struct pin_tool_env *env; /* its sealed values go to a sandbox that ends with the call */
    bool receipt;                   /* the call wants a receipt: it can't share */
    bool may_hand; /* this process ends with the call: it may find the secrets that '--secret' names */
    const struct pin_call_deps *deps; /* a sandbox that is started inherits its locks */
    void *self;
    void (*connected)(void *self, int socket); /* before a call is sent to it; NULL: nobody wants to know */

    struct pin_arena *arena;
    int state_dir; /* -1: not opened yet */
    struct pin_pool_settings settings;
    enum pin_tool_scope scope;
    char fingerprint[PIN_DIGEST_TEXT];
    struct pin_family family;
    char prefix[48]; /* of the sandboxes' names */
};

enum pin_warm_end {
    PIN_WARM_ANSWERED,
    PIN_WARM_NONE,   /* none is idle: run it cold, and then top up */
    PIN_WARM_CANNOT, /* such a call can't share: run it cold; the error says why */
    PIN_WARM_FAILED, /* it may have run: the error says what happened */
};

/* The call's kind is request->reuse, which isn't COLD. Finds the fingerprint, opens the state directory.
 * NONE: go on with the call. */
enum pin_warm_end pin_warm_begin(struct pin_warm *warm, struct pin_error *err);
/* Of kind UNSUPPORTED where interpreters read it ("NAME" or "NAME=…") when they start: one that is there
 * already would never see it. */
bool pin_warm_check_variable(const char *variable, struct pin_error *err);
void pin_warm_free(struct pin_warm *warm);
enum pin_warm_end pin_warm_call(struct pin_warm *warm, json_t **result, int *exit_code,
                                struct pin_error *err);
/* Whether what was found shows that something has to be started. */
bool pin_warm_wants_more(const struct pin_warm *warm, enum pin_warm_end end);
/* Starts what the next call of the same kind will want, within the pool's bounds, and nothing a second time.
 * True when there is nothing left to start; with `wait`, when nobody else is starting one any more either. */
bool pin_warm_top_up(struct pin_warm *warm, bool wait, struct pin_error *err);
/* The same in a process of its own, which the caller doesn't wait for. */
void pin_warm_top_up_behind(struct pin_warm *warm);
