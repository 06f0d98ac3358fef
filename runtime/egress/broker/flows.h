/* flows.h: UDP for rules that name it: one flow for each pair of a program's port and a destination.
 *
 * The first datagram of a flow is judged, its name resolved and screened, and a connected socket made; later
 * ones go through. Answers go back as packets that the broker puts together, because they must come from the
 * address that the program has sent to. A flow that is idle ends.
 */
#pragma once

#include "runtime/egress/broker/broker.h"
#include "runtime/egress/broker/raw.h"

struct flow_ends {
    uint8_t client[16], dialled[16]; /* IPv4 mapped */
    uint16_t client_port, dialled_port;
};

/* -1: absent; without `udp` none are served. */
bool flows_serve(struct broker *broker, int udp, struct raw raw);
bool flows_are_open(const struct broker *broker);
/* Is there one whose first datagram waits for its name's address? */
bool flows_are_waiting(const struct broker *broker);
/* The end of them all, each reported. */
void flows_end_all(struct broker *broker);
size_t flows_show(const struct broker *broker, int stream, size_t most);
void flows_tick(struct broker *broker, uint64_t now);
void flows_judge_again(struct broker *broker);

/* For a datagram that came in by another socket. */
bool flows_read_client(const struct sockaddr_storage *from, struct flow_ends *ends);
bool flows_are_allowed(const struct broker *broker, const struct flow_ends *ends);
/* True: it was taken, or refused and reported. */
bool flows_take(struct broker *broker, const struct flow_ends *ends, const uint8_t *data, size_t size);
