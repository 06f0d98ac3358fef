/* network.h: the network namespace of a sandbox, which takes the kernel longer than all others together: a
 * thread of the set-up child makes it while the child assembles the root.
 *
 * The thread has the child's capabilities in the new user namespace, makes the namespace there, raises the
 * loopback and ends; pin_network_enter() waits for it and takes the child in. Until then the child is in the
 * caller's network: what shows the network it is mounted in can't be mounted before. Runs in the child; only
 * system calls.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/side.h"
#include "runtime/plan/plan.h"

struct pin_network {
    struct pin_side side;
    bool raises_loopback;
    long made; /* a descriptor of the namespace, or a negated error number */
};

/* Whether the plan lets it be made beside the rest: it has one, and shows none before the child is in it. */
bool pin_network_is_apart(const struct pin_plan *plan);

/* `network` lives until pin_network_enter(), and lies in memory that starts as zeros. */
void pin_network_start(struct pin_network *network, bool raises_loopback);
bool pin_network_enter(struct pin_network *network, struct pin_error *err);

/* Of the namespace that the caller is in. */
bool pin_network_raise_loopback(struct pin_error *err);
