/* warm_wait.h: what a call waits for, at a supervisor that may stand still.
 *
 * A supervisor that answers nobody and one whose sandbox was frozen on purpose, by `cp`, `commit` or `pause`,
 * are silent alike where a call is waited for: the second is asked on another connection, and answers.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "tools/pinfold-kept/client.h"

/* The next message, as pin_client_receive() has it. Within `ns` (0: for ever), and then within as long once
 * more, if the supervisor answers; for as long as the sandbox is frozen that time doesn't begin. After it the
 * call is EXHAUSTED, and client->is_silent. */
json_t *pin_warm_await(struct pin_client *client, uint64_t ns, struct pin_error *err);
