#include "runtime/egress/udp_packet.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "policy/egress_rule.h"

#define UDP_SIZE 8
#define V4_SIZE 20
#define V6_SIZE 40
#define HOPS 64

static void put16(uint8_t *to, size_t value) {
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

/* Over the addresses, the protocol, the length and all of the datagram. */
static void put_checksum(uint8_t *udp, size_t size, const uint8_t *from, const uint8_t *to,
                         size_t address_size) {
    uint32_t sum = add(add(IPPROTO_UDP + (uint32_t)size, from, address_size), to, address_size);
    uint16_t checksum = fold(add(sum, udp, size));
    put16(udp + 6, checksum != 0 ? checksum : 0xffff);
}

static void put_v4(uint8_t *ip, const struct pin_udp_end *from, const struct pin_udp_end *to, size_t size) {
    memset(ip, 0, V4_SIZE); /* the kernel fills in the length, the id and the checksum: raw(7) */
    ip[0] = 0x45;
    put16(ip + 2, size);
    ip[8] = HOPS;
    ip[9] = IPPROTO_UDP;
    memcpy(ip + 12, from->address + 12, 4);
    memcpy(ip + 16, to->address + 12, 4);
}

static void put_v6(uint8_t *ip, const struct pin_udp_end *from, const struct pin_udp_end *to, size_t size) {
    memset(ip, 0, V6_SIZE);
    ip[0] = 0x60;
    put16(ip + 4, size - V6_SIZE);
    ip[6] = IPPROTO_UDP;
    ip[7] = HOPS;
    memcpy(ip + 8, from->address, 16);
    memcpy(ip + 24, to->address, 16);
}

size_t pin_udp_packet_head(const struct pin_udp_end *from, const struct pin_udp_end *to, uint8_t *data,
                           size_t size) {
    bool four = pin_address_is_ipv4(to->address);
    size_t ip_size = four ? V4_SIZE : V6_SIZE, skip = four ? 12 : 0;
    uint8_t *udp = data - UDP_SIZE, *ip = udp - ip_size;
    put16(udp, from->port);
    put16(udp + 2, to->port);
    put16(udp + 4, UDP_SIZE + size);
    put16(udp + 6, 0);
    put_checksum(udp, UDP_SIZE + size, from->address + skip, to->address + skip, 16 - skip);
    if (four)
        put_v4(ip, from, to, ip_size + UDP_SIZE + size);
    else
        put_v6(ip, from, to, ip_size + UDP_SIZE + size);
    return ip_size + UDP_SIZE;
}
