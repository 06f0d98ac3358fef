#include "runtime/egress/opening_packet.h"

#include <netinet/in.h>
#include <string.h>

#include <linux/icmp.h>
#include <linux/icmpv6.h>

#include "base/cursor.h"
#include "policy/egress_rule.h"

#define TCP_SIZE 20
#define AT_NUMBER 4
#define AT_ACKNOWLEDGED 8
#define AT_OFFSET 12
#define AT_FLAGS 13
#define AT_CHECKSUM 16
#define FLAGS 0x3fu
#define SYN 0x02u
#define RST 0x04u
#define ACK 0x10u

static void put_mapped(uint8_t to[16], const uint8_t four[4]) {
    memset(to, 0, 10);
    memset(to + 10, 0xff, 2);
    memcpy(to + 12, four, 4);
}

static bool take_v4(struct pin_cursor *in, struct pin_opening *opening) {
    const uint8_t *head, *options;
    if (!pin_take_bytes(in, 20, &head) || head[9] != IPPROTO_TCP)
        return false;
    size_t length = (head[0] & 0x0fu) * 4u;
    put_mapped(opening->from.address, head + 12);
    put_mapped(opening->to.address, head + 16);
    return length >= 20 && pin_take_bytes(in, length - 20, &options);
}

static bool take_v6(struct pin_cursor *in, struct pin_opening *opening) {
    const uint8_t *head;
    if (!pin_take_bytes(in, 40, &head) || head[6] != IPPROTO_TCP) /* extension headers: no ordinary program */
        return false;
    memcpy(opening->from.address, head + 8, 16);
    memcpy(opening->to.address, head + 24, 16);
    /* An address of the other family in its mapped form: nothing to answer to. */
    return !pin_address_is_ipv4(opening->from.address) && !pin_address_is_ipv4(opening->to.address);
}

/* Data that comes with it is left out, and sent again by the program's kernel. */
static bool take_segment(struct pin_cursor *in, struct pin_opening *opening) {
    const uint8_t *segment;
    if (pin_left(in) < TCP_SIZE)
        return false;
    opening->size = (in->at[AT_OFFSET] >> 4) * 4u;
    if (opening->size < TCP_SIZE || !pin_take_bytes(in, opening->size, &segment))
        return false;
    memcpy(opening->segment, segment, opening->size);
    opening->from.port = (uint16_t)(segment[0] << 8 | segment[1]);
    opening->to.port = (uint16_t)(segment[2] << 8 | segment[3]);
    return (segment[AT_FLAGS] & FLAGS) == SYN;
}

bool pin_opening_read(const uint8_t *packet, size_t size, struct pin_opening *opening) {
    struct pin_cursor in = {packet, packet + size};
    *opening = (struct pin_opening){.size = 0};
    unsigned version = size > 0 ? packet[0] >> 4 : 0;
    bool addressed = version == 4 ? take_v4(&in, opening) : version == 6 && take_v6(&in, opening);
    return addressed && take_segment(&in, opening);
}

static bool is_end(const struct pin_ip_end *one, const struct pin_ip_end *other) {
    return one->port == other->port && memcmp(one->address, other->address, sizeof(one->address)) == 0;
}

bool pin_opening_is(const struct pin_opening *opening, const struct pin_ip_end *from,
                    const struct pin_ip_end *to) {
    return is_end(&opening->from, from) && is_end(&opening->to, to);
}

static size_t put_segment(uint8_t *packet, const struct pin_ip_end *from, const struct pin_ip_end *to,
                          const uint8_t *segment, size_t size) {
    size_t head = pin_ip_put_head(packet, from, to, IPPROTO_TCP, size);
    memcpy(packet + head, segment, size);
    pin_ip_put16(packet + head + AT_CHECKSUM, 0);
    pin_ip_put16(packet + head + AT_CHECKSUM, pin_ip_checksum(from, to, IPPROTO_TCP, packet + head, size));
    return head + size;
}

size_t pin_opening_again(const struct pin_opening *opening, uint8_t packet[PIN_OPENING_PACKET_MAX]) {
    return put_segment(packet, &opening->from, &opening->to, opening->segment, opening->size);
}

size_t pin_opening_reset(const struct pin_opening *opening, uint8_t packet[PIN_OPENING_PACKET_MAX]) {
    uint8_t segment[TCP_SIZE] = {[AT_OFFSET] = TCP_SIZE / 4 << 4, [AT_FLAGS] = RST | ACK};
    const uint8_t *number = opening->segment + AT_NUMBER;
    uint32_t next =
        ((uint32_t)number[0] << 24 | (uint32_t)number[1] << 16 | (uint32_t)number[2] << 8 | number[3]) + 1;
    pin_ip_put16(segment, opening->to.port);
    pin_ip_put16(segment + 2, opening->from.port);
    pin_ip_put16(segment + AT_ACKNOWLEDGED, next >> 16);
    pin_ip_put16(segment + AT_ACKNOWLEDGED + 2, next & 0xffff);
    return put_segment(packet, &opening->to, &opening->from, segment, sizeof(segment));
}

size_t pin_opening_unreachable(const struct pin_opening *opening, bool network,
                               uint8_t packet[PIN_OPENING_PACKET_MAX]) {
    struct pin_ip_error why = network ? (struct pin_ip_error){ICMP_NET_UNREACH, ICMPV6_NOROUTE}
                                      : (struct pin_ip_error){ICMP_HOST_UNREACH, ICMPV6_ADDR_UNREACH};
    return pin_ip_unreachable(packet, &opening->from, &opening->to, IPPROTO_TCP, opening->segment,
                              opening->size, why);
}
