/* publish.h: one item of network.publish: a port inside, and where on the host it can be reached.
 *
 * "8080=127.0.0.1:18080", "8080=[::1]:0", "8080=unix:web". Port 0 of the host is one that the kernel picks,
 * and as a grant any of that address. One spelling each: no leading zeros, nothing left out. Pure. Source:
 * docs/policy.md "network.publish".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PIN_PUBLISH_MAX 16 /* of a sandbox */
#define PIN_PUBLISH_NAME 64

enum pin_publish_at {
    PIN_PUBLISH_LOOPBACK,    /* 127.0.0.1 */
    PIN_PUBLISH_LOOPBACK_V6, /* ::1 */
    PIN_PUBLISH_UNIX,        /* a socket in the sandbox's folder of the state directory */
    PIN_PUBLISH_AT_COUNT
};

struct pin_publish {
    uint16_t port; /* inside */
    enum pin_publish_at at;
    uint16_t host_port; /* of a loopback; 0: any */
    char name[PIN_PUBLISH_NAME];
};

bool pin_publish_parse(const char *text, struct pin_publish *publish);
/* Whether who may publish `outer` may publish `inner`; "*" (a site's) is all there is. */
bool pin_publish_covers(const char *outer, const char *inner);
/* Whether the two can't be had at the same time; port 0 is never in another's way. */
bool pin_publish_collides(const struct pin_publish *a, const struct pin_publish *b);
