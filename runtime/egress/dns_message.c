#include "runtime/egress/dns_message.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cursor.h"

#define HEADER_SIZE 12
#define NAME_MAX_BYTES 255
#define LABEL_MAX 63
#define TYPE_OPT 41
#define FLAG_RESPONSE 0x8000u
#define FLAG_RECURSION 0x0100u
#define FLAG_AVAILABLE 0x0080u
#define MASK_OPCODE 0x7800u
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
static bool has_opt(struct pin_cursor in) {
    uint8_t root;
    uint16_t type;
    return pin_take_u8(&in, &root) && root == 0 && pin_take_u16be(&in, &type) && type == TYPE_OPT;
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
    question->edns = additional > 0 && has_opt(in);
    return PIN_DNS_GOOD;
}

static uint8_t *put_u16(uint8_t *to, unsigned value) {
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
    return to + 2;
}

static uint8_t *put_name(uint8_t *to, const char *name) {
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
        return put_name(to, record->name);
    size_t size = record->type == PIN_DNS_A ? 4 : 16;
    memcpy(to, record->address, size);
    return to + size;
}

static uint8_t *put_record(uint8_t *to, const struct pin_dns_record *record) {
    to = put_u16(to, 0xc000u | HEADER_SIZE); /* the question's name */
    to = put_u16(to, record->type);
    to = put_u16(to, 1);
    to = put_u16(to, record->ttl_s >> 16);
    to = put_u16(to, record->ttl_s & 0xffffu);
    uint8_t *length = to, *data = to + 2;
    to = put_data(data, record);
    (void)put_u16(length, (unsigned)(to - data));
    return to;
}

static uint8_t *put_opt(uint8_t *to) {
    *to++ = 0;
    to = put_u16(to, TYPE_OPT);
    to = put_u16(to, PAYLOAD_SIZE);
    memset(to, 0, 6); /* extended code, version, flags; no options */
    return to + 6;
}

size_t pin_dns_write(uint8_t to[PIN_DNS_MESSAGE_MAX], const struct pin_dns_question *question,
                     enum pin_dns_code code, const struct pin_dns_record *record) {
    uint8_t *at = put_u16(to, question->id);
    at = put_u16(at, FLAG_RESPONSE | FLAG_AVAILABLE | question->flags | (unsigned)code);
    at = put_u16(at, question->bytes != NULL);
    at = put_u16(at, record != NULL);
    at = put_u16(at, 0);
    at = put_u16(at, question->edns);
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
