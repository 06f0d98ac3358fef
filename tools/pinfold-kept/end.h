/* end.h: how a kept sandbox is ended, whatever its supervisor does.
 */
#pragma once

#include "tools/pinfold-kept/client.h"

/* Asks the supervisor to kill the sandbox. One that has no room for the question, doesn't hear it or has been
 * stopped is told by a signal; one that doesn't begin to end then is killed, and what it leaves is cleared.
 * BUSY while the sandbox is being made and can't be asked yet. */
bool pin_end_kill(const char *name, struct pin_error *err);

/* The same for one that has been waited for long enough: there is no question before the signal. */
bool pin_end_force(const char *name, struct pin_error *err);

/* Whether nobody could be asked, which is the error, because it ends already; then there is none any more. */
bool pin_end_is_under_way(const struct pin_client *client, struct pin_error *err);

/* Until nobody holds its lock; BUSY after ten seconds. */
bool pin_end_await(const struct pin_client *client, struct pin_error *err);
