#include "runtime/egress/wire_name.h"

#include <string.h>

bool pin_wire_name(char to[PIN_HOST_MAX], const void *bytes, size_t size) {
    struct pin_error unused = {0};
    /* A zero byte ends a C string and not a counted name: "allowed.example\0.evil.test". */
    if (size == 0 || memchr(bytes, 0, size) != NULL)
        return false;
    return pin_host_name(bytes, size, to, &unused);
}
