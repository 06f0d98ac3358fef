#include "runtime/egress/ip_packet.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include <linux/icmp.h>
#include <linux/icmpv6.h>

#include "policy/egress_rule.h"

#define V4_SIZE 20
#define V6_SIZE 40
#define HOPS 64
#define ICMP_SIZE 8

void pin_ip_put16(uint8_t *to, size_t value) {
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

static uint32_t add(uint32_t sum, const uint8_t *data, size_t size) {
    for (size_t i = 0; i + 1 < size; i += 2)
        sum += (uint32_t)data[i] << 8 | data[i + 1];
    return size % 2 == 1 ? sum + ((uint32_t)data[size - 1] << 8) : sum;
}

static uint16_t fold(uint32_t sum) {
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

uint16_t pin_ip_checksum(const struct pin_ip_end *from, const struct pin_ip_end *end, uint8_t protocol,
                         const uint8_t *data, size_t size) {
    size_t skip = pin_address_is_ipv4(end->address) ? 12 : 0;
    uint32_t sum = 0;
    if (protocol != 0)
        sum = add(add(protocol + (uint32_t)size, from->address + skip, 16 - skip), end->address + skip,
                  16 - skip);
    return fold(add(sum, data, size));
}

static size_t put_v4(uint8_t *ip, const struct pin_ip_end *from, const struct pin_ip_end *end,
                     uint8_t protocol, size_t size) {
    memset(ip, 0, V4_SIZE); /* the kernel fills in the length, the id and the checksum: raw(7) */
    ip[0] = 0x45;
    pin_ip_put16(ip + 2, V4_SIZE + size);
    ip[8] = HOPS;
    ip[9] = protocol;
    memcpy(ip + 12, from->address + 12, 4);
    memcpy(ip + 16, end->address + 12, 4);
    return V4_SIZE;
}

static size_t put_v6(uint8_t *ip, const struct pin_ip_end *from, const struct pin_ip_end *end,
                     uint8_t protocol, size_t size) {
    memset(ip, 0, V6_SIZE);
    ip[0] = 0x60;
    pin_ip_put16(ip + 4, size);
    ip[6] = protocol;
    ip[7] = HOPS;
    memcpy(ip + 8, from->address, 16);
    memcpy(ip + 24, end->address, 16);
    return V6_SIZE;
}

size_t pin_ip_put_head(uint8_t *to, const struct pin_ip_end *from, const struct pin_ip_end *end,
                       uint8_t protocol, size_t size) {
    return pin_address_is_ipv4(end->address) ? put_v4(to, from, end, protocol, size)
                                             : put_v6(to, from, end, protocol, size);
}

size_t pin_ip_unreachable(uint8_t packet[PIN_IP_ERROR_MAX], const struct pin_ip_end *from,
                          const struct pin_ip_end *to, uint8_t protocol, const uint8_t *quoted, size_t size,
                          struct pin_ip_error why) {
    bool four = pin_address_is_ipv4(to->address);
    uint8_t body[ICMP_SIZE + PIN_IP_HEAD_MAX + PIN_IP_QUOTED] = {
        four ? ICMP_DEST_UNREACH : ICMPV6_DEST_UNREACH, four ? why.four : why.six};
    uint8_t icmp = four ? IPPROTO_ICMP : IPPROTO_ICMPV6;
    size_t body_size = ICMP_SIZE + pin_ip_put_head(body + ICMP_SIZE, from, to, protocol, size);
    memcpy(body + body_size, quoted, PIN_IP_QUOTED);
    body_size += PIN_IP_QUOTED;
    pin_ip_put16(body + 2, pin_ip_checksum(to, from, four ? 0 : icmp, body, body_size));
    size_t head = pin_ip_put_head(packet, to, from, icmp, body_size);
    memcpy(packet + head, body, body_size);
    return head + body_size;
}
