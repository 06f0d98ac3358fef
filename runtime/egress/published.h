/* published.h: the ports of a sandbox that the host can reach, on the supervisor's side.
 *
 * The listeners are bound here, by whoever makes the sandbox, and handed to a broker of their own that lives
 * in the sandbox's network (broker/inward.h). Loopback addresses and UNIX sockets only; a socket's file is
 * 0600 in a folder that is given by descriptor, and is removed with the sandbox. Source: docs/egress.md
 * "Published ports".
 */
#pragma once

#include "policy/publish.h"
#include "runtime/egress/session.h"

#define PIN_PUBLISHED_AT 128

struct pin_published {
    struct pin_publish asked;
    bool closed;               /* published no longer */
    char at[PIN_PUBLISHED_AT]; /* "127.0.0.1:41234", "[::1]:80", "/…/web.sock" */
};

struct pin_publishing { /* PIN_PUBLISHING_NONE at first */
    struct pin_egress_session session;
    struct pin_published list[PIN_PUBLISH_MAX];
    size_t count;
    size_t told; /* how many of them have had their event `published` */
    int folder;  /* of the sockets; -1: none is there */
    struct pin_egress_rule rules[PIN_PUBLISH_MAX];
    struct pin_port_range ports[PIN_PUBLISH_MAX];
    struct pin_egress_limits limits;
};
/* clang-format off */
#define PIN_PUBLISHING_NONE ((struct pin_publishing){.session = PIN_EGRESS_SESSION_NONE, .folder = -1})
/* clang-format on */

/* What it takes to publish; borrows all. */
struct pin_publishing_plan {
    const char *program; /* pinfold-broker */
    const struct pin_publish *list;
    size_t count;
    const struct pin_egress_limits *limits; /* of the whole sandbox; these connections count by themselves */
    int door;                               /* of the sandbox */
    int folder;                             /* for UNIX sockets */
};

/* All of them, or none with an error that names the one that can't be had. Must stay where it is. */
bool pin_publishing_start(struct pin_publishing *publishing, const struct pin_publishing_plan *plan,
                          struct pin_error *err);
/* The next event as JSON, the caller's; false: none now. The first ones say where each port is. */
struct json_t;
bool pin_publishing_next(struct pin_publishing *publishing, struct json_t **event);
/* [{"port", "at"}], with what has used each where the broker can be asked; NULL: an error. */
struct json_t *pin_publishing_list(const struct pin_publishing *publishing);
struct json_t *pin_publishing_status(struct pin_publishing *publishing, struct pin_error *err);
/* The same, with the totals of all that has been told: {"ports", "allowed", "refused", "bytes_out",
 * "bytes_in"}. */
struct json_t *pin_publishing_totals(const struct pin_publishing *publishing);
/* Nobody is let in to these ports of the sandbox any more, wherever they are published; who is, is cut. All
 * of them, or none: NOT_FOUND where one isn't published. */
bool pin_publishing_close(struct pin_publishing *publishing, const uint16_t *ports, size_t count,
                          struct pin_error *err);
/* Nobody is let in any more, and no file is left; as pin_egress_session_end(), with the same answer. */
bool pin_publishing_end(struct pin_publishing *publishing, bool drains);
void pin_publishing_free(struct pin_publishing *publishing);
