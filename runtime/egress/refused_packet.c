#include "runtime/egress/refused_packet.h"

#include <netinet/in.h>
#include <string.h>

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>

#include "base/cursor.h"

static bool has_ports(uint8_t protocol) {
    return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE ||
           protocol == IPPROTO_SCTP || protocol == IPPROTO_DCCP;
}

static void take_port(struct pin_cursor in, struct pin_refused_packet *refused) {
    uint16_t from;
    if (!has_ports(refused->protocol) || !pin_take_u16be(&in, &from) || !pin_take_u16be(&in, &refused->port))
        refused->port = 0;
}

static bool read_v4(struct pin_cursor in, struct pin_refused_packet *refused) {
    const uint8_t *header, *options;
    if (!pin_take_bytes(&in, 20, &header))
        return false;
    size_t length = (header[0] & 0x0fu) * 4u;
    refused->protocol = header[9];
    memset(refused->address, 0, 10);
    memset(refused->address + 10, 0xff, 2);
    memcpy(refused->address + 12, header + 16, 4);
    if (length < 20 || !pin_take_bytes(&in, length - 20, &options))
        return length >= 20;
    take_port(in, refused);
    return true;
}

static bool read_v6(struct pin_cursor in, struct pin_refused_packet *refused) {
    const uint8_t *header;
    if (!pin_take_bytes(&in, 40, &header))
        return false;
    refused->protocol = header[6]; /* of an extension header: then it has no port for us */
    memcpy(refused->address, header + 24, sizeof(refused->address));
    take_port(in, refused);
    return true;
}

bool pin_refused_packet_read(const uint8_t *packet, size_t size, struct pin_refused_packet *refused) {
    struct pin_cursor in = {packet, packet + size};
    *refused = (struct pin_refused_packet){.port = 0};
    if (size == 0)
        return false;
    unsigned version = packet[0] >> 4;
    return version == 4 ? read_v4(in, refused) : version == 6 && read_v6(in, refused);
}

static void find_payload(const uint8_t *at, const uint8_t *end, const uint8_t **packet, size_t *size) {
    struct nlattr attribute;
    while ((size_t)(end - at) >= sizeof(attribute)) {
        memcpy(&attribute, at, sizeof(attribute));
        if (attribute.nla_len < sizeof(attribute) || attribute.nla_len > (size_t)(end - at))
            return;
        if ((attribute.nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD) {
            *packet = at + sizeof(attribute);
            *size = attribute.nla_len - sizeof(attribute);
        }
        size_t whole = NLA_ALIGN(attribute.nla_len);
        at += whole < (size_t)(end - at) ? whole : (size_t)(end - at);
    }
}

bool pin_refused_next(const uint8_t **at, const uint8_t *end, const uint8_t **packet, size_t *size) {
    struct nlmsghdr message;
    size_t fixed = sizeof(message) + sizeof(struct nfgenmsg), left = (size_t)(end - *at);
    *packet = NULL;
    *size = 0;
    if (left < sizeof(message))
        return false;
    memcpy(&message, *at, sizeof(message));
    if (message.nlmsg_len < sizeof(message) || message.nlmsg_len > left)
        return false;
    if (message.nlmsg_type == (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET) && message.nlmsg_len >= fixed)
        find_payload(*at + fixed, *at + message.nlmsg_len, packet, size);
    size_t whole = NLMSG_ALIGN(message.nlmsg_len);
    *at += whole < left ? whole : left;
    return true;
}
