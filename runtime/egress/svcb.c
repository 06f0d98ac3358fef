#include "runtime/egress/svcb.h"
#include "runtime/egress/dns_message.h"

#include <string.h>

#include "base/cursor.h"
#include "runtime/egress/wire_name.h"

#define HEADER_SIZE 12
#define CLASS_INTERNET 1
#define TYPE_CNAME 5
#define NAME_BYTES_MAX 255
#define LABEL_MAX 63
#define POINTERS_MAX 32
#define ANSWERS_MAX 64
#define ALIASES_MAX 8
#define ALPN_MAX 64
#define PORT_HTTPS 443

enum key { KEY_MANDATORY = 0, KEY_ALPN = 1, KEY_NO_DEFAULT_ALPN = 2, KEY_PORT = 3 };

struct record { /* of the answer section */
    char owner[NAME_BYTES_MAX + 1];
    uint16_t type, class;
    uint32_t ttl_s;
    struct pin_cursor data;
};

/* --- names --- */

/* Labels joined by '.', as they stand but in lower case; what can't be in a host name makes it no name of
 * ours. */
static bool append(char *to, size_t *used, const uint8_t *label, size_t size) {
    if (*used + size + 1 > NAME_BYTES_MAX)
        return false;
    if (*used > 0)
        to[(*used)++] = '.';
    for (size_t i = 0; i < size; i++) {
        char c = (char)label[i];
        if (c <= ' ' || c == '.' || c == 0x7f) /* bytes above are negative */
            return false;
        to[(*used)++] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    }
    to[*used] = '\0';
    return true;
}

/* A name at `in`, which moves past it; pointers lead backwards only, and there are few. */
static bool take_name(const uint8_t *message, struct pin_cursor *in, char to[NAME_BYTES_MAX + 1]) {
    struct pin_cursor at = *in;
    const uint8_t *label;
    size_t used = 0, pointers = 0;
    uint8_t length, low;
    to[0] = '\0';
    for (;;) {
        const uint8_t *start = at.at;
        if (!pin_take_u8(&at, &length))
            return false;
        if (length >= 0xc0) {
            if (!pin_take_u8(&at, &low) || ++pointers > POINTERS_MAX)
                return false;
            if (pointers == 1)
                in->at = at.at;
            const uint8_t *target = message + ((length & 0x3fu) << 8 | low);
            if (target >= start)
                return false;
            at.at = target;
            continue;
        }
        if (length > LABEL_MAX || !pin_take_bytes(&at, length, &label))
            return false;
        if (length == 0)
            break;
        if (!append(to, &used, label, length))
            return false;
    }
    if (pointers == 0)
        in->at = at.at;
    return true;
}

static bool skip_name(struct pin_cursor *in, bool may_be_compressed) {
    const uint8_t *label;
    uint8_t length;
    while (pin_take_u8(in, &length)) {
        if (length >= 0xc0)
            return may_be_compressed && pin_take_u8(in, &length);
        if (length == 0)
            return true;
        if (length > LABEL_MAX || !pin_take_bytes(in, length, &label))
            return false;
    }
    return false;
}

/* --- the message --- */

/* Moves to the answers; how many there are. */
static bool open_answers(const uint8_t *message, size_t size, struct pin_cursor *in, uint16_t *count) {
    uint16_t unused, questions;
    *in = (struct pin_cursor){message, message + size};
    bool whole = pin_take_u16be(in, &unused) && pin_take_u16be(in, &unused) &&
                 pin_take_u16be(in, &questions) && pin_take_u16be(in, count) && pin_take_u16be(in, &unused) &&
                 pin_take_u16be(in, &unused);
    return whole && questions == 1 && skip_name(in, true) && pin_take_u16be(in, &unused) &&
           pin_take_u16be(in, &unused);
}

/* False: the rest can't be read. A record whose owner is no name has none. */
static bool take_record(const uint8_t *message, struct pin_cursor *in, struct record *record) {
    struct pin_cursor name = *in;
    const uint8_t *data;
    uint16_t size;
    if (!take_name(message, &name, record->owner))
        record->owner[0] = '\0';
    if (!skip_name(in, true) || !pin_take_u16be(in, &record->type) || !pin_take_u16be(in, &record->class) ||
        !pin_take_u32be(in, &record->ttl_s) || !pin_take_u16be(in, &size) || !pin_take_bytes(in, size, &data))
        return false;
    record->data = (struct pin_cursor){data, data + size};
    return true;
}

