/* tls_hello.h: which host a TLS client asks for, read from its first bytes.
 *
 * Reads a ClientHello out of one or more records, however they were cut; decrypts nothing, allocates nothing.
 * Source: RFC 8446 4.1.2 and 5.1, RFC 6066 3 (server_name), RFC 9849 (encrypted_client_hello).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIN_TLS_HELLO_MAX (16u * 1024) /* of the message; real ones have 200 to 2,000 bytes */

enum pin_tls_reading {
    PIN_TLS_MORE,    /* right so far, not whole */
    PIN_TLS_WHOLE,   /* `name` and `hidden` are set */
    PIN_TLS_NOT_TLS, /* these bytes begin no TLS connection */
    PIN_TLS_FAULTY,  /* they do, and break its rules */
};

struct pin_tls_hello {
    char name[256];   /* counted: may hold any byte */
    size_t name_size; /* 0: none */
    bool hidden;      /* an encrypted hello is inside: the name may not be the one that the server acts on */
};

enum pin_tls_reading pin_tls_read_hello(const uint8_t *data, size_t size, struct pin_tls_hello *hello);
