/* egress_rule.h: one rule of network.egress or network.deny: a destination, ports, a protocol.
 *
 * An address is kept as 16 bytes, IPv4 in its mapped form; a rule is of one family, and an IPv6 range never
 * covers an IPv4 address, not even "::/0". Ports are sorted, and ranges that touch are one. Pure. Source:
 * RFC 4291 2.5.5.2, docs/policy.md "network.egress".
 */
#pragma once

#include "policy/policy.h"

#define PIN_CIDR_TEXT 64

/* "10.1.2.0/24", "2001:db8::/32", "10.0.0.1": the bits after the prefix must be zero. */
bool pin_cidr_parse(const char *text, uint8_t address[16], uint8_t *prefix, struct pin_error *err);
char *pin_cidr_print(char to[PIN_CIDR_TEXT], const uint8_t address[16], uint8_t prefix);
bool pin_address_is_ipv4(const uint8_t address[16]);

/* Whether an address of a destination lies in the range of a cidr rule. */
bool pin_cidr_contains(const uint8_t range[16], uint8_t prefix, const uint8_t address[16]);

/* "443" or "8000-8100"; 1 to 65535. */
bool pin_ports_parse(const char *text, struct pin_port_range *range);
/* Sorts the ranges and joins those that overlap or touch; returns how many are left. */
size_t pin_ports_normalise(struct pin_port_range *ranges, size_t count);
bool pin_ports_include(const struct pin_egress_rule *rule, uint16_t port);

/* Whether what `inner` names (ports and protocol aside) is named by `outer` too: of deny rules, whose ranges
 * mean every address in them. */
bool pin_egress_covers_target(const struct pin_egress_rule *outer, const struct pin_egress_rule *inner);
/* The same of allow rules: a range grants the addresses of a special block (address_class.h) only if it lies
 * in that block; of a wider one they are no part. */
bool pin_egress_grants_target(const struct pin_egress_rule *outer, const struct pin_egress_rule *inner);
/* Whether a rule's range has this address; whether an allow rule grants it. */
bool pin_egress_contains(const struct pin_egress_rule *rule, const uint8_t address[16]);
bool pin_egress_opens(const struct pin_egress_rule *rule, const uint8_t address[16]);
/* Equal in every part but the place. */
bool pin_egress_same(const struct pin_egress_rule *a, const struct pin_egress_rule *b);

/* "HOST:PORT", "HOST:PORT/udp", "10.0.0.0/8:PORT", "[2001:db8::1]:PORT", PORT also a range: how a command
 * line names a rule. Strings and ports go to the arena. */
bool pin_egress_parse(const char *text, struct pin_arena *arena, struct pin_egress_rule *rule,
                      struct pin_error *err);

/* "api.example.com:443", "[2001:db8::/32]:443,8000-8100/udp" in `to`, cut with "..." where room ends. */
char *pin_egress_print(char *to, size_t room, const struct pin_egress_rule *rule);
