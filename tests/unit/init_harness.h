/* init_harness.h: a sandbox with no walls but a pid namespace, for tests of init and of the supervisor.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct bare_sandbox {
    pid_t init;
    int pidfd, control;
};

#define BARE_SANDBOX_ID 65534 /* who everything inside runs as, when the test runs as root */

/* Makes one with the real init as PID 1; fails the test where the host forbids it. */
void bare_sandbox_start(struct bare_sandbox *sandbox);

/* The same, with `inside` in the place of init: it has the control socket as descriptor 3. */
void bare_sandbox_start_fake(struct bare_sandbox *sandbox, void (*inside)(void));

/* Ends what is left of it. Fine after pin_supervise() has reaped init. */
void bare_sandbox_end(struct bare_sandbox *sandbox);

/* Whether the number of a process that has ended is free. */
bool is_gone(pid_t pid);
