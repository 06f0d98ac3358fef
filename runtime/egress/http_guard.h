/* http_guard.h: every request of a plain HTTP connection asks for the host that the connection was made to.
 *
 * The caller keeps what the client has sent and not yet been let through, and offers it from its first byte;
 * the guard says how much of it may go on. A request head goes on when it is whole and right. Only one
 * reading of a message is accepted: a head that two parsers could read differently (bare line feeds, folded
 * lines, two lengths, a length and chunks, spaces before a colon) is refused, so that no second request hides
 * in a body. Pure; no allocation. Source: RFC 9112 2 to 7 (6.1: no chunks in HTTP/1.0), RFC 9110 7.2 and 7.8.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIN_HTTP_HEAD_MAX (16u * 1024)

enum pin_http_state {
    PIN_HTTP_HEAD,
    PIN_HTTP_BODY,
    PIN_HTTP_CHUNK_SIZE,
    PIN_HTTP_CHUNK,
    PIN_HTTP_CHUNK_END,
    PIN_HTTP_TRAILER,
    PIN_HTTP_UPGRADE, /* the server has to answer first */
    PIN_HTTP_OPAQUE,  /* it has agreed to another protocol */
    PIN_HTTP_STATE_COUNT
};

enum pin_http_reading {
    PIN_HTTP_PASS,       /* `*passed` bytes may go on; 0: more is needed, or the server's turn */
    PIN_HTTP_OTHER_HOST, /* a request for another host, or without one */
    PIN_HTTP_FAULTY,
};

struct pin_http_guard {
    const char *host; /* canonical; borrowed */
    uint16_t port;
    enum pin_http_state state;
    uint64_t left; /* of a body or a chunk */
    uint64_t requests;
    uint8_t reply[12]; /* the first bytes from the server: "HTTP/1.1 101" */
    size_t reply_size;
};

enum pin_http_reading pin_http_read(struct pin_http_guard *guard, const uint8_t *data, size_t size,
                                    size_t *passed);

/* Tells the guard what came from the server, in order. True: offer again what was kept, there may be a way.
 */
bool pin_http_saw_reply(struct pin_http_guard *guard, const uint8_t *data, size_t size);
