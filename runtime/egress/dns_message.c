#include "runtime/egress/dns_message.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cursor.h"
#include "runtime/egress/svcb.h"

#define HEADER_SIZE 12
#define OPT_SIZE 11
#define RECORD_HEAD_SIZE 12
#define NAME_MAX_BYTES 255
#define LABEL_MAX 63
#define TYPE_OPT 41
#define FLAG_RESPONSE 0x8000u
#define FLAG_TRUNCATED 0x0200u
#define FLAG_RECURSION 0x0100u
#define FLAG_AVAILABLE 0x0080u
#define MASK_OPCODE 0x7800u
#define PAYLOAD_MIN 512
#define PAYLOAD_SIZE 1232 /* what we say we take; DNS flag day 2020 */

static bool is_plain(uint8_t byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           byte == '-' || byte == '_';
}

static void append_label(struct pin_dns_question *question, const uint8_t *label, size_t size) {
    char *to = question->name + question->name_size;
    if (question->name_size > 0)
        *to++ = '.';
    for (size_t i = 0; i < size; i++) {
        if (is_plain(label[i]))
            *to++ = (char)label[i];
        else if (label[i] == '.' || label[i] == '\\')
            to += sprintf(to, "\\%c", label[i]);
        else
            to += sprintf(to, "\\%03u", label[i]);
    }
    *to = '\0';
    question->name_size = (size_t)(to - question->name);
}

static bool take_name(struct pin_cursor *in, struct pin_dns_question *question) {
    const uint8_t *start = in->at, *label;
    uint8_t length;
    for (;;) {
        if (!pin_take_u8(in, &length) || length > LABEL_MAX) /* a pointer has nothing to point to yet */
            return false;
        if (length == 0)
            return true;
        if (!pin_take_bytes(in, length, &label) || in->at - start >= NAME_MAX_BYTES)
            return false;
        append_label(question, label, length);
    }
}

/* EDNS is one record of the root with type OPT; anything else there is nothing that we'd answer to. */
static bool has_opt(struct pin_cursor in, uint16_t *payload) {
    uint8_t root;
    uint16_t type;
    return pin_take_u8(&in, &root) && root == 0 && pin_take_u16be(&in, &type) && type == TYPE_OPT &&
           pin_take_u16be(&in, payload);
}

static uint16_t room_of(uint16_t payload) {
    if (payload < PAYLOAD_MIN)
        return PAYLOAD_MIN;
    return payload < PAYLOAD_SIZE ? payload : PAYLOAD_SIZE;
}

enum pin_dns_reading pin_dns_read(const uint8_t *message, size_t size, struct pin_dns_question *question,
                                  enum pin_dns_code *code) {
    struct pin_cursor in = {message, message + size};
    uint16_t flags, questions, answers, authorities, additional;
    *question = (struct pin_dns_question){.bytes = NULL};
    bool whole = pin_take_u16be(&in, &question->id) && pin_take_u16be(&in, &flags) &&
                 pin_take_u16be(&in, &questions) && pin_take_u16be(&in, &answers) &&
                 pin_take_u16be(&in, &authorities) && pin_take_u16be(&in, &additional);
    if (!whole || (flags & FLAG_RESPONSE) != 0)
        return PIN_DNS_DROP;
    question->flags = flags & (MASK_OPCODE | FLAG_RECURSION);
    *code = PIN_DNS_NOT_IMPLEMENTED;
    if ((flags & MASK_OPCODE) != 0)
        return PIN_DNS_FAULTY;
    *code = PIN_DNS_FORMAT;
    if (questions != 1 || answers != 0 || authorities != 0)
        return PIN_DNS_FAULTY;
    const uint8_t *start = in.at;
    if (!take_name(&in, question) || !pin_take_u16be(&in, &question->type) ||
        !pin_take_u16be(&in, &question->class))
        return PIN_DNS_FAULTY;
    question->bytes = start;
    question->size = (size_t)(in.at - start);
    uint16_t payload = PAYLOAD_MIN;
    question->edns = additional > 0 && has_opt(in, &payload);
    question->room = room_of(payload);
    return PIN_DNS_GOOD;
}

uint8_t *pin_dns_put_u16(uint8_t *to, unsigned value) {
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
    return to + 2;
}

uint8_t *pin_dns_put_name(uint8_t *to, const char *name) {
    while (*name != '\0') {
        size_t length = strcspn(name, ".");
        *to++ = (uint8_t)length;
        memcpy(to, name, length);
        to += length;
        name += name[length] == '.' ? length + 1 : length;
    }
    *to++ = 0;
    return to;
}

