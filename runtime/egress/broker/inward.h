/* inward.h: the broker the other way round: connections of the host's to ports inside.
 *
 * A process of its own, beside the one for what leaves. It joins the sandbox's network namespace before the
 * walls close, so that all it can dial is inside; what it accepts comes from listeners of the host's that its
 * maker has bound. It reads no protocol: bytes are moved, and counted. Source: docs/egress.md "Published
 * ports".
 */
#pragma once

#include "runtime/egress/broker/broker.h"

/* Becomes nobody and joins the namespaces of `door`, a socket made inside. */
bool inward_join(int door, struct pin_error *err); /* and closes it */
/* Accepts from `broker->listeners`; the rule of the same number says to which port. */
bool inward_serve(struct broker *broker);
/* Which ports are published has changed: the others are closed, with their connections. */
void inward_judge_again(struct broker *broker);
/* There may be descriptors again. */
void inward_resume(struct broker *broker);