/* --- one record --- */

struct service {
    uint16_t priority, port;
    char target[PIN_HOST_MAX]; /* "": the owner itself */
    struct pin_cursor alpn, mandatory;
    bool no_default_alpn, has_port;
};

static bool take_param(struct service *service, uint16_t key, struct pin_cursor value) {
    switch (key) {
    case KEY_MANDATORY: service->mandatory = value; return pin_left(&value) >= 2 && pin_left(&value) % 2 == 0;
    case KEY_ALPN: service->alpn = value; return pin_left(&value) >= 2;
    case KEY_NO_DEFAULT_ALPN: service->no_default_alpn = true; return pin_left(&value) == 0;
    case KEY_PORT:
        service->has_port = true;
        return pin_take_u16be(&value, &service->port) && pin_left(&value) == 0;
    default: return true; /* ech, address hints, and what we don't know: left out */
    }
}

static bool take_params(struct pin_cursor *in, struct service *service) {
    const uint8_t *value;
    uint16_t key, size;
    int last = -1;
    while (pin_left(in) > 0) {
        if (!pin_take_u16be(in, &key) || !pin_take_u16be(in, &size) || !pin_take_bytes(in, size, &value) ||
            key <= last || !take_param(service, key, (struct pin_cursor){value, value + size}))
            return false;
        last = key;
    }
    return true;
}

/* The target is never compressed: RFC 9460 2.2. */
static bool take_target(struct pin_cursor *in, struct service *service) {
    char name[NAME_BYTES_MAX + 1];
    struct pin_cursor at = *in;
    if (!skip_name(in, false) || !take_name(at.at, &at, name))
        return false;
    service->target[0] = '\0';
    return name[0] == '\0' || pin_wire_name(service->target, name, strlen(name));
}

static bool take_service(struct pin_cursor in, struct service *service) {
    *service = (struct service){.port = PORT_HTTPS};
    return pin_take_u16be(&in, &service->priority) && take_target(&in, service) && take_params(&in, service);
}

/* --- what may stand --- */

static bool opens(const struct pin_egress_rules *rules, const char *host, uint16_t port,
                  enum pin_protocol protocol) {
    struct pin_destination to = {.host = host, .port = port, .protocol = protocol};
    return pin_egress_judge(rules, &to).allowed;
}

/* "h3" and its drafts, and DNS over QUIC: over UDP. */
static bool is_over_udp(const uint8_t *id, size_t size) {
    return (size >= 2 && memcmp(id, "h3", 2) == 0) || (size == 3 && memcmp(id, "doq", 3) == 0) ||
           (size >= 2 && memcmp(id, "hq", 2) == 0);
}

/* The protocols that may be spoken; false: the list can't be read. */
static bool keep_alpn(struct pin_cursor list, bool udp, uint8_t to[ALPN_MAX], size_t *kept) {
    const uint8_t *id;
    uint8_t size;
    *kept = 0;
    while (pin_left(&list) > 0) {
        if (!pin_take_u8(&list, &size) || size == 0 || !pin_take_bytes(&list, size, &id))
            return false;
        if ((is_over_udp(id, size) && !udp) || *kept + 1 + size > ALPN_MAX)
            continue;
        to[(*kept)++] = size;
        memcpy(to + *kept, id, size);
        *kept += size;
    }
    return true;
}

/* What the record says must be understood is still in it. */
static bool holds_mandatory(struct pin_cursor keys, bool alpn, const struct service *service) {
    const bool stands[] = {
        [KEY_ALPN] = alpn, [KEY_NO_DEFAULT_ALPN] = service->no_default_alpn, [KEY_PORT] = service->has_port};
    int last = 0;
    for (uint16_t key; pin_take_u16be(&keys, &key); last = key)
        if (key <= last || key > KEY_PORT || !stands[key])
            return false;
    return true;
}

static uint8_t *put_param(uint8_t *to, enum key key, const void *value, size_t size) {
    to = pin_dns_put_u16(pin_dns_put_u16(to, key), (unsigned)size);
    if (size > 0)
        memcpy(to, value, size);
    return to + size;
}

