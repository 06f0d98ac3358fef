/* svcb.h: what a program may be told of the HTTPS or SVCB records of a name.
 *
 * Reads a resolver's whole answer, hostile like anything from the network, and writes anew what the rules let
 * stand: no encrypted hello, no addresses, no parameter that we don't know; a target only if it is the name
 * itself or one that a rule allows; a port, and HTTP/3, only where a rule opens that port. What is left of a
 * record without one of these is dropped where it would mean something else. Pure; bounded; no allocation.
 * Source: RFC 9460 2 and 7, RFC 1035 4.1.4.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "policy/egress_judge.h"

#define PIN_DNS_SVCB 64
#define PIN_DNS_HTTPS 65
#define PIN_SVCB_RECORDS_MAX 8
#define PIN_SVCB_DATA_MAX 448 /* priority, a name, and the three parameters that may stand */

struct pin_svcb_record {
    uint32_t ttl_s;
    size_t size;
    uint8_t data[PIN_SVCB_DATA_MAX];
};

/* The records of `host` (canonical) with this type, in their order; aliases (CNAME) are followed. 0: none
 * stands, or the answer can't be read. */
size_t pin_svcb_read(const uint8_t *message, size_t size, const char *host, uint16_t type,
                     const struct pin_egress_rules *rules,
                     struct pin_svcb_record records[PIN_SVCB_RECORDS_MAX]);
