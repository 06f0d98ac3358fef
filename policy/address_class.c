#include "policy/address_class.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/names.h"
#include "policy/egress_rule.h"

#define V4(a, b, c, d)                                                                                       \
    { [10] = 0xff, [11] = 0xff, a, b, c, d }

/* clang-format off */
/* The first row that matches decides: what lies in another block stands before it. */
static const struct block {
    uint8_t network[PIN_ADDRESS_SIZE];
    unsigned bits; /* of an IPv4 address: of its 32 */
    enum pin_address_class class;
} blocks[] = {
    {V4(169, 254, 169, 254), 32, PIN_ADDRESS_METADATA}, /* nearly every cloud */
    {V4(169, 254, 170, 2), 32, PIN_ADDRESS_METADATA}, /* credentials of AWS tasks */
    {V4(169, 254, 170, 23), 32, PIN_ADDRESS_METADATA}, /* and of EKS pods */
    {V4(169, 254, 42, 42), 32, PIN_ADDRESS_METADATA}, /* Scaleway */
    {V4(169, 254, 0, 23), 32, PIN_ADDRESS_METADATA}, /* Tencent */
    {V4(100, 100, 100, 200), 32, PIN_ADDRESS_METADATA}, /* Alibaba */
    {V4(192, 0, 0, 192), 32, PIN_ADDRESS_METADATA}, /* Oracle */
    {V4(168, 63, 129, 16), 32, PIN_ADDRESS_METADATA}, /* Azure's wire server */
    {{0xfd, [2] = 0x0e, 0xc2, [14] = 0x02, 0x54}, 128, PIN_ADDRESS_METADATA}, /* fd00:ec2::254/128: AWS */
    {{0xfd, [2] = 0x0e, 0xc2, [15] = 0x23}, 128, PIN_ADDRESS_METADATA}, /* fd00:ec2::23/128: EKS pods */
    {{0xfd, [3] = 0x42, [15] = 0x42}, 128, PIN_ADDRESS_METADATA}, /* fd00:42::42/128: Scaleway */
    {{0xfd, [2] = 0xa9, 0xfe, 0xa9, 0xfe, [15] = 0x01}, 128, PIN_ADDRESS_METADATA}, /* fd00:a9fe:a9fe::1/128: Akamai */
    {{0xfe, 0x80, [12] = 0xa9, 0xfe, 0xa9, 0xfe}, 128, PIN_ADDRESS_METADATA}, /* fe80::a9fe:a9fe/128: OpenStack */
    {{0xfd, 0x20, [3] = 0xce, [14] = 0x02, 0x54}, 128, PIN_ADDRESS_METADATA}, /* fd20:ce::254/128: Google */
    {V4(0, 0, 0, 0), 32, PIN_ADDRESS_UNSPECIFIED}, /* the loopback, to who dials it */
    {V4(0, 0, 0, 0), 8, PIN_ADDRESS_UNSPECIFIED},
    {V4(127, 0, 0, 0), 8, PIN_ADDRESS_LOOPBACK},
    {V4(10, 0, 0, 0), 8, PIN_ADDRESS_PRIVATE},
    {V4(172, 16, 0, 0), 12, PIN_ADDRESS_PRIVATE},
    {V4(192, 168, 0, 0), 16, PIN_ADDRESS_PRIVATE},
    {V4(100, 64, 0, 0), 10, PIN_ADDRESS_SHARED},
    {V4(169, 254, 0, 0), 16, PIN_ADDRESS_LINK_LOCAL},
    {V4(198, 18, 0, 0), 15, PIN_ADDRESS_BENCHMARK},
    {V4(192, 88, 99, 0), 24, PIN_ADDRESS_6TO4},
    {V4(192, 0, 0, 0), 24, PIN_ADDRESS_RESERVED},
    {V4(224, 0, 0, 0), 4, PIN_ADDRESS_MULTICAST},
    {V4(255, 255, 255, 255), 32, PIN_ADDRESS_BROADCAST},
    {V4(240, 0, 0, 0), 4, PIN_ADDRESS_RESERVED},
    {V4(0, 0, 0, 0), 0, PIN_ADDRESS_PUBLIC},
    {{0}, 128, PIN_ADDRESS_UNSPECIFIED}, /* ::/128 */
    {{[15] = 0x01}, 128, PIN_ADDRESS_LOOPBACK}, /* ::1/128 */
    {{[1] = 0x64, 0xff, 0x9b}, 96, PIN_ADDRESS_NAT64}, /* 64:ff9b::/96 */
    {{[1] = 0x64, 0xff, 0x9b, [5] = 0x01}, 48, PIN_ADDRESS_NAT64}, /* 64:ff9b:1::/48 */
    {{[8] = 0xff, 0xff}, 96, PIN_ADDRESS_EMBEDDED}, /* ::ffff:0:0:0/96 */
    {{0}, 96, PIN_ADDRESS_EMBEDDED}, /* ::/96 */
    {{0x20, 0x02}, 16, PIN_ADDRESS_6TO4}, /* 2002::/16 */
    {{0x20, 0x01}, 32, PIN_ADDRESS_TEREDO}, /* 2001::/32 */
    {{0x20, 0x01, 0x0d, 0xb8}, 32, PIN_ADDRESS_PUBLIC}, /* 2001:db8::/32 */
    {{0x20, 0x01}, 23, PIN_ADDRESS_RESERVED}, /* 2001::/23: protocol assignments, ORCHID */
    {{0xfc}, 7, PIN_ADDRESS_PRIVATE}, /* fc00::/7 */
    {{0xfe, 0x80}, 10, PIN_ADDRESS_LINK_LOCAL}, /* fe80::/10 */
    {{0xfe, 0xc0}, 10, PIN_ADDRESS_PRIVATE}, /* fec0::/10: site-local, withdrawn */
    {{0xff}, 8, PIN_ADDRESS_MULTICAST}, /* ff00::/8 */
    {{0x20}, 3, PIN_ADDRESS_PUBLIC}, /* 2000::/3 */
    {{0}, 3, PIN_ADDRESS_RESERVED}, /* ::/3, 4000::/2, 8000::/1: nothing else is assigned */
    {{0x40}, 2, PIN_ADDRESS_RESERVED},
    {{0x80}, 1, PIN_ADDRESS_RESERVED},
};
/* clang-format on */

