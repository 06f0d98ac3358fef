/* channel.h: the builder's use of the control socket, before init is there: see runtime/init/protocol.h.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "runtime/egress/inside.h"
#include "runtime/init/protocol.h"

#define PIN_CHANNEL_FDS_MAX 16

/* The parent's side: one byte, with descriptors that the child gets copies of. */
bool pin_channel_sync(int control, enum pin_sync sync, const int *fds, int count, struct pin_error *err);
/* The parent's side: waits for the message PIN_INIT_CHANGES; the caller closes *changes. A message that the
 * build failed becomes the error. */
bool pin_channel_take_changes(int control, int *changes, struct pin_error *err);

/* The same of a root from layers: PIN_INIT_UPPER. */
bool pin_channel_take_upper(int control, int *upper, struct pin_error *err);

/* The parent's side: waits for PIN_INIT_EGRESS; the caller closes the sockets. */
bool pin_channel_take_egress(int control, struct pin_egress_sockets *sockets, struct pin_error *err);

/* The parent's side: waits for PIN_INIT_DOOR; the caller closes *door. */
bool pin_channel_take_door(int control, int *door, struct pin_error *err);

/* The parent's side: waits for PIN_INIT_WATCH; the caller closes *listener. */
bool pin_channel_take_watch(int control, int *listener, struct pin_error *err);

/* The parent's side: waits for PIN_INIT_READY, which an engine's container sends before the hooks and before
 * it waits for its start. */
bool pin_channel_take_ready(int control, struct pin_error *err);

/* Waits until the process is executed, which closes the other end, or has failed. */
bool pin_channel_take_execution(int control, struct pin_error *err);

/* The child's side. */
bool pin_channel_send_ready(int control, struct pin_error *err);
bool pin_channel_wait(int control, enum pin_sync sync, int fds[PIN_CHANNEL_FDS_MAX], int *count,
                      struct pin_error *err);
bool pin_channel_send_changes(int control, int changes, struct pin_error *err);
bool pin_channel_send_upper(int control, int upper, struct pin_error *err);
bool pin_channel_send_egress(int control, const struct pin_egress_sockets *sockets, struct pin_error *err);
bool pin_channel_send_door(int control, int door, struct pin_error *err);
void pin_channel_send_failure(int control, const struct pin_error *failure);
