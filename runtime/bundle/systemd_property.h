/* systemd_property.h: a property of a unit that a bundle asks for, "org.systemd.property.NAME" in its
 * annotations.
 *
 * The value is written as runc's engines write it, in GVariant's text form: numbers ("5", "uint64 5", "0x1f",
 * "2.5"), true and false, 'strings', lists of one type ("['a', 'b']", "[byte 1]"), a type in front ("@as
 * []"). No tuples, dictionaries or variants, which runc doesn't take either or no unit of a container needs.
 * A name ending in "Sec" is a time in seconds and becomes the microseconds that systemd's bus speaks of.
 * Pure. Source: GVariant text format (GLib); org.freedesktop.systemd1(5); runc docs/systemd.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

enum { PIN_SYSTEMD_NAME_ROOM = 64, PIN_SYSTEMD_TEXT_ROOM = 4096, PIN_SYSTEMD_ITEMS_MAX = 64 };

union pin_systemd_item {
    int64_t number;    /* of the types n, i, x; 0 or 1 of b */
    uint64_t natural;  /* y, q, u, t */
    double real;       /* d */
    const char *words; /* s, o, g; in the property's room */
};

struct pin_systemd_property {
    char name[PIN_SYSTEMD_NAME_ROOM];
    char type; /* of D-Bus: one of "bynqiuxtdsog" */
    bool list; /* of items of that type */
    size_t count;
    union pin_systemd_item items[PIN_SYSTEMD_ITEMS_MAX];
    char room[PIN_SYSTEMD_TEXT_ROOM];
};

#define PIN_SYSTEMD_ANNOTATION "org.systemd.property."

/* The name of the property that an annotation is about; NULL: it is about something else. */
static inline const char *pin_systemd_property_of(const char *annotation) {
    size_t length = sizeof(PIN_SYSTEMD_ANNOTATION) - 1;
    return strncmp(annotation, PIN_SYSTEMD_ANNOTATION, length) == 0 ? annotation + length : NULL;
}

/* `name` is without the prefix. The property points into itself: it isn't copied. */
bool pin_systemd_property_parse(const char *name, const char *text, struct pin_systemd_property *property,
                                struct pin_error *err);
