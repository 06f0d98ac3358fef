#include "runtime/egress/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/netlink.h>

static void *reserve(struct pin_netlink *batch, size_t size) {
    size_t aligned = NLMSG_ALIGN(size);
    if (batch->full || sizeof(batch->data) - batch->used < aligned) {
        batch->full = true;
        return NULL;
    }
    void *at = batch->data + batch->used;
    memset(at, 0, aligned);
    batch->used += aligned;
    return at;
}

static void grow_message(struct pin_netlink *batch) {
    uint32_t length = (uint32_t)(batch->used - batch->message);
    memcpy(batch->data + batch->message, &length, sizeof(length)); /* nlmsg_len is the header's first field */
}

void pin_netlink_begin(struct pin_netlink *batch, uint16_t type, uint16_t flags, const void *header,
                       size_t size) {
    size_t start = batch->used;
    struct nlmsghdr *message = reserve(batch, sizeof(*message) + size);
    if (message == NULL)
        return;
    batch->message = start;
    message->nlmsg_type = type;
    message->nlmsg_flags = (uint16_t)(flags | NLM_F_REQUEST);
    message->nlmsg_seq = ++batch->sequence;
    if (header != NULL)
        memcpy(message + 1, header, size);
    grow_message(batch);
}

void pin_netlink_put(struct pin_netlink *batch, uint16_t type, const void *data, size_t size) {
    struct nlattr *attribute = reserve(batch, sizeof(*attribute) + size);
    if (attribute == NULL)
        return;
    attribute->nla_len = (uint16_t)(sizeof(*attribute) + size);
    attribute->nla_type = type;
    if (size > 0)
        memcpy(attribute + 1, data, size);
    grow_message(batch);
}

void pin_netlink_put_text(struct pin_netlink *batch, uint16_t type, const char *text) {
    pin_netlink_put(batch, type, text, strlen(text) + 1);
}

void pin_netlink_put_be32(struct pin_netlink *batch, uint16_t type, uint32_t value) {
    uint32_t big = htonl(value);
    pin_netlink_put(batch, type, &big, sizeof(big));
}

size_t pin_netlink_open(struct pin_netlink *batch, uint16_t type) {
    size_t place = batch->used;
    pin_netlink_put(batch, (uint16_t)(type | NLA_F_NESTED), NULL, 0);
    return place;
}

void pin_netlink_close(struct pin_netlink *batch, size_t place) {
    uint16_t length = (uint16_t)(batch->used - place);
    if (!batch->full)
        memcpy(batch->data + place, &length, sizeof(length)); /* nla_len is the first field */
}

static bool is_refused(const uint8_t *data, size_t size, unsigned *acknowledged) {
    for (size_t at = 0; at + sizeof(struct nlmsghdr) <= size;) {
        struct nlmsghdr message;
        int code = 0;
        memcpy(&message, data + at, sizeof(message));
        if (message.nlmsg_len < sizeof(message) || message.nlmsg_len > size - at)
            break;
        if (message.nlmsg_type == NLMSG_ERROR && message.nlmsg_len >= sizeof(message) + sizeof(code)) {
            memcpy(&code, data + at + sizeof(message), sizeof(code));
            if (code != 0) {
                errno = -code;
                return true;
            }
            ++*acknowledged;
        }
        at += NLMSG_ALIGN(message.nlmsg_len);
    }
    return false;
}

bool pin_netlink_talk(int socket, const struct pin_netlink *batch, unsigned answers, const char *what,
                      struct pin_error *err) {
    _Alignas(8) uint8_t reply[4096];
    unsigned acknowledged = 0;
    if (batch->full)
        return pin_fail(err, PIN_ERROR_INTERNAL, "%s: the netlink batch is too large", what);
    if (send(socket, batch->data, batch->used, 0) < 0)
        return pin_fail_errno(err, "%s", what);
    while (acknowledged < answers) {
        ssize_t size = recv(socket, reply, sizeof(reply), 0);
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0 || is_refused(reply, (size_t)size, &acknowledged))
            return pin_fail_errno(err, "%s", what);
    }
    return true;
}
