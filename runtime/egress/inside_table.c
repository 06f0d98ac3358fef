#include "runtime/egress/inside_table.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <string.h>

#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#define TABLE "pinfold"
#define CHAIN "leaving"
#define PRIORITY_MANGLE (-150)
#define TCP_FLAGS_OFFSET 13
#define TCP_SYN 0x02
#define TCP_ACK 0x10
/* As many as the socket holds that they are told by, and as the broker reads. What comes faster is accepted
 * at once. */
#define OPENINGS_PER_SECOND 2000
#define OPENINGS_BURST 64

static void begin(struct pin_netlink *batch, uint16_t type, uint16_t flags, uint8_t family,
                  uint16_t resource) {
    struct nfgenmsg header = {.nfgen_family = family, .version = NFNETLINK_V0, .res_id = htons(resource)};
    pin_netlink_begin(batch, type, flags, &header, sizeof(header));
}

static void begin_nft(struct pin_netlink *batch, uint16_t message, uint16_t flags) {
    begin(batch, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | message), (uint16_t)(flags | NLM_F_CREATE),
          NFPROTO_INET, 0);
}

struct expression {
    size_t element, data;
};

static struct expression open_expression(struct pin_netlink *batch, const char *name) {
    struct expression expression;
    expression.element = pin_netlink_open(batch, NFTA_LIST_ELEM);
    pin_netlink_put_text(batch, NFTA_EXPR_NAME, name);
    expression.data = pin_netlink_open(batch, NFTA_EXPR_DATA);
    return expression;
}

static void close_expression(struct pin_netlink *batch, struct expression expression) {
    pin_netlink_close(batch, expression.data);
    pin_netlink_close(batch, expression.element);
}

static void put_value(struct pin_netlink *batch, uint16_t type, const void *value, size_t size) {
    size_t nest = pin_netlink_open(batch, type);
    pin_netlink_put(batch, NFTA_DATA_VALUE, value, size);
    pin_netlink_close(batch, nest);
}

static void load_meta(struct pin_netlink *batch, uint32_t key) {
    struct expression expression = open_expression(batch, "meta");
    pin_netlink_put_be32(batch, NFTA_META_KEY, key);
    pin_netlink_put_be32(batch, NFTA_META_DREG, NFT_REG_1);
    close_expression(batch, expression);
}

static void load_payload(struct pin_netlink *batch, uint32_t base, uint32_t offset, uint32_t size) {
    struct expression expression = open_expression(batch, "payload");
    pin_netlink_put_be32(batch, NFTA_PAYLOAD_DREG, NFT_REG_1);
    pin_netlink_put_be32(batch, NFTA_PAYLOAD_BASE, base);
    pin_netlink_put_be32(batch, NFTA_PAYLOAD_OFFSET, offset);
    pin_netlink_put_be32(batch, NFTA_PAYLOAD_LEN, size);
    close_expression(batch, expression);
}

/* Keeps the bits of the mask; `size` is of both. */
static void mask_bits(struct pin_netlink *batch, const void *mask, uint32_t size) {
    static const uint8_t zeros[16];
    struct expression expression = open_expression(batch, "bitwise");
    pin_netlink_put_be32(batch, NFTA_BITWISE_SREG, NFT_REG_1);
    pin_netlink_put_be32(batch, NFTA_BITWISE_DREG, NFT_REG_1);
    pin_netlink_put_be32(batch, NFTA_BITWISE_LEN, size);
    put_value(batch, NFTA_BITWISE_MASK, mask, size);
    put_value(batch, NFTA_BITWISE_XOR, zeros, size);
    close_expression(batch, expression);
}

static void must_equal(struct pin_netlink *batch, const void *value, size_t size) {
    struct expression expression = open_expression(batch, "cmp");
    pin_netlink_put_be32(batch, NFTA_CMP_SREG, NFT_REG_1);
    pin_netlink_put_be32(batch, NFTA_CMP_OP, NFT_CMP_EQ);
    put_value(batch, NFTA_CMP_DATA, value, size);
    close_expression(batch, expression);
}

