/* Whatever an annotation says: a value is within its type, its strings end within the property's own room,
 * and the times are microseconds. */
#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bundle/systemd_property.h"

static void check_item(const struct pin_systemd_property *property, const union pin_systemd_item *item) {
    switch (property->type) {
    case 'b': assert(item->number == 0 || item->number == 1); break;
    case 'y': assert(item->natural <= UINT8_MAX); break;
    case 'n': assert(item->number >= INT16_MIN && item->number <= INT16_MAX); break;
    case 'q': assert(item->natural <= UINT16_MAX); break;
    case 'i': assert(item->number >= INT32_MIN && item->number <= INT32_MAX); break;
    case 'u': assert(item->natural <= UINT32_MAX); break;
    case 'x':
    case 't':
    case 'd': break;
    default:
        assert(strchr("sog", property->type) != NULL && item->words >= property->room);
        assert(memchr(item->words, '\0', (size_t)(property->room + sizeof(property->room) - item->words)) !=
               NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct pin_systemd_property property;
    struct pin_error err = {0};
    const uint8_t *split = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t length = split != NULL ? (size_t)(split - data) : 0;
    char *name = strndup(split != NULL ? (const char *)data : "TimeoutStopSec", split != NULL ? length : 14);
    char *text = strndup(split != NULL ? (const char *)split + 1 : (const char *)data,
                         split != NULL ? size - length - 1 : size);
    assert(name != NULL && text != NULL);
    memset(property.room, 'x', sizeof(property.room));
    if (pin_systemd_property_parse(name, text, &property, &err)) {
        size_t end = strlen(property.name);
        assert(property.count <= PIN_SYSTEMD_ITEMS_MAX && (property.list || property.count == 1));
        assert(end < 4 || strcmp(property.name + end - 3, "Sec") != 0 ||
               !islower((unsigned char)property.name[end - 4]));
        for (size_t i = 0; i < property.count; i++)
            check_item(&property, &property.items[i]);
    } else {
        assert(pin_is_set(&err));
    }
    free(name);
    free(text);
    return 0;
}
