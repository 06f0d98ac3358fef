#include "runtime/kept/wire.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM ((size_t)1024)

void pin_wire_free(struct pin_wire *wire) {
    free(wire->bytes);
    wire->bytes = NULL;
    wire->size = wire->room = 0;
}

static size_t length_of(const struct pin_wire *wire) {
    const uint8_t *at = wire->bytes;
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

static size_t wanted(const struct pin_wire *wire) {
    return wire->size < PIN_WIRE_HEAD ? PIN_WIRE_HEAD : PIN_WIRE_HEAD + length_of(wire);
}

uint8_t *pin_wire_room(struct pin_wire *wire, size_t *room) {
    if (wire->size == wire->room) {
        size_t larger = wire->room == 0 ? FIRST_ROOM : wire->room * 2;
        uint8_t *bytes = realloc(wire->bytes, larger);
        if (bytes == NULL)
            return NULL;
        wire->bytes = bytes;
        wire->room = larger;
    }
    size_t missing = wanted(wire) - wire->size, free_bytes = wire->room - wire->size;
    *room = missing < free_bytes ? missing : free_bytes;
    return wire->bytes + wire->size;
}

bool pin_wire_put(struct pin_wire *wire, size_t size, struct pin_error *err) {
    wire->size += size;
    if (wire->size < PIN_WIRE_HEAD)
        return true;
    size_t length = length_of(wire);
    if (length == 0)
        return pin_fail(err, PIN_ERROR_SYNTAX, "a message is empty");
    return length <= wire->limit ||
           pin_fail(err, PIN_ERROR_SYNTAX, "a message of %zu bytes is longer than %zu", length, wire->limit);
}

bool pin_wire_is_whole(const struct pin_wire *wire, const char **text, size_t *size) {
    if (wire->size < PIN_WIRE_HEAD || wire->size < wanted(wire))
        return false;
    *text = (const char *)wire->bytes + PIN_WIRE_HEAD;
    *size = wire->size - PIN_WIRE_HEAD;
    return true;
}

void pin_wire_next(struct pin_wire *wire) {
    wire->size = 0;
    if (wire->room > FIRST_ROOM * 64)
        pin_wire_free(wire);
}

uint8_t *pin_wire_print(json_t *json, size_t *size) {
    size_t flags = JSON_COMPACT | JSON_ENSURE_ASCII, length = json_dumpb(json, NULL, 0, flags);
    uint8_t *bytes = length == 0 || length > UINT32_MAX ? NULL : malloc(PIN_WIRE_HEAD + length);
    if (bytes != NULL) {
        (void)json_dumpb(json, (char *)bytes + PIN_WIRE_HEAD, length, flags);
        for (size_t i = 0; i < PIN_WIRE_HEAD; i++)
            bytes[i] = (uint8_t)(length >> (24 - 8 * i));
        *size = PIN_WIRE_HEAD + length;
    }
    json_decref(json);
    return bytes;
}
