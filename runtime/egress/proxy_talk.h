/* proxy_talk.h: what is said to an upstream proxy before a connection through it is one.
 *
 * Pure: bytes to send come out of it, bytes that came go in one after the other, and none beyond the last one
 * of the proxy's own answer is taken. No allocation. Source: RFC 9110 9.3.6 (CONNECT), RFC 7617, RFC 1928,
 * RFC 1929.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/egress_judge.h"
#include "policy/proxy.h"

#define PIN_PROXY_LOGIN_MAX 512 /* "USER:PASSWORD" and a zero */
#define PIN_PROXY_HEAD_MAX (16u * 1024)
#define PIN_PROXY_SEND_MAX 1536

enum pin_proxy_step {
    PIN_PROXY_MORE, /* and what `send` holds is to be sent first */
    PIN_PROXY_DONE, /* what follows is the other end's */
    PIN_PROXY_NO,   /* `os_errno` */
};

struct pin_proxy_talk {
    const struct pin_proxy *proxy;
    const struct pin_destination *to;
    const char *login; /* "USER:PASSWORD"; "": none */
    unsigned state;
    uint8_t send[PIN_PROXY_SEND_MAX];
    size_t send_size;
    uint8_t got[12]; /* the beginning of the answer's line, or of a SOCKS message */
    size_t got_size, expected, head_size;
    unsigned line_end; /* of "\r\n\r\n" seen so far */
    int os_errno;
};

/* Borrows all three. False: the login or the name doesn't fit what the proxy speaks. */
bool pin_proxy_begin(struct pin_proxy_talk *talk, const struct pin_proxy *proxy, const char *login,
                     const struct pin_destination *to);
/* `*used`: how many of the bytes were the proxy's. */
enum pin_proxy_step pin_proxy_read(struct pin_proxy_talk *talk, const uint8_t *data, size_t size,
                                   size_t *used);
