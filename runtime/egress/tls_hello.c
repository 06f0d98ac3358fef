#include "runtime/egress/tls_hello.h"

#include <string.h>

#include "base/cursor.h"

#define RECORD_HANDSHAKE 22
#define RECORD_MAX 16384
#define CLIENT_HELLO 1
#define EXTENSION_SERVER_NAME 0
#define EXTENSION_ENCRYPTED_HELLO 0xfe0d
#define NAME_TYPE_HOST 0

static bool take_u24(struct pin_cursor *in, size_t *value) {
    uint8_t high;
    uint16_t low;
    if (pin_left(in) < 3 || !pin_take_u8(in, &high) || !pin_take_u16be(in, &low))
        return false;
    *value = (size_t)high << 16 | low;
    return true;
}

static bool take_piece(struct pin_cursor *in, size_t size, struct pin_cursor *piece) {
    const uint8_t *bytes;
    if (!pin_take_bytes(in, size, &bytes))
        return false;
    *piece = (struct pin_cursor){bytes, bytes + size};
    return true;
}

/* A piece with its length in front, of one or two bytes. */
static bool take_vector8(struct pin_cursor *in, struct pin_cursor *piece) {
    uint8_t size;
    return pin_take_u8(in, &size) && take_piece(in, size, piece);
}

static bool take_vector16(struct pin_cursor *in, struct pin_cursor *piece) {
    uint16_t size;
    return pin_take_u16be(in, &size) && take_piece(in, size, piece);
}

static bool read_server_name(struct pin_cursor in, struct pin_tls_hello *hello) {
    struct pin_cursor list, name;
    uint8_t type;
    if (!take_vector16(&in, &list) || pin_left(&in) > 0)
        return false;
    /* One name of one type is all that anybody sends; a second could be the one that the server reads. */
    if (!pin_take_u8(&list, &type) || type != NAME_TYPE_HOST || !take_vector16(&list, &name) ||
        pin_left(&list) > 0)
        return false;
    size_t size = pin_left(&name);
    if (size == 0 || size >= sizeof(hello->name) || hello->name_size > 0)
        return false;
    memcpy(hello->name, name.at, size);
    hello->name_size = size;
    return true;
}

static bool read_extensions(struct pin_cursor in, struct pin_tls_hello *hello) {
    struct pin_cursor body;
    uint16_t type;
    while (pin_left(&in) > 0) {
        if (!pin_take_u16be(&in, &type) || !take_vector16(&in, &body))
            return false;
        if (type == EXTENSION_SERVER_NAME && !read_server_name(body, hello))
            return false;
        if (type == EXTENSION_ENCRYPTED_HELLO)
            hello->hidden = true;
    }
    return true;
}

static bool read_client_hello(struct pin_cursor in, struct pin_tls_hello *hello) {
    struct pin_cursor skipped, extensions;
    uint16_t version;
    if (!pin_take_u16be(&in, &version) || !take_piece(&in, 32, &skipped) || /* random */
        !take_vector8(&in, &skipped) ||                                     /* session id */
        !take_vector16(&in, &skipped) ||                                    /* cipher suites */
        !take_vector8(&in, &skipped))                                       /* compression methods */
        return false;
    if (pin_left(&in) == 0)
        return true; /* no extensions: before TLS 1.2 */
    return take_vector16(&in, &extensions) && pin_left(&in) == 0 && read_extensions(extensions, hello);
}

/* Joins the handshake bytes of the records; *joined is how many there are. */
static enum pin_tls_reading join_records(struct pin_cursor in, uint8_t to[PIN_TLS_HELLO_MAX],
                                         size_t *joined) {
    *joined = 0;
    while (pin_left(&in) > 0) {
        uint8_t type, major, minor;
        uint16_t length;
        if (in.at[0] != RECORD_HANDSHAKE)
            return PIN_TLS_NOT_TLS;
        if (pin_left(&in) >= 2 && in.at[1] != 3)
            return PIN_TLS_NOT_TLS;
        if (!pin_take_u8(&in, &type) || !pin_take_u8(&in, &major) || !pin_take_u8(&in, &minor) ||
            !pin_take_u16be(&in, &length))
            return PIN_TLS_MORE;
        if (length == 0 || length > RECORD_MAX)
            return PIN_TLS_FAULTY;
        size_t here = length < pin_left(&in) ? length : pin_left(&in);
        size_t room = PIN_TLS_HELLO_MAX - *joined;
        size_t used = here < room ? here : room;
        memcpy(to + *joined, in.at, used);
        *joined += used;
        in.at += here;
        if (*joined > 0 && to[0] != CLIENT_HELLO)
            return PIN_TLS_FAULTY;
        size_t message = *joined >= 4 ? (size_t)to[1] << 16 | (size_t)to[2] << 8 | to[3] : SIZE_MAX;
        if (message != SIZE_MAX && *joined >= message + 4)
            return PIN_TLS_WHOLE;
        if (*joined == PIN_TLS_HELLO_MAX)
            return PIN_TLS_FAULTY;
    }
    return PIN_TLS_MORE;
}

enum pin_tls_reading pin_tls_read_hello(const uint8_t *data, size_t size, struct pin_tls_hello *hello) {
    uint8_t message[PIN_TLS_HELLO_MAX];
    size_t joined, length;
    uint8_t type;
    *hello = (struct pin_tls_hello){.name_size = 0};
    enum pin_tls_reading reading = join_records((struct pin_cursor){data, data + size}, message, &joined);
    if (reading != PIN_TLS_WHOLE)
        return reading;
    struct pin_cursor in = {message, message + joined}, body;
    if (!pin_take_u8(&in, &type) || !take_u24(&in, &length) || !take_piece(&in, length, &body) ||
        !read_client_hello(body, hello))
        return PIN_TLS_FAULTY;
    return PIN_TLS_WHOLE;
}
