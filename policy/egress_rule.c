#include "policy/egress_rule.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "policy/address_class.h"
#include "policy/egress_terms.h"
#include "policy/host_name.h"

static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};

bool pin_address_is_ipv4(const uint8_t address[16]) {
    return memcmp(address, mapped, sizeof(mapped)) == 0;
}

/* Keeps the first `prefix` bits. */
static void mask(uint8_t to[16], const uint8_t address[16], uint8_t prefix) {
    for (unsigned i = 0; i < 16; i++) {
        unsigned keep = prefix >= (i + 1) * 8 ? 8 : prefix > i * 8 ? prefix - i * 8 : 0;
        to[i] = (uint8_t)(address[i] & (0xFF00u >> keep));
    }
}

static bool parse_address(const char *text, uint8_t address[16]) {
    if (inet_pton(AF_INET, text, address + 12) == 1) {
        memcpy(address, mapped, sizeof(mapped));
        return true;
    }
    return inet_pton(AF_INET6, text, address) == 1;
}

bool pin_cidr_parse(const char *text, uint8_t address[16], uint8_t *prefix, struct pin_error *err) {
    char host[INET6_ADDRSTRLEN], shown[96];
    uint8_t bytes[16], base[16];
    size_t length = strcspn(text, "/");
    uint64_t bits = 0;
    (void)pin_escape(shown, sizeof(shown), text, strlen(text));
    (void)snprintf(host, sizeof(host), "%.*s", (int)(length < sizeof(host) ? length : 0), text);
    if (!parse_address(host, bytes))
        return pin_fail(err, PIN_ERROR_INVALID, "'%s' is not an address with a prefix length", shown);
    bool four = strchr(host, ':') == NULL;
    unsigned most = four ? 32 : 128;
    if (!four && pin_address_is_ipv4(bytes)) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "'%s' is an IPv4 address in IPv6 form", shown);
        return pin_hint(err, "write it as IPv4");
    }
    bool leading_zero = text[length] == '/' && text[length + 1] == '0' && text[length + 2] != '\0';
    if (text[length] == '\0')
        bits = most;
    else if (leading_zero || !pin_parse_u64(text + length + 1, &bits) || bits > most)
        return pin_fail(err, PIN_ERROR_INVALID, "'%s' has no prefix length from 0 to %u", shown, most);
    uint8_t whole = (uint8_t)(bits + (four ? 96 : 0));
    mask(base, bytes, whole);
    if (memcmp(base, bytes, sizeof(base)) != 0) {
        char right[PIN_CIDR_TEXT];
        (void)pin_fail(err, PIN_ERROR_INVALID, "'%s' has bits set after its prefix", shown);
        return pin_hint(err, "write '%s', or a longer prefix", pin_cidr_print(right, base, whole));
    }
    memcpy(address, bytes, sizeof(bytes));
    *prefix = whole;
    return true;
}

char *pin_cidr_print(char to[PIN_CIDR_TEXT], const uint8_t address[16], uint8_t prefix) {
    char host[INET6_ADDRSTRLEN] = "?";
    bool four = pin_address_is_ipv4(address) && prefix >= 96;
    if (four)
        (void)inet_ntop(AF_INET, address + 12, host, sizeof(host));
    else
        (void)inet_ntop(AF_INET6, address, host, sizeof(host));
    (void)snprintf(to, PIN_CIDR_TEXT, "%s/%d", host, four ? prefix - 96 : prefix);
    return to;
}

bool pin_cidr_contains(const uint8_t range[16], uint8_t prefix, const uint8_t address[16]) {
    uint8_t base[16];
    if (pin_address_is_ipv4(address) && prefix < 96)
        return false; /* a range of IPv6: its author didn't think of IPv4 */
    mask(base, address, prefix);
    return memcmp(base, range, sizeof(base)) == 0;
}

bool pin_ports_parse(const char *text, struct pin_port_range *range) {
    char first[8];
    size_t length = strcspn(text, "-");
    uint64_t low, high;
    if (length >= sizeof(first) || text[0] == '0')
        return false;
    (void)snprintf(first, sizeof(first), "%.*s", (int)length, text);
    if (!pin_parse_u64(first, &low) || low < 1 || low > UINT16_MAX)
        return false;
    high = low;
    if (text[length] == '-' && (text[length + 1] == '0' || !pin_parse_u64(text + length + 1, &high)))
        return false;
    if (high < low || high > UINT16_MAX)
        return false;
    *range = (struct pin_port_range){(uint16_t)low, (uint16_t)high};
    return true;
}