/* priority, target (255), mandatory (three keys), alpn, no-default-alpn, port */
_Static_assert(2 + 255 + (4 + 6) + (4 + ALPN_MAX) + 4 + 6 <= PIN_SVCB_DATA_MAX, "a record has room");

static bool keep_service(const struct service *service, const char *host,
                         const struct pin_egress_rules *rules, struct pin_svcb_record *to) {
    const char *target = service->target[0] != '\0' ? service->target : host;
    uint8_t alpn[ALPN_MAX], port[2],
        *at = pin_dns_put_name(pin_dns_put_u16(to->data, service->priority), service->target);
    size_t kept;
    if (!opens(rules, target, service->port, PIN_PROTOCOL_TCP) ||
        !keep_alpn(service->alpn, opens(rules, target, service->port, PIN_PROTOCOL_UDP), alpn, &kept) ||
        (service->no_default_alpn && kept == 0) || !holds_mandatory(service->mandatory, kept > 0, service))
        return false;
    if (pin_left(&service->mandatory) > 0) /* at most three keys: holds_mandatory() */
        at = put_param(at, KEY_MANDATORY, service->mandatory.at, pin_left(&service->mandatory));
    if (kept > 0)
        at = put_param(at, KEY_ALPN, alpn, kept);
    if (service->no_default_alpn)
        at = put_param(at, KEY_NO_DEFAULT_ALPN, NULL, 0);
    if (service->has_port)
        at = put_param(at, KEY_PORT, (pin_dns_put_u16(port, service->port), port), sizeof(port));
    to->size = (size_t)(at - to->data);
    return true;
}

/* Another name instead of this one: RFC 9460 2.4.2. */
static bool keep_alias(const struct service *service, const char *host, const struct pin_egress_rules *rules,
                       struct pin_svcb_record *to) {
    if (service->target[0] == '\0' || strcmp(service->target, host) == 0 ||
        !pin_egress_judge_name(rules, service->target).allowed)
        return false;
    to->size = (size_t)(pin_dns_put_name(pin_dns_put_u16(to->data, 0), service->target) - to->data);
    return true;
}

static bool keep(const struct record *record, const char *host, const struct pin_egress_rules *rules,
                 struct pin_svcb_record *to) {
    struct service service;
    to->ttl_s = record->ttl_s;
    if (!take_service(record->data, &service))
        return false;
    return service.priority == 0 ? keep_alias(&service, host, rules, to)
                                 : keep_service(&service, host, rules, to);
}

/* Where the aliases of a name end, in this answer. */
static void follow(const uint8_t *message, struct pin_cursor answers, unsigned count,
                   char name[NAME_BYTES_MAX + 1]) {
    for (unsigned hop = 0; hop < ALIASES_MAX; hop++) {
        struct pin_cursor in = answers;
        struct record record;
        bool found = false;
        for (unsigned i = 0; i < count && !found && take_record(message, &in, &record); i++) {
            struct pin_cursor data = {record.data.at, answers.end};
            found = record.type == TYPE_CNAME && record.class == CLASS_INTERNET &&
                    strcmp(record.owner, name) == 0 && take_name(message, &data, name);
        }
        if (!found)
            return;
    }
}

size_t pin_svcb_read(const uint8_t *message, size_t size, const char *host, uint16_t type,
                     const struct pin_egress_rules *rules,
                     struct pin_svcb_record records[PIN_SVCB_RECORDS_MAX]) {
    char name[NAME_BYTES_MAX + 1] = "";
    struct pin_cursor in;
    struct record record;
    uint16_t count;
    size_t kept = 0, length = strlen(host);
    if (length > NAME_BYTES_MAX || !open_answers(message, size, &in, &count))
        return 0;
    memcpy(name, host, length + 1);
    unsigned most = count < ANSWERS_MAX ? count : ANSWERS_MAX;
    follow(message, in, most, name);
    for (unsigned i = 0; i < most && kept < PIN_SVCB_RECORDS_MAX && take_record(message, &in, &record); i++)
        if (record.type == type && record.class == CLASS_INTERNET && name[0] != '\0' &&
            strcmp(record.owner, name) == 0 && keep(&record, host, rules, &records[kept]))
            kept++;
    return kept;
}
