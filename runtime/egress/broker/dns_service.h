/* dns_service.h: questions for HTTPS and SVCB records, the only ones that are handed on.
 *
 * The host's resolver is asked for an allowed name, and what svcb.h lets stand of its answer is given. Few at
 * once, at a bounded rate, and with a deadline: past each of these the answer is empty, and the program goes
 * on without.
 */
#pragma once

#include "runtime/egress/broker/dns.h"

/* False: it isn't asked, the answer is an empty one. True: dns_reply() comes later. */
bool service_ask(struct broker *broker, const char *name, const struct pin_dns_question *question,
                 const struct dns_from *from);
/* Is an answer on its way to this stream? */
bool service_is_waited_for(const struct broker *broker, const struct dns_stream *stream);
/* The stream is gone. */
void service_forget(struct broker *broker, const struct dns_stream *stream);
/* Answers what is late. */
void service_tick(struct broker *broker, uint64_t now);
