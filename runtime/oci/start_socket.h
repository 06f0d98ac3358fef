/* start_socket.h: how a created container waits, and how it is told to start.
 *
 * The container's process listens; whoever connects and sends a byte starts it, and learns on the same
 * connection what failed until its execution closes it. Nobody listens any more from the first start on, so
 * that of two starts one is refused.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

#define PIN_START_SOCKET "start"

/* Makes the socket in the container's directory; the caller closes it. -1 on failure. */
int pin_start_socket_listen(int dir, struct pin_error *err);

bool pin_start_socket_is_waiting(int dir);

/* Starts the container, and waits until its process is executed. BUSY when nobody waits. */
bool pin_start_socket_start(int dir, struct pin_error *err);

/* Connects to the socket of an engine that takes a terminal, which has two seconds for it; the caller closes
 * it. -1 on failure. */
int pin_console_connect(const char *path, struct pin_error *err);
