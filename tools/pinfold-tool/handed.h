/* handed.h: secrets that `--secret` names, handed to a sandbox that was started ahead: at the call alone,
 * which is the only one that the sandbox has. */
#pragma once

#include "tools/pinfold-tool/warm.h"

/* False with an error of kind UNSUPPORTED where the call's secrets can't be handed in so: as files, as
 * variables that interpreters read when they start, or on a host that swaps. */
bool pin_handed_check(const struct pin_warm *warm, struct pin_error *err);
/* The secrets' values, and the sealed ones of the configuration below them, as PIN_KEPT's verb "call" takes
 * them:
 * `*count` pairs, in a pipe whose reading end is returned; nobody else has the other one. -1 with an error,
 * which is BUSY where they are too large for it. */
int pin_handed_open(const struct pin_warm *warm, size_t *count, struct pin_error *err);
/* Wipes values that came by variables of this process, also for who reads its /proc/PID/environ. */
void pin_handed_forget(const struct pin_warm *warm);