static void must_equal_byte(struct pin_netlink *batch, uint8_t value) {
    must_equal(batch, &value, sizeof(value));
}

static void decide(struct pin_netlink *batch, uint32_t code) {
    struct expression expression = open_expression(batch, "immediate");
    pin_netlink_put_be32(batch, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    size_t data = pin_netlink_open(batch, NFTA_IMMEDIATE_DATA);
    size_t verdict = pin_netlink_open(batch, NFTA_DATA_VERDICT);
    pin_netlink_put_be32(batch, NFTA_VERDICT_CODE, code);
    pin_netlink_close(batch, verdict);
    pin_netlink_close(batch, data);
    close_expression(batch, expression);
}

static void accept_packet(struct pin_netlink *batch) {
    decide(batch, NF_ACCEPT);
}

static void to_broker(struct pin_netlink *batch) {
    uint16_t port = htons(PIN_EGRESS_PORT);
    struct expression load = open_expression(batch, "immediate");
    pin_netlink_put_be32(batch, NFTA_IMMEDIATE_DREG, NFT_REG_1);
    put_value(batch, NFTA_IMMEDIATE_DATA, &port, sizeof(port));
    close_expression(batch, load);
    struct expression expression = open_expression(batch, "tproxy");
    pin_netlink_put_be32(batch, NFTA_TPROXY_FAMILY, NFPROTO_UNSPEC);
    pin_netlink_put_be32(batch, NFTA_TPROXY_REG_PORT, NFT_REG_1);
    close_expression(batch, expression);
}

static void tell(struct pin_netlink *batch, uint16_t number) {
    uint16_t group = htons(number);
    struct expression expression = open_expression(batch, "log");
    pin_netlink_put(batch, NFTA_LOG_GROUP, &group, sizeof(group));
    close_expression(batch, expression);
}

static void report(struct pin_netlink *batch) {
    tell(batch, PIN_EGRESS_LOG_GROUP);
}

/* Beyond this rate the rule ends here, and the next one holds. */
static void at_most(struct pin_netlink *batch, uint64_t per_second, uint32_t burst) {
    struct expression expression = open_expression(batch, "limit");
    uint64_t rate = htobe64(per_second), unit = htobe64(1);
    pin_netlink_put(batch, NFTA_LIMIT_RATE, &rate, sizeof(rate));
    pin_netlink_put(batch, NFTA_LIMIT_UNIT, &unit, sizeof(unit));
    pin_netlink_put_be32(batch, NFTA_LIMIT_BURST, burst);
    pin_netlink_put_be32(batch, NFTA_LIMIT_TYPE, NFT_LIMIT_PKTS);
    close_expression(batch, expression);
}

static void reject(struct pin_netlink *batch, uint32_t type, uint8_t code) {
    struct expression expression = open_expression(batch, "reject");
    pin_netlink_put_be32(batch, NFTA_REJECT_TYPE, type);
    pin_netlink_put(batch, NFTA_REJECT_ICMP_CODE, &code, sizeof(code));
    close_expression(batch, expression);
}

/* The rules in their order; each begins with the facts that it asks for. */

static void own_packets(struct pin_netlink *batch) {
    uint32_t mark = PIN_EGRESS_MARK; /* host order: a register holds it as the packet does */
    load_meta(batch, NFT_META_MARK);
    must_equal(batch, &mark, sizeof(mark));
    accept_packet(batch);
}

static void loopback_v4(struct pin_netlink *batch) {
    load_meta(batch, NFT_META_NFPROTO);
    must_equal_byte(batch, NFPROTO_IPV4);
    load_payload(batch, NFT_PAYLOAD_NETWORK_HEADER, 16, 1); /* the destination's first byte */
    must_equal_byte(batch, 127);
    accept_packet(batch);
}

static void loopback_v6(struct pin_netlink *batch) {
    load_meta(batch, NFT_META_NFPROTO);
    must_equal_byte(batch, NFPROTO_IPV6);
    load_payload(batch, NFT_PAYLOAD_NETWORK_HEADER, 24, 16);
    must_equal(batch, &in6addr_loopback, sizeof(in6addr_loopback));
    accept_packet(batch);
}

static void protocol_is(struct pin_netlink *batch, uint8_t protocol) {
    load_meta(batch, NFT_META_L4PROTO);
    must_equal_byte(batch, protocol);
}

/* What our own rejections answer with comes by here, too. */
static void rejections_v4(struct pin_netlink *batch) {
    protocol_is(batch, IPPROTO_ICMP);
    load_payload(batch, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1);
    must_equal_byte(batch, ICMP_DEST_UNREACH);
    accept_packet(batch);
}

static void rejections_v6(struct pin_netlink *batch) {
    protocol_is(batch, IPPROTO_ICMPV6);
    load_payload(batch, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1);
    must_equal_byte(batch, ICMPV6_DEST_UNREACH);
    accept_packet(batch);
}

static void questions(struct pin_netlink *batch, uint8_t protocol) {
    uint16_t port = htons(PIN_EGRESS_DNS_PORT);
    protocol_is(batch, protocol);
    load_payload(batch, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2);
    must_equal(batch, &port, sizeof(port));
    accept_packet(batch);
}

static void questions_udp(struct pin_netlink *batch) {
    questions(batch, IPPROTO_UDP);
}

static void questions_tcp(struct pin_netlink *batch) {
    questions(batch, IPPROTO_TCP);
}

/* The addresses that stand for names: synthetic.h. */
static void is_name_v4(struct pin_netlink *batch) {
    static const uint8_t mask[2] = {0xff, 0xfe}, network[2] = {198, 18};
    load_meta(batch, NFT_META_NFPROTO);
    must_equal_byte(batch, NFPROTO_IPV4);
    load_payload(batch, NFT_PAYLOAD_NETWORK_HEADER, 16, sizeof(network));
    mask_bits(batch, mask, sizeof(mask));
    must_equal(batch, network, sizeof(network));
}

static void is_name_v6(struct pin_netlink *batch) {
    static const uint8_t network[8] = {0xfd, 'p', 'i', 'n', 'f', 'o', 'l', 'd'};
    load_meta(batch, NFT_META_NFPROTO);
    must_equal_byte(batch, NFPROTO_IPV6);
    load_payload(batch, NFT_PAYLOAD_NETWORK_HEADER, 24, sizeof(network));
    must_equal(batch, network, sizeof(network));
}

/* A packet to a program's own socket ends the rule at `tproxy`, without a verdict. */
static void connections(struct pin_netlink *batch) {
    protocol_is(batch, IPPROTO_TCP);
    to_broker(batch);
    accept_packet(batch);
}

static void connections_v4(struct pin_netlink *batch) {
    is_name_v4(batch);
    connections(batch);
}

static void connections_v6(struct pin_netlink *batch) {
    is_name_v6(batch);
    connections(batch);
}

static void flags_are(struct pin_netlink *batch, uint8_t mask, uint8_t flags) {
    protocol_is(batch, IPPROTO_TCP);
    load_payload(batch, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS_OFFSET, 1);
    mask_bits(batch, &mask, 1);
    must_equal_byte(batch, flags);
}

/* The broker has dialled, and sends it again. */
static void let_in(struct pin_netlink *batch) {
    uint32_t mark = PIN_EGRESS_OPEN_MARK;
    load_meta(batch, NFT_META_MARK);
    must_equal(batch, &mark, sizeof(mark));
    flags_are(batch, TCP_SYN, TCP_SYN);
    to_broker(batch);
    accept_packet(batch);
}

/* The first segment of a connection: the broker is told, and dials; openings.h. */
static void openings(struct pin_netlink *batch) {
    flags_are(batch, TCP_SYN | TCP_ACK, TCP_SYN);
    at_most(batch, OPENINGS_PER_SECOND, OPENINGS_BURST);
    to_broker(batch); /* without its listener the rule ends here, and the connection is refused below */
    tell(batch, PIN_EGRESS_OPEN_GROUP);
    decide(batch, NF_DROP);
}

static void openings_v4(struct pin_netlink *batch) {
    is_name_v4(batch);
    openings(batch);
}

static void openings_v6(struct pin_netlink *batch) {
    is_name_v6(batch);
    openings(batch);
}

/* Resets and the like; a segment that opens nothing can only reach who is there. */
static void other_segments(struct pin_netlink *batch) {
    flags_are(batch, TCP_SYN, 0);
    accept_packet(batch);
}

static void datagrams(struct pin_netlink *batch) {
    protocol_is(batch, IPPROTO_UDP);
    to_broker(batch);
    accept_packet(batch);
}

static void rest_of_tcp(struct pin_netlink *batch) {
    protocol_is(batch, IPPROTO_TCP);
    report(batch);
    reject(batch, NFT_REJECT_TCP_RST, 0);
}

static void rest(struct pin_netlink *batch) {
    report(batch);
    reject(batch, NFT_REJECT_ICMPX_UNREACH, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
}

enum when { ALWAYS, NAMES_ONLY, ADDRESSES_TOO, UDP_TOO };

static const struct {
    void (*put)(struct pin_netlink *batch);
    enum when when;
} rules[] = {
    {own_packets,    ALWAYS       },
    {loopback_v4,    ALWAYS       },
    {loopback_v6,    ALWAYS       },
    {rejections_v4,  ALWAYS       },
    {rejections_v6,  ALWAYS       },
    {questions_udp,  ALWAYS       },
    {questions_tcp,  ALWAYS       },
    {let_in,         ALWAYS       },
    {openings,       ADDRESSES_TOO},
    {openings_v4,    NAMES_ONLY   },
    {openings_v6,    NAMES_ONLY   },
    {connections,    ADDRESSES_TOO},
    {connections_v4, NAMES_ONLY   },
    {connections_v6, NAMES_ONLY   },
    {other_segments, ALWAYS       },
    {datagrams,      UDP_TOO      },
    {rest_of_tcp,    ALWAYS       },
    {rest,           ALWAYS       },
};

static bool applies(enum when when, const struct pin_egress_plan *plan) {
    switch (when) {
    case ALWAYS: return true;
    case NAMES_ONLY: return !plan->addresses;
    case ADDRESSES_TOO: return plan->addresses;
    case UDP_TOO: return plan->udp;
    }
    return true;
}

#define RULE_COUNT (sizeof(rules) / sizeof(rules[0]))

static void put_chain(struct pin_netlink *batch) {
    begin_nft(batch, NFT_MSG_NEWCHAIN, 0);
    pin_netlink_put_text(batch, NFTA_CHAIN_TABLE, TABLE);
    pin_netlink_put_text(batch, NFTA_CHAIN_NAME, CHAIN);
    size_t hook = pin_netlink_open(batch, NFTA_CHAIN_HOOK);
    pin_netlink_put_be32(batch, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
    pin_netlink_put_be32(batch, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY_MANGLE);
    pin_netlink_close(batch, hook);
    pin_netlink_put_be32(batch, NFTA_CHAIN_POLICY, NF_DROP);
    pin_netlink_put_text(batch, NFTA_CHAIN_TYPE, "filter");
}

static void put_rule(struct pin_netlink *batch, void (*put)(struct pin_netlink *), uint16_t flags) {
    begin_nft(batch, NFT_MSG_NEWRULE, (uint16_t)(NLM_F_APPEND | flags));
    pin_netlink_put_text(batch, NFTA_RULE_TABLE, TABLE);
    pin_netlink_put_text(batch, NFTA_RULE_CHAIN, CHAIN);
    size_t list = pin_netlink_open(batch, NFTA_RULE_EXPRESSIONS);
    put(batch);
    pin_netlink_close(batch, list);
}

void pin_egress_table(struct pin_netlink *batch, const struct pin_egress_plan *plan) {
    begin(batch, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    begin_nft(batch, NFT_MSG_NEWTABLE, 0);
    pin_netlink_put_text(batch, NFTA_TABLE_NAME, TABLE);
    put_chain(batch);
    for (size_t i = 0; i < RULE_COUNT; i++)
        if (applies(rules[i].when, plan))
            put_rule(batch, rules[i].put, i + 1 == RULE_COUNT ? NLM_F_ACK : 0);
    begin(batch, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
}
