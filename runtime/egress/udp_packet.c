#include "runtime/egress/udp_packet.h"

#include <netinet/in.h>

#include <linux/icmp.h>
#include <linux/icmpv6.h>

#include "policy/egress_rule.h"

#define UDP_SIZE 8
#define LOOPBACK_MTU 65536u

size_t pin_udp_packet_most(const struct pin_ip_end *to) {
    return pin_address_is_ipv4(to->address) ? UINT16_MAX - 20 - UDP_SIZE : LOOPBACK_MTU - 40 - UDP_SIZE;
}

size_t pin_udp_packet_head(const struct pin_ip_end *from, const struct pin_ip_end *to, uint8_t *data,
                           size_t size) {
    size_t ip_size = pin_address_is_ipv4(to->address) ? 20 : 40;
    uint8_t *udp = data - UDP_SIZE;
    pin_ip_put16(udp, from->port);
    pin_ip_put16(udp + 2, to->port);
    pin_ip_put16(udp + 4, UDP_SIZE + size);
    pin_ip_put16(udp + 6, 0);
    uint16_t checksum = pin_ip_checksum(from, to, IPPROTO_UDP, udp, UDP_SIZE + size);
    pin_ip_put16(udp + 6, checksum != 0 ? checksum : 0xffff); /* zero would say that there is none */
    return pin_ip_put_head(udp - ip_size, from, to, IPPROTO_UDP, UDP_SIZE + size) + UDP_SIZE;
}

size_t pin_udp_packet_refusal(const struct pin_ip_end *from, const struct pin_ip_end *to, size_t size,
                              bool forbidden, uint8_t packet[PIN_IP_ERROR_MAX]) {
    uint8_t udp[UDP_SIZE] = {0}; /* the kernel looks for the socket by the ports */
    struct pin_ip_error why = forbidden ? (struct pin_ip_error){ICMP_PKT_FILTERED, ICMPV6_ADM_PROHIBITED}
                                        : (struct pin_ip_error){ICMP_PORT_UNREACH, ICMPV6_PORT_UNREACH};
    pin_ip_put16(udp, from->port);
    pin_ip_put16(udp + 2, to->port);
    pin_ip_put16(udp + 4, UDP_SIZE + size);
    return pin_ip_unreachable(packet, from, to, IPPROTO_UDP, udp, UDP_SIZE + size, why);
}
