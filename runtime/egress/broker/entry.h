/* entry.h: how the connections of programs inside come to the broker.
 *
 * First as an opening that the kernel holds back (openings.h): it is judged and dialled for, and let in when
 * the other side is there; then, or without the first, as a socket at the listener. Each is judged once, and
 * counts from then on.
 */
#pragma once

#include "runtime/egress/broker/conn.h"

/* One that comes again while it is being dialled is the same. */
void entry_open(struct broker *broker, const struct pin_opening *opening);
/* Takes what waits at the listener, so many at most. */
void entry_accept(struct broker *broker, int listener, unsigned most);
struct sockaddr_storage;
/* Takes one that came to the DNS, if a rule names where it was going: then it is a connection like any other.
 * False: no rule does. */
bool entry_take(struct broker *broker, int fd, const struct sockaddr_storage *peer);