static uint8_t *put_data(uint8_t *to, const struct pin_dns_record *record) {
    if (record->type == PIN_DNS_PTR)
        return pin_dns_put_name(to, record->name);
    size_t size = record->type == PIN_DNS_A ? 4 : 16;
    memcpy(to, record->address, size);
    return to + size;
}

/* Of a record of the question's name. */
static uint8_t *put_record_head(uint8_t *to, uint16_t type, uint32_t ttl_s) {
    to = pin_dns_put_u16(to, 0xc000u | HEADER_SIZE);
    to = pin_dns_put_u16(to, type);
    to = pin_dns_put_u16(to, 1);
    to = pin_dns_put_u16(to, ttl_s >> 16);
    return pin_dns_put_u16(to, ttl_s & 0xffffu);
}

static uint8_t *put_record(uint8_t *to, const struct pin_dns_record *record) {
    to = put_record_head(to, record->type, record->ttl_s);
    uint8_t *length = to, *data = to + 2;
    to = put_data(data, record);
    (void)pin_dns_put_u16(length, (unsigned)(to - data));
    return to;
}

static uint8_t *put_opt(uint8_t *to) {
    *to++ = 0;
    to = pin_dns_put_u16(to, TYPE_OPT);
    to = pin_dns_put_u16(to, PAYLOAD_SIZE);
    memset(to, 0, 6); /* extended code, version, flags; no options */
    return to + 6;
}

static uint8_t *put_head(uint8_t *to, const struct pin_dns_question *question, unsigned code,
                         unsigned answers) {
    to = pin_dns_put_u16(to, question->id);
    to = pin_dns_put_u16(to, FLAG_RESPONSE | FLAG_AVAILABLE | question->flags | code);
    to = pin_dns_put_u16(to, question->bytes != NULL);
    to = pin_dns_put_u16(to, answers);
    to = pin_dns_put_u16(to, 0);
    return pin_dns_put_u16(to, question->edns);
}

size_t pin_dns_write(uint8_t to[PIN_DNS_MESSAGE_MAX], const struct pin_dns_question *question,
                     enum pin_dns_code code, const struct pin_dns_record *record) {
    uint8_t *at = put_head(to, question, code, record != NULL);
    if (question->bytes != NULL) {
        memcpy(at, question->bytes, question->size);
        at += question->size;
    }
    if (record != NULL)
        at = put_record(at, record);
    if (question->edns)
        at = put_opt(at);
    return (size_t)(at - to);
}

size_t pin_dns_write_service(uint8_t *to, size_t room, const struct pin_dns_question *question,
                             const struct pin_svcb_record *records, size_t count, uint32_t ttl_max_s) {
    uint8_t *end = to + room - (question->edns ? OPT_SIZE : 0);
    uint8_t *at = to + HEADER_SIZE + question->size;
    size_t fit = 0;
    memcpy(to + HEADER_SIZE, question->bytes, question->size);
    for (; fit < count && (size_t)(end - at) >= RECORD_HEAD_SIZE + records[fit].size; fit++) {
        uint32_t ttl_s = records[fit].ttl_s < ttl_max_s ? records[fit].ttl_s : ttl_max_s;
        at = pin_dns_put_u16(put_record_head(at, question->type, ttl_s), (unsigned)records[fit].size);
        memcpy(at, records[fit].data, records[fit].size);
        at += records[fit].size;
    }
    if (question->edns)
        at = put_opt(at);
    (void)put_head(to, question, PIN_DNS_NO_ERROR | (fit < count ? FLAG_TRUNCATED : 0), (unsigned)fit);
    return (size_t)(at - to);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    int lower = c | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool reverse_six(const char *name, uint8_t address[16]) {
    for (size_t i = 0; i < 32; i++, name += 2) {
        int digit = hex_digit(name[0]);
        if (digit < 0 || name[1] != '.')
            return false;
        uint8_t *byte = &address[15 - i / 2];
        *byte = (uint8_t)(i % 2 == 0 ? digit : *byte | digit << 4);
    }
    return strcasecmp(name, "ip6.arpa") == 0;
}

static bool reverse_four(const char *name, uint8_t address[16]) {
    unsigned parts[4];
    int used = 0;
    if (strspn(name, "0123456789.") > 16 ||
        sscanf(name, "%3u.%3u.%3u.%3u.%n", &parts[0], &parts[1], &parts[2], &parts[3], &used) != 4 ||
        used == 0)
        return false;
    memset(address, 0, 10);
    memset(address + 10, 0xff, 2);
    for (size_t i = 0; i < 4; i++) {
        if (parts[i] > 255)
            return false;
        address[15 - i] = (uint8_t)parts[i];
    }
    return strcasecmp(name + used, "in-addr.arpa") == 0;
}

bool pin_dns_reverse(const char *name, uint8_t address[16]) {
    return reverse_four(name, address) || reverse_six(name, address);
}
