/* dns.h: the resolver that programs inside see, whatever address they ask at.
 *
 * It answers from the rules alone and asks nobody: an allowed name has its synthetic address, any other
 * doesn't exist. A name is resolved when something is sent to it, so that a question carries no data out.
 */
#pragma once

#include "runtime/egress/broker/broker.h"
#include "runtime/egress/dns_message.h"

/* The answer to one message; 0: none. Asked at an address that a rule opens for port 53 it would be no
 * question to us: dns_sockets.c hands that on. */
size_t dns_answer(struct broker *broker, const uint8_t *message, size_t size,
                  uint8_t to[PIN_DNS_MESSAGE_MAX]);

/* Serves the sockets; -1: absent. */
bool dns_serve(struct broker *broker, int udp, int tcp);
