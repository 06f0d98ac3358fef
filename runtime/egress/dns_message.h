/* dns_message.h: the question that a program inside asks, and the answer that it gets.
 *
 * A question is one name, uncompressed; all else in the message is checked for its length only. The reader
 * consumes or refuses, and allocates nothing. The answer echoes the question byte by byte (its letters' case
 * is the asker's protection against forged answers) and carries at most one record, or several of HTTPS or
 * SVCB. Source: RFC 1035 4.1, RFC 6891 6.1.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIN_DNS_NAME_TEXT 1024   /* 255 bytes, each escaped, and a zero */
#define PIN_DNS_QUESTION_MAX 259 /* name, type and class */
#define PIN_DNS_MESSAGE_MAX 576  /* of an answer with one record */
#define PIN_DNS_SERVICE_MAX 4096 /* of one with several */

enum pin_dns_type { PIN_DNS_A = 1, PIN_DNS_PTR = 12, PIN_DNS_AAAA = 28, PIN_DNS_ANY = 255 };
enum pin_dns_code {
    PIN_DNS_NO_ERROR = 0,
    PIN_DNS_FORMAT = 1,
    PIN_DNS_SERVER_FAILURE = 2,
    PIN_DNS_NO_NAME = 3,
    PIN_DNS_NOT_IMPLEMENTED = 4,
    PIN_DNS_REFUSED = 5,
};

struct pin_dns_question {
    uint16_t id, type, class;
    uint16_t flags; /* the asker's opcode and RD, to be given back */
    bool edns;
    uint16_t room;        /* for an answer by UDP: what the asker takes, 512 without EDNS */
    const uint8_t *bytes; /* name, type and class as they came; NULL if they couldn't be read */
    size_t size;
    char
        name[PIN_DNS_NAME_TEXT]; /* labels joined by '.'; a byte that isn't a host name's is \DDD, a dot \. */
    size_t name_size;
};

enum pin_dns_reading {
    PIN_DNS_DROP,   /* not a question: answering it could make two servers talk for ever */
    PIN_DNS_FAULTY, /* answer with `*code` */
    PIN_DNS_GOOD,
};

/* `question` points into `message`. */
enum pin_dns_reading pin_dns_read(const uint8_t *message, size_t size, struct pin_dns_question *question,
                                  enum pin_dns_code *code);

struct pin_dns_record {
    uint16_t type; /* PIN_DNS_A, PIN_DNS_AAAA, PIN_DNS_PTR */
    uint32_t ttl_s;
    const uint8_t *address; /* 4 or 16 bytes */
    const char *name;       /* of PIN_DNS_PTR: canonical */
};

/* Two bytes, and a name of at most 253 bytes as labels (RFC 1035, 3.1), written where there is room; where
 * they end. */
uint8_t *pin_dns_put_u16(uint8_t *to, unsigned value);
uint8_t *pin_dns_put_name(uint8_t *to, const char *name);

/* Writes an answer with the record, or without one (`record` NULL). The size, at most PIN_DNS_MESSAGE_MAX. */
size_t pin_dns_write(uint8_t to[PIN_DNS_MESSAGE_MAX], const struct pin_dns_question *question,
                     enum pin_dns_code code, const struct pin_dns_record *record);

struct pin_svcb_record;
/* The same with records of the question's type, as svcb.h left them, at most `room` bytes; what doesn't fit
 * is left out and said to be (TC). `ttl_max_s` bounds how long they are kept. */
size_t pin_dns_write_service(uint8_t *to, size_t room, const struct pin_dns_question *question,
                             const struct pin_svcb_record *records, size_t count, uint32_t ttl_max_s);

/* The address that a name below in-addr.arpa or ip6.arpa stands for, IPv4 mapped. */
bool pin_dns_reverse(const char *name, uint8_t address[16]);
