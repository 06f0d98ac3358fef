#include "runtime/egress/http_guard.h"

#include <string.h>
#include <strings.h>

#include "base/cursor.h"
#include "runtime/egress/wire_name.h"

#define CHUNK_LINE_MAX 256

/* Text of a head, counted. */
struct piece {
    const char *at;
    size_t size;
};

struct head {
    bool has_host, has_length, chunked, upgrade, upgrade_other;
    bool is_old; /* HTTP/1.0, which knows no chunks: some servers then read them as the next request */
    struct piece host;
    uint64_t length;
};

static bool equals(struct piece piece, const char *text) {
    return piece.size == strlen(text) && strncasecmp(piece.at, text, piece.size) == 0;
}

static bool is_token_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(struct piece piece) {
    for (size_t i = 0; i < piece.size; i++)
        if (!is_token_byte(piece.at[i]))
            return false;
    return piece.size > 0;
}

/* Visible bytes, spaces and tabs; above ASCII anything. */
static bool is_text(struct piece piece) {
    for (size_t i = 0; i < piece.size; i++) {
        unsigned char c = (unsigned char)piece.at[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static struct piece trim(struct piece piece) {
    while (piece.size > 0 && (piece.at[0] == ' ' || piece.at[0] == '\t'))
        piece = (struct piece){piece.at + 1, piece.size - 1};
    while (piece.size > 0 && (piece.at[piece.size - 1] == ' ' || piece.at[piece.size - 1] == '\t'))
        piece.size--;
    return piece;
}

/* Splits at the first `c`; false without one. */
static bool split(struct piece whole, char c, struct piece *before, struct piece *after) {
    const char *found = whole.size > 0 ? memchr(whole.at, c, whole.size) : NULL;
    if (found == NULL)
        return false;
    *before = (struct piece){whole.at, (size_t)(found - whole.at)};
    *after = (struct piece){found + 1, whole.size - before->size - 1};
    return true;
}

static bool read_number(struct piece piece, unsigned base, uint64_t *value) {
    *value = 0;
    if (piece.size == 0 || piece.size > 15) /* no overflow in either base */
        return false;
    for (size_t i = 0; i < piece.size; i++) {
        char c = (char)(piece.at[i] | 0x20);
        bool digit = piece.at[i] >= '0' && piece.at[i] <= '9', letter = c >= 'a' && c <= 'f';
        if (!digit && !(base == 16 && letter))
            return false;
        *value = *value * base + (uint64_t)(digit ? piece.at[i] - '0' : c - 'a' + 10);
    }
    return true;
}

/* "name", "name:80": the port that was dialled, or none. */
static bool is_our_host(const struct pin_http_guard *guard, struct piece authority) {
    struct piece name = authority, port;
    uint64_t number = guard->port;
    char canonical[PIN_HOST_MAX];
    if (split(authority, ':', &name, &port) && !read_number(port, 10, &number))
        return false;
    return number == guard->port && pin_wire_name(canonical, name.at, name.size) &&
           strcmp(canonical, guard->host) == 0;
}

/* The target names no other host: a path, "*", or a URL of our host. */
static enum pin_http_reading check_target(const struct pin_http_guard *guard, struct piece target) {
    static const char scheme[] = "http://";
    size_t skip = sizeof(scheme) - 1;
    if (target.size == 0 || !is_text(target) || memchr(target.at, '\t', target.size) != NULL)
        return PIN_HTTP_FAULTY;
    if (target.at[0] == '/' || equals(target, "*"))
        return PIN_HTTP_PASS;
    if (target.size <= skip || strncasecmp(target.at, scheme, skip) != 0)
        return PIN_HTTP_OTHER_HOST;
    struct piece rest = {target.at + skip, target.size - skip}, authority = rest, path;
    (void)split(rest, '/', &authority, &path); /* a URL may end after its host */
    return is_our_host(guard, authority) ? PIN_HTTP_PASS : PIN_HTTP_OTHER_HOST;
}

static enum pin_http_reading check_request_line(const struct pin_http_guard *guard, struct piece line,
                                                struct head *head) {
    struct piece method, rest, target, version;
    if (!split(line, ' ', &method, &rest) || !split(rest, ' ', &target, &version) || !is_token(method))
        return PIN_HTTP_FAULTY;
    head->is_old = version.size == 8 && memcmp(version.at, "HTTP/1.0", 8) == 0;
    bool known = head->is_old || (version.size == 8 && memcmp(version.at, "HTTP/1.1", 8) == 0);
    if (!known || equals(method, "PRI"))
        return PIN_HTTP_FAULTY;
    return equals(method, "CONNECT") ? PIN_HTTP_OTHER_HOST : check_target(guard, target);
}

/* A field that decides where a message ends or for whom it is stands once, in its one form. */
static bool read_field(struct piece line, struct head *head) {
    struct piece name, value;
    if (!split(line, ':', &name, &value) || !is_token(name) || !is_text(value))
        return false;
    value = trim(value);
    if (equals(name, "host")) {
        bool again = head->has_host;
        head->has_host = true;
        head->host = value;
        return !again;
    }
    if (equals(name, "content-length")) {
        bool again = head->has_length;
        head->has_length = true;
        return !again && read_number(value, 10, &head->length);
    }
    if (equals(name, "transfer-encoding")) {
        bool again = head->chunked;
        head->chunked = true;
        return !again && equals(value, "chunked");
    }
    if (equals(name, "upgrade")) {
        head->upgrade = true;
        head->upgrade_other = head->upgrade_other || !equals(value, "websocket");
    }
    return true;
}

/* The line without its end, and the cursor behind it. `*whole` is false where the end isn't there yet. A line
 * ends with CR LF; either of them alone is an error. */
static bool take_line(struct pin_cursor *in, struct piece *line, bool *whole) {
    const uint8_t *feed = pin_left(in) > 0 ? memchr(in->at, '\n', pin_left(in)) : NULL;
    const uint8_t *end = feed != NULL ? feed : in->end;
    const uint8_t *cr = end > in->at ? memchr(in->at, '\r', (size_t)(end - in->at)) : NULL;
    *whole = feed != NULL;
    if (cr != NULL && cr + 1 != end) /* as the last byte so far, its feed may be on the way */
        return false;
    if (feed == NULL)
        return true;
    if (cr == NULL)
        return false;
    *line = (struct piece){(const char *)in->at, (size_t)(cr - in->at)};
    in->at = feed + 1;
    return true;
}

static enum pin_http_reading check_head(struct pin_http_guard *guard, const struct head *head) {
    if (!head->has_host || !is_our_host(guard, head->host))
        return PIN_HTTP_OTHER_HOST;
    if (head->chunked && (head->has_length || head->is_old))
        return PIN_HTTP_FAULTY;
    /* Behind h2c, TLS (RFC 2817) or what else a server may agree to are requests that nobody reads here. */
    if (head->upgrade_other)
        return PIN_HTTP_FAULTY;
    /* Only the reply to the first request is recognised in the server's stream. */
    if (head->upgrade && (guard->requests > 0 || head->chunked || head->length > 0))
        return PIN_HTTP_FAULTY;
    return PIN_HTTP_PASS;
}

static enum pin_http_reading read_head(struct pin_http_guard *guard, struct pin_cursor *in) {
    struct pin_cursor at = *in;
    struct head head = {.has_host = false};
    struct piece line;
    bool whole;
    for (size_t number = 0;; number++) {
        if (!take_line(&at, &line, &whole) || (size_t)(at.at - in->at) > PIN_HTTP_HEAD_MAX)
            return PIN_HTTP_FAULTY;
        if (!whole)
            return pin_left(in) > PIN_HTTP_HEAD_MAX ? PIN_HTTP_FAULTY : PIN_HTTP_PASS;
        if (number > 0 && line.size == 0)
            break;
        enum pin_http_reading reading = number == 0               ? check_request_line(guard, line, &head)
                                        : read_field(line, &head) ? PIN_HTTP_PASS
                                                                  : PIN_HTTP_FAULTY;
        if (reading != PIN_HTTP_PASS)
            return reading;
    }
    enum pin_http_reading reading = check_head(guard, &head);
    if (reading != PIN_HTTP_PASS)
        return reading;
    guard->state = head.upgrade ? PIN_HTTP_UPGRADE : head.chunked ? PIN_HTTP_CHUNK_SIZE : PIN_HTTP_BODY;
    guard->left = head.length;
    guard->requests++;
    in->at = at.at;
    return PIN_HTTP_PASS;
}

static void skip_left(struct pin_http_guard *guard, struct pin_cursor *in, enum pin_http_state next) {
    size_t size = guard->left < pin_left(in) ? (size_t)guard->left : pin_left(in);
    in->at += size;
    guard->left -= size;
    if (guard->left == 0)
        guard->state = next;
}

/* The lines around chunks: a size, the end of the data, trailers. */
static enum pin_http_reading read_chunk_line(struct pin_http_guard *guard, struct pin_cursor *in) {
    struct piece line, size = {NULL, 0}, extension;
    bool whole;
    size_t limit = guard->state == PIN_HTTP_TRAILER ? PIN_HTTP_HEAD_MAX : CHUNK_LINE_MAX;
    struct head unused = {.has_host = true, .has_length = true, .chunked = true};
    if (!take_line(in, &line, &whole))
        return PIN_HTTP_FAULTY;
    if (!whole)
        return pin_left(in) > limit + 1 ? PIN_HTTP_FAULTY : PIN_HTTP_PASS; /* 1: the CR */
    if (line.size > limit)
        return PIN_HTTP_FAULTY;
    if (guard->state == PIN_HTTP_CHUNK_END) {
        guard->state = PIN_HTTP_CHUNK_SIZE;
        return line.size == 0 ? PIN_HTTP_PASS : PIN_HTTP_FAULTY;
    }
    if (guard->state == PIN_HTTP_TRAILER) {
        if (line.size == 0)
            guard->state = PIN_HTTP_HEAD;
        return line.size == 0 || read_field(line, &unused) ? PIN_HTTP_PASS : PIN_HTTP_FAULTY;
    }
    if (!split(line, ';', &size, &extension))
        size = line;
    if (!is_text(line) || !read_number(size, 16, &guard->left))
        return PIN_HTTP_FAULTY;
    guard->state = guard->left > 0 ? PIN_HTTP_CHUNK : PIN_HTTP_TRAILER;
    return PIN_HTTP_PASS;
}

static enum pin_http_reading step(struct pin_http_guard *guard, struct pin_cursor *in) {
    switch (guard->state) {
    case PIN_HTTP_HEAD: return pin_left(in) > 0 ? read_head(guard, in) : PIN_HTTP_PASS;
    case PIN_HTTP_BODY: skip_left(guard, in, PIN_HTTP_HEAD); return PIN_HTTP_PASS;
    case PIN_HTTP_CHUNK: skip_left(guard, in, PIN_HTTP_CHUNK_END); return PIN_HTTP_PASS;
    case PIN_HTTP_CHUNK_SIZE:
    case PIN_HTTP_CHUNK_END:
    case PIN_HTTP_TRAILER: return read_chunk_line(guard, in);
    case PIN_HTTP_UPGRADE: return PIN_HTTP_PASS;
    case PIN_HTTP_OPAQUE: in->at = in->end; return PIN_HTTP_PASS;
    case PIN_HTTP_STATE_COUNT: break;
    }
    return PIN_HTTP_FAULTY;
}

enum pin_http_reading pin_http_read(struct pin_http_guard *guard, const uint8_t *data, size_t size,
                                    size_t *passed) {
    struct pin_cursor in = {data, data + size};
    *passed = 0;
    for (;;) {
        const uint8_t *before = in.at;
        enum pin_http_state state = guard->state;
        enum pin_http_reading reading = step(guard, &in);
        if (reading != PIN_HTTP_PASS)
            return reading;
        *passed = (size_t)(in.at - data);
        if (in.at == before && guard->state == state)
            return PIN_HTTP_PASS;
    }
}

bool pin_http_saw_reply(struct pin_http_guard *guard, const uint8_t *data, size_t size) {
    size_t room = sizeof(guard->reply) - guard->reply_size;
    size_t used = size < room ? size : room;
    memcpy(guard->reply + guard->reply_size, data, used);
    guard->reply_size += used;
    if (guard->state != PIN_HTTP_UPGRADE || guard->reply_size < sizeof(guard->reply))
        return false;
    bool switched = memcmp(guard->reply, "HTTP/1.", 7) == 0 && memcmp(guard->reply + 8, " 101", 4) == 0;
    guard->state = switched ? PIN_HTTP_OPAQUE : PIN_HTTP_HEAD;
    return true;
}
