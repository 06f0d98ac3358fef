#include "runtime/egress/broker/raw.h"

#include <sys/socket.h>

#include "base/io.h"
#include "policy/egress_rule.h"
#include "runtime/egress/broker/dial.h"

void raw_send(struct raw raw, const struct pin_ip_end *to, const uint8_t *packet, size_t size) {
    struct sockaddr_storage place;
    unsigned place_size = dial_sockaddr(&place, to->address, 0); /* a raw socket takes no port */
    int fd = pin_address_is_ipv4(to->address) ? raw.v4 : raw.v6;
    pin_ignore(sendto(fd, packet, size, MSG_DONTWAIT, (const struct sockaddr *)&place, place_size));
}