static int compare_ranges(const void *a, const void *b) {
    const struct pin_port_range *left = a, *right = b;
    return left->first != right->first ? (left->first < right->first ? -1 : 1)
                                       : (left->last > right->last) - (left->last < right->last);
}

size_t pin_ports_normalise(struct pin_port_range *ranges, size_t count) {
    size_t kept = 0;
    if (count > 1)
        qsort(ranges, count, sizeof(*ranges), compare_ranges);
    for (size_t i = 0; i < count; i++) {
        struct pin_port_range *last = kept > 0 ? &ranges[kept - 1] : NULL;
        if (last != NULL && ranges[i].first <= last->last + 1)
            last->last = ranges[i].last > last->last ? ranges[i].last : last->last;
        else
            ranges[kept++] = ranges[i];
    }
    return kept;
}

bool pin_ports_include(const struct pin_egress_rule *rule, uint16_t port) {
    for (size_t i = 0; i < rule->port_count; i++)
        if (port >= rule->ports[i].first && port <= rule->ports[i].last)
            return true;
    return false;
}

bool pin_egress_covers_target(const struct pin_egress_rule *outer, const struct pin_egress_rule *inner) {
    if ((outer->host == NULL) != (inner->host == NULL))
        return false;
    if (outer->host != NULL)
        return pin_host_covers(outer->host, inner->host);
    if (outer->any_address || inner->any_address)
        return outer->any_address;
    return outer->prefix <= inner->prefix && pin_cidr_contains(outer->address, outer->prefix, inner->address);
}

/* A prefix of both: the longer one lies in the other. */
static bool opens_range(const struct pin_egress_rule *rule, const uint8_t range[16], uint8_t prefix) {
    return rule->any_address || rule->prefix >= pin_address_block(range, prefix).prefix;
}

bool pin_egress_contains(const struct pin_egress_rule *rule, const uint8_t address[16]) {
    return rule->host == NULL &&
           (rule->any_address || pin_cidr_contains(rule->address, rule->prefix, address));
}

bool pin_egress_opens(const struct pin_egress_rule *rule, const uint8_t address[16]) {
    return pin_egress_contains(rule, address) && opens_range(rule, address, 128);
}

bool pin_egress_grants_target(const struct pin_egress_rule *outer, const struct pin_egress_rule *inner) {
    if (!pin_egress_covers_target(outer, inner))
        return false;
    if (outer->host != NULL && outer->host[0] == '*' && strcmp(inner->host, PIN_HOST_INTERNAL) == 0)
        return false; /* only its own name grants the host's loopback */
    return outer->host != NULL || opens_range(outer, inner->address, inner->prefix);
}

bool pin_egress_same(const struct pin_egress_rule *a, const struct pin_egress_rule *b) {
    if ((a->host == NULL) != (b->host == NULL) || a->protocol != b->protocol ||
        a->port_count != b->port_count || !pin_egress_terms_same(a, b))
        return false;
    for (size_t i = 0; i < a->port_count; i++)
        if (compare_ranges(&a->ports[i], &b->ports[i]) != 0)
            return false;
    if (a->host != NULL)
        return strcmp(a->host, b->host) == 0;
    return a->prefix == b->prefix && a->any_address == b->any_address &&
           memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

/* Appends to `to`; false when room ended. */
__attribute__((format(printf, 4, 5))) static bool append(char *to, size_t room, size_t *used,
                                                         const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(to + *used, room - *used, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= room - *used) {
        if (room > 4)
            memcpy(to + room - 4, "...", 4);
        return false;
    }
    *used += (size_t)length;
    return true;
}

char *pin_egress_print(char *to, size_t room, const struct pin_egress_rule *rule) {
    char cidr[PIN_CIDR_TEXT];
    size_t used = 0;
    bool six = rule->host == NULL && !pin_address_is_ipv4(rule->address);
    const char *target = rule->host != NULL  ? rule->host
                         : rule->any_address ? "*"
                                             : pin_cidr_print(cidr, rule->address, rule->prefix);
    bool more = append(to, room, &used, six ? "[%s]" : "%s", target);
    for (size_t i = 0; more && i < rule->port_count; i++) {
        const struct pin_port_range *range = &rule->ports[i];
        more = append(to, room, &used, "%c%u", i == 0 ? ':' : ',', range->first);
        if (more && range->last != range->first)
            more = append(to, room, &used, "-%u", range->last);
    }
    if (more && rule->protocol != PIN_PROTOCOL_TCP)
        (void)append(to, room, &used, "/%s", pin_protocol_name(rule->protocol));
    return to;
}
