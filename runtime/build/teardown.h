/* teardown.h: the mounts of a dead sandbox are taken apart beside the last deeds of its supervisor.
 *
 * The last holder of a mount namespace takes it apart: the kernel waits until every processor has passed a
 * quiet point (RCU), then clears each file system. Where that is init, its death isn't seen before. Held here
 * by a descriptor, the namespace outlives init for the moment in which accounts are read and groups removed,
 * and a thread lets go of it meanwhile. A process doesn't end before its threads do: when pinfold has ended,
 * the mounts are gone, as they are without this.
 */
#pragma once

#include <sys/types.h>

struct pin_teardown;

/* Holds the namespace, with a thread that waits for init's end and then lets go. NULL where it can't be had:
 * the kernel's way is as good, and a little slower. */
struct pin_teardown *pin_teardown_start(pid_t init, int init_pidfd);

/* Waits for the thread, unless init can't die. Frees it; NULL is fine. */
void pin_teardown_end(struct pin_teardown *teardown);
