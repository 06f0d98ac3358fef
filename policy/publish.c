#include "policy/publish.h"

#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"

static const char *const places[] = {
    [PIN_PUBLISH_LOOPBACK] = "127.0.0.1:",
    [PIN_PUBLISH_LOOPBACK_V6] = "[::1]:",
    [PIN_PUBLISH_UNIX] = "unix:",
};
_Static_assert(PIN_COUNT(places) == PIN_PUBLISH_AT_COUNT, "every kind of place has a spelling");

/* Up to `end`; 1 to 65535 without leading zeros, or 0 where that means any. */
static bool take_port(const char *text, const char *end, bool zero, uint16_t *port) {
    unsigned value = 0;
    if (text == end || end - text > 5 || (*text == '0' && end - text > 1))
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (unsigned)(*text - '0');
    }
    *port = (uint16_t)value;
    return value <= UINT16_MAX && (zero || value > 0);
}

bool pin_publish_parse(const char *text, struct pin_publish *publish) {
    struct pin_publish read = {.at = PIN_PUBLISH_AT_COUNT};
    const char *equals = strchr(text, '=');
    if (equals == NULL || !take_port(text, equals, false, &read.port))
        return false;
    const char *where = equals + 1;
    for (unsigned at = 0; at < PIN_PUBLISH_AT_COUNT; at++)
        if (strncmp(where, places[at], strlen(places[at])) == 0)
            read.at = (enum pin_publish_at)at;
    if (read.at == PIN_PUBLISH_AT_COUNT)
        return false;
    where += strlen(places[read.at]);
    if (read.at != PIN_PUBLISH_UNIX) {
        if (!take_port(where, where + strlen(where), true, &read.host_port))
            return false;
    } else {
        if (!pin_is_name(where))
            return false;
        memcpy(read.name, where, strlen(where) + 1); /* at most 63: names.h */
    }
    *publish = read;
    return true;
}

bool pin_publish_covers(const char *outer, const char *inner) {
    struct pin_publish wide, narrow;
    if (strcmp(outer, "*") == 0)
        return true;
    if (!pin_publish_parse(outer, &wide) || !pin_publish_parse(inner, &narrow))
        return false;
    return wide.port == narrow.port && wide.at == narrow.at && strcmp(wide.name, narrow.name) == 0 &&
           (wide.host_port == 0 || wide.host_port == narrow.host_port);
}

bool pin_publish_collides(const struct pin_publish *a, const struct pin_publish *b) {
    if (a->at != b->at)
        return false;
    return a->at == PIN_PUBLISH_UNIX ? strcmp(a->name, b->name) == 0
                                     : a->host_port == b->host_port && a->host_port != 0;
}
