/* status.h: the broker's answer to "what is open, and what has been used?" */
#pragma once

#include "runtime/egress/broker/broker.h"

/* What is told of a connection or flow. */
struct opened {
    const struct pin_destination *to;
    const struct payers *payers;
    uint64_t id, bytes_out, bytes_in, started_ns;
};
void status_put_open(int stream, const struct broker *broker, const struct opened *opened);

/* Writes records of struct pin_egress_status to a stream that has room for them all. */
void status_write(const struct broker *broker, int stream);