static const char *const class_names[] = {
    [PIN_ADDRESS_PUBLIC] = "public",
    [PIN_ADDRESS_UNSPECIFIED] = "unspecified",
    [PIN_ADDRESS_LOOPBACK] = "loopback",
    [PIN_ADDRESS_PRIVATE] = "private",
    [PIN_ADDRESS_SHARED] = "shared",
    [PIN_ADDRESS_LINK_LOCAL] = "link-local",
    [PIN_ADDRESS_METADATA] = "metadata",
    [PIN_ADDRESS_MULTICAST] = "multicast",
    [PIN_ADDRESS_BROADCAST] = "broadcast",
    [PIN_ADDRESS_BENCHMARK] = "benchmark",
    [PIN_ADDRESS_RESERVED] = "reserved",
    [PIN_ADDRESS_NAT64] = "nat64",
    [PIN_ADDRESS_6TO4] = "6to4",
    [PIN_ADDRESS_TEREDO] = "teredo",
    [PIN_ADDRESS_EMBEDDED] = "embedded-ipv4",
};
_Static_assert(PIN_COUNT(class_names) == PIN_ADDRESS_CLASS_COUNT, "every class has a name");

const char *pin_address_class_name(enum pin_address_class class) {
    return class_names[class];
}

#define ISATAP_BITS 96

/* ISATAP interface ids carry an IPv4 address below any prefix. */
static bool is_isatap(const uint8_t address[PIN_ADDRESS_SIZE]) {
    return (address[8] == 0 || address[8] == 2) && address[9] == 0 && address[10] == 0x5e &&
           address[11] == 0xfe;
}

static uint8_t bits_of(const struct block *block) {
    return (uint8_t)(block->bits + (pin_address_is_ipv4(block->network) ? 96 : 0));
}

struct pin_address_block pin_address_block(const uint8_t range[PIN_ADDRESS_SIZE], uint8_t prefix) {
    struct pin_address_block found = {.class = PIN_ADDRESS_PUBLIC};
    if (prefix >= ISATAP_BITS && !pin_address_is_ipv4(range) && is_isatap(range)) {
        found = (struct pin_address_block){.class = PIN_ADDRESS_EMBEDDED, .prefix = ISATAP_BITS};
        memcpy(found.network, range, ISATAP_BITS / 8);
        return found;
    }
    for (size_t i = 0; i < PIN_COUNT(blocks); i++) {
        const struct block *block = &blocks[i];
        if (bits_of(block) > prefix || !pin_cidr_contains(block->network, bits_of(block), range))
            continue;
        if (block->class == PIN_ADDRESS_PUBLIC)
            break;
        found = (struct pin_address_block){.class = block->class, .prefix = bits_of(block)};
        memcpy(found.network, block->network, sizeof(found.network));
        break;
    }
    return found;
}

enum pin_address_class pin_address_classify(const uint8_t address[PIN_ADDRESS_SIZE]) {
    return pin_address_block(address, 8 * PIN_ADDRESS_SIZE).class;
}

bool pin_address_carried(uint8_t to[PIN_ADDRESS_SIZE], const uint8_t address[PIN_ADDRESS_SIZE]) {
    struct pin_address_block block = pin_address_block(address, 8 * PIN_ADDRESS_SIZE);
    bool is_last = block.class == PIN_ADDRESS_EMBEDDED || block.class == PIN_ADDRESS_TEREDO ||
                   (block.class == PIN_ADDRESS_NAT64 && block.prefix == 96);
    if (pin_address_is_ipv4(address) || (!is_last && block.class != PIN_ADDRESS_6TO4))
        return false;
    const uint8_t *from = address + (is_last ? 12 : 2);
    uint8_t mask = block.class == PIN_ADDRESS_TEREDO ? 0xff : 0; /* RFC 4380 4: of the client, inverted */
    memset(to, 0, 10);
    memset(to + 10, 0xff, 2);
    for (unsigned i = 0; i < 4; i++)
        to[12 + i] = from[i] ^ mask;
    return true;
}

bool pin_address_parse(uint8_t to[PIN_ADDRESS_SIZE], const char *text) {
    uint8_t v4[4];
    if (inet_pton(AF_INET6, text, to) == 1)
        return true;
    if (inet_pton(AF_INET, text, v4) != 1)
        return false;
    memset(to, 0, 10);
    memset(to + 10, 0xff, 2);
    memcpy(to + 12, v4, sizeof(v4));
    return true;
}

char *pin_address_print(char to[PIN_ADDRESS_TEXT], const uint8_t address[PIN_ADDRESS_SIZE]) {
    bool v4 = pin_address_is_ipv4(address);
    return (char *)(uintptr_t)inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? address + 12 : address, to,
                                        PIN_ADDRESS_TEXT);
}
