#include "policy/address_class.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/names.h"
#include "policy/egress_rule.h"

/* The first row that matches decides: single addresses stand before the networks around them. */
static const struct block {
    const char *network;
    unsigned bits;
    enum pin_address_class class;
} blocks[] = {
    {"169.254.169.254", 32,  PIN_ADDRESS_METADATA   }, /* nearly every cloud */
    {"169.254.170.2",   32,  PIN_ADDRESS_METADATA   }, /* credentials of AWS tasks */
    {"100.100.100.200", 32,  PIN_ADDRESS_METADATA   }, /* Alibaba */
    {"192.0.0.192",     32,  PIN_ADDRESS_METADATA   }, /* Oracle */
    {"168.63.129.16",   32,  PIN_ADDRESS_METADATA   }, /* Azure's wire server */
    {"fd00:ec2::254",   128, PIN_ADDRESS_METADATA   }, /* AWS */
    {"fd20:ce::254",    128, PIN_ADDRESS_METADATA   }, /* Google */
    {"0.0.0.0",         8,   PIN_ADDRESS_UNSPECIFIED},
    {"127.0.0.0",       8,   PIN_ADDRESS_LOOPBACK   },
    {"10.0.0.0",        8,   PIN_ADDRESS_PRIVATE    },
    {"172.16.0.0",      12,  PIN_ADDRESS_PRIVATE    },
    {"192.168.0.0",     16,  PIN_ADDRESS_PRIVATE    },
    {"100.64.0.0",      10,  PIN_ADDRESS_SHARED     },
    {"169.254.0.0",     16,  PIN_ADDRESS_LINK_LOCAL },
    {"198.18.0.0",      15,  PIN_ADDRESS_BENCHMARK  },
    {"192.88.99.0",     24,  PIN_ADDRESS_6TO4       },
    {"192.0.0.0",       24,  PIN_ADDRESS_RESERVED   },
    {"224.0.0.0",       4,   PIN_ADDRESS_MULTICAST  },
    {"255.255.255.255", 32,  PIN_ADDRESS_BROADCAST  },
    {"240.0.0.0",       4,   PIN_ADDRESS_RESERVED   },
    {"0.0.0.0",         0,   PIN_ADDRESS_PUBLIC     },
    {"::",              128, PIN_ADDRESS_UNSPECIFIED},
    {"::1",             128, PIN_ADDRESS_LOOPBACK   },
    {"64:ff9b::",       96,  PIN_ADDRESS_NAT64      },
    {"64:ff9b:1::",     48,  PIN_ADDRESS_NAT64      },
    {"::ffff:0:0:0",    96,  PIN_ADDRESS_EMBEDDED   },
    {"::",              96,  PIN_ADDRESS_EMBEDDED   },
    {"2002::",          16,  PIN_ADDRESS_6TO4       },
    {"2001::",          32,  PIN_ADDRESS_TEREDO     },
    {"2001:db8::",      32,  PIN_ADDRESS_PUBLIC     },
    {"2001::",          23,  PIN_ADDRESS_RESERVED   }, /* protocol assignments, ORCHID */
    {"fc00::",          7,   PIN_ADDRESS_PRIVATE    },
    {"fe80::",          10,  PIN_ADDRESS_LINK_LOCAL },
    {"fec0::",          10,  PIN_ADDRESS_PRIVATE    }, /* site-local, withdrawn */
    {"ff00::",          8,   PIN_ADDRESS_MULTICAST  },
    {"2000::",          3,   PIN_ADDRESS_PUBLIC     },
    {"::",              0,   PIN_ADDRESS_RESERVED   }, /* nothing else is assigned */
};

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

/* ISATAP interface ids carry an IPv4 address below any prefix. */
static bool is_isatap(const uint8_t address[PIN_ADDRESS_SIZE]) {
    return (address[8] == 0 || address[8] == 2) && address[9] == 0 && address[10] == 0x5e &&
           address[11] == 0xfe;
}

static bool is_in_block(const uint8_t address[PIN_ADDRESS_SIZE], const struct block *block) {
    uint8_t network[PIN_ADDRESS_SIZE];
    if (!pin_address_parse(network, block->network))
        return false;
    unsigned bits = block->bits + (pin_address_is_ipv4(network) ? 96 : 0);
    return pin_cidr_contains(network, (uint8_t)bits, address);
}

enum pin_address_class pin_address_classify(const uint8_t address[PIN_ADDRESS_SIZE]) {
    if (!pin_address_is_ipv4(address) && is_isatap(address))
        return PIN_ADDRESS_EMBEDDED;
    for (size_t i = 0; i < PIN_COUNT(blocks); i++)
        if (is_in_block(address, &blocks[i]))
            return blocks[i].class;
    return PIN_ADDRESS_RESERVED;
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
