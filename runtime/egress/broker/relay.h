/* relay.h: moving bytes between the two sides of a connection, and looking at the first ones. Part of conn.h.
 */
#pragma once

#include "runtime/egress/broker/conn.h"

#define RELAY_CHUNK_FIRST (64u * 1024)
#define RELAY_PENDING_MAX (32u * 1024 * 1024) /* of all connections; beyond it, reads are small */

/* Both sides are connected: starts, with what either has sent already. May end the connection. */
void relay_start(struct conn *conn);
/* Sets what each side waits for. */
void relay_update(struct conn *conn);
