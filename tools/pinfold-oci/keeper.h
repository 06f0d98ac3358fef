/* keeper.h: what stays beside a container that has egress, or whose end is recorded.
 *
 * A process of its own session, without any descriptor of the engine's, from `create` until the container's
 * process has ended: it starts the broker, writes what the broker tells into the audit log, and the
 * container's end. Should it die, the broker ends with it and the container's network closes. Where an event
 * of the network can't be recorded, the broker is ended, too: nothing leaves that isn't in the log.
 */
#pragma once

#include "runtime/egress/inside.h"
#include "tools/pinfold-oci/audit.h"

struct pin_oci_keeping {
    const char *id;
    const struct pin_bundle *bundle;
    const struct pin_policy *policy;
    int process;                        /* pidfd of the container's process; borrowed */
    struct pin_egress_sockets *sockets; /* closed here in any case; all -1: no egress */
};

/* Does nothing where there is nothing to keep. Returns when the broker runs. */
bool pin_oci_keeper_start(const struct pin_oci_keeping *keeping, struct pin_error *err);
