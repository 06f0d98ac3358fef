/* address_class.h: what kind of place an IP address is.
 *
 * Addresses are 16 bytes, IPv4 in its mapped form: see egress_rule.h. Forms that carry an IPv4
 * address inside (NAT64, 6to4, Teredo, IPv4-compatible, ISATAP) are never public: what lies behind them can't
 * be known from the address. Pure. Source: IANA IPv4 and IPv6 special-purpose address registries; RFC 6052,
 * 3056, 4380, 5214.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIN_ADDRESS_SIZE 16
#define PIN_ADDRESS_TEXT 46 /* as INET6_ADDRSTRLEN */

enum pin_address_class {
    PIN_ADDRESS_PUBLIC, /* the documentation ranges count as public: nobody routes them */
    PIN_ADDRESS_UNSPECIFIED,
    PIN_ADDRESS_LOOPBACK,
    PIN_ADDRESS_PRIVATE,
    PIN_ADDRESS_SHARED, /* carrier-grade NAT, 100.64.0.0/10 */
    PIN_ADDRESS_LINK_LOCAL,
    PIN_ADDRESS_METADATA, /* of cloud machines, wherever the providers put it */
    PIN_ADDRESS_MULTICAST,
    PIN_ADDRESS_BROADCAST,
    PIN_ADDRESS_BENCHMARK, /* 198.18.0.0/15, from which names get their addresses inside */
    PIN_ADDRESS_RESERVED,
    PIN_ADDRESS_NAT64,
    PIN_ADDRESS_6TO4,
    PIN_ADDRESS_TEREDO,
    PIN_ADDRESS_EMBEDDED, /* IPv4-compatible, IPv4-translated, ISATAP */
    PIN_ADDRESS_CLASS_COUNT
};
/* "public", "link-local", … */
const char *pin_address_class_name(enum pin_address_class class);

enum pin_address_class pin_address_classify(const uint8_t address[PIN_ADDRESS_SIZE]);

/* The smallest block of one class that holds the whole range (network and prefix as in a rule:
 * egress_rule.h). A range that no block holds is PUBLIC with prefix 0, and so is one in the public space:
 * what isn't public in it lies in blocks of its own. */
struct pin_address_block {
    enum pin_address_class class;
    uint8_t network[PIN_ADDRESS_SIZE], prefix;
};
struct pin_address_block pin_address_block(const uint8_t range[PIN_ADDRESS_SIZE], uint8_t prefix);

/* The IPv4 address that this one carries inside, and may lead to. False: none, or it can't be told where (in
 * 64:ff9b:1::/48 that is each network's own matter). */
bool pin_address_carried(uint8_t to[PIN_ADDRESS_SIZE], const uint8_t address[PIN_ADDRESS_SIZE]);

/* Reads the one usual spelling: four decimal parts without leading zeros, or RFC 4291 text; no zone, port,
 * brackets or spaces. */
bool pin_address_parse(uint8_t to[PIN_ADDRESS_SIZE], const char *text);
/* Writes it: dotted for IPv4, RFC 5952 for IPv6; returns `to`. */
char *pin_address_print(char to[PIN_ADDRESS_TEXT], const uint8_t address[PIN_ADDRESS_SIZE]);
