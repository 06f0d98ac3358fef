#include "runtime/egress/proxy_talk.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "policy/address_class.h"
#include "policy/egress_rule.h"

enum state { HTTP_HEAD, SOCKS_METHOD, SOCKS_LOGIN, SOCKS_REPLY, SOCKS_BOUND };

#define SOCKS_VERSION 5
#define SOCKS_NO_LOGIN 0
#define SOCKS_WITH_LOGIN 2

static void add_bytes(struct pin_proxy_talk *talk, const void *data, size_t size) {
    if (size > sizeof(talk->send) - talk->send_size) {
        talk->os_errno = EMSGSIZE;
        return;
    }
    memcpy(talk->send + talk->send_size, data, size);
    talk->send_size += size;
}

__attribute__((format(printf, 2, 3))) static void add_text(struct pin_proxy_talk *talk, const char *format,
                                                           ...) {
    char text[PIN_PROXY_SEND_MAX];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    add_bytes(talk, text, size < 0 || (size_t)size >= sizeof(text) ? sizeof(talk->send) + 1 : (size_t)size);
}

static void add_base64(struct pin_proxy_talk *talk, const char *text) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t size = strlen(text); size > 0;) {
        size_t part = size < 3 ? size : 3;
        uint32_t bits = 0;
        char four[4] = "===";
        for (size_t i = 0; i < 3; i++)
            bits = bits << 8 | (i < part ? (uint8_t)text[i] : 0u);
        for (size_t i = 0; i < 4; i++)
            four[i] = i <= part ? digits[bits >> (18 - 6 * i) & 63] : '=';
        add_bytes(talk, four, sizeof(four));
        text += part;
        size -= part;
    }
}

static void name_of(const struct pin_destination *to, char text[PIN_HOST_MAX + 4]) {
    char address[PIN_ADDRESS_TEXT];
    if (to->host != NULL)
        (void)snprintf(text, PIN_HOST_MAX + 4, "%s", to->host);
    else
        (void)snprintf(text, PIN_HOST_MAX + 4, pin_address_is_ipv4(to->address) ? "%s" : "[%s]",
                       pin_address_print(address, to->address));
}

static void ask_http(struct pin_proxy_talk *talk) {
    char place[PIN_HOST_MAX + 4];
    name_of(talk->to, place);
    add_text(talk, "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n", place, talk->to->port, place, talk->to->port);
    if (*talk->login != '\0') {
        add_text(talk, "Proxy-Authorization: Basic ");
        add_base64(talk, talk->login);
        add_text(talk, "\r\n");
    }
    add_text(talk, "\r\n");
    talk->state = HTTP_HEAD;
}

static void greet_socks(struct pin_proxy_talk *talk) {
    static const uint8_t without[] = {SOCKS_VERSION, 1, SOCKS_NO_LOGIN};
    static const uint8_t with[] = {SOCKS_VERSION, 2, SOCKS_NO_LOGIN, SOCKS_WITH_LOGIN};
    bool login = *talk->login != '\0';
    add_bytes(talk, login ? with : without, login ? sizeof(with) : sizeof(without));
    talk->state = SOCKS_METHOD;
    talk->expected = 2;
}

static void log_in(struct pin_proxy_talk *talk) {
    const char *colon = strchr(talk->login, ':');
    size_t user = colon != NULL ? (size_t)(colon - talk->login) : strlen(talk->login);
    size_t password = colon != NULL ? strlen(colon + 1) : 0;
    if (user == 0 || user > 255 || password > 255) {
        talk->os_errno = EACCES;
        return;
    }
    add_bytes(talk, &(uint8_t[]){1, (uint8_t)user}, 2);
    add_bytes(talk, talk->login, user);
    add_bytes(talk, &(uint8_t){(uint8_t)password}, 1);
    add_bytes(talk, talk->login + user + 1, password);
    talk->state = SOCKS_LOGIN;
    talk->expected = 2;
}

static void ask_socks(struct pin_proxy_talk *talk) {
    const struct pin_destination *to = talk->to;
    bool four = to->host == NULL && pin_address_is_ipv4(to->address);
    add_bytes(talk, &(uint8_t[]){SOCKS_VERSION, 1, 0, to->host != NULL ? 3 : four ? 1 : 4}, 4);
    if (to->host != NULL) {
        add_bytes(talk, &(uint8_t){(uint8_t)strlen(to->host)}, 1); /* at most 253 */
        add_bytes(talk, to->host, strlen(to->host));
    } else {
        add_bytes(talk, to->address + (four ? 12 : 0), four ? 4 : 16);
    }
    add_bytes(talk, &(uint8_t[]){(uint8_t)(to->port >> 8), (uint8_t)to->port}, 2);
    talk->state = SOCKS_REPLY;
    talk->expected = 5; /* with the length of a name, or the first byte of an address */
}

bool pin_proxy_begin(struct pin_proxy_talk *talk, const struct pin_proxy *proxy, const char *login,
                     const struct pin_destination *to) {
    *talk = (struct pin_proxy_talk){.proxy = proxy, .to = to, .login = login};
    if (proxy->kind == PIN_PROXY_HTTP)
        ask_http(talk);
    else
        greet_socks(talk);
    return talk->os_errno == 0;
}

/* --- CONNECT --- */

/* "HTTP/1.1 200": anything of 2xx is a tunnel. */
static int errno_of_line(const struct pin_proxy_talk *talk) {
    const char *line = (const char *)talk->got;
    if (talk->got_size < sizeof(talk->got) || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ')
        return EPROTO;
    if (line[9] == '2')
        return 0;
    if (memcmp(line + 9, "407", 3) == 0 || memcmp(line + 9, "403", 3) == 0)
        return EACCES;
    return memcmp(line + 9, "504", 3) == 0 ? ETIMEDOUT : line[9] == '5' ? EHOSTUNREACH : ECONNREFUSED;
}

/* "HTTP/1.1 100": the answer is still to come: RFC 9110 15.2. All of them together have room for one head. */
static bool is_interim(const struct pin_proxy_talk *talk) {
    const char *line = (const char *)talk->got;
    return talk->got_size == sizeof(talk->got) && memcmp(line, "HTTP/1.", 7) == 0 && line[8] == ' ' &&
           line[9] == '1' && memcmp(line + 9, "101", 3) != 0;
}

static enum pin_proxy_step no(struct pin_proxy_talk *talk, int os_errno) {
    talk->os_errno = os_errno;
    return PIN_PROXY_NO;
}

static enum pin_proxy_step take_http(struct pin_proxy_talk *talk, uint8_t byte) {
    static const uint8_t end[] = {'\r', '\n', '\r', '\n'};
    if (talk->got_size < sizeof(talk->got))
        talk->got[talk->got_size++] = byte;
    if (++talk->head_size > PIN_PROXY_HEAD_MAX)
        return no(talk, EPROTO);
    talk->line_end = byte == end[talk->line_end] ? talk->line_end + 1 : byte == '\r' ? 1 : 0;
    if (talk->line_end < sizeof(end))
        return PIN_PROXY_MORE;
    talk->line_end = 0;
    if (is_interim(talk)) {
        talk->got_size = 0;
        return PIN_PROXY_MORE;
    }
    int cause = errno_of_line(talk);
    return cause == 0 ? PIN_PROXY_DONE : no(talk, cause);
}

/* --- SOCKS --- */

static int errno_of_reply(uint8_t reply) {
    static const int causes[] = {0, EIO, EACCES, ENETUNREACH, EHOSTUNREACH, ECONNREFUSED, ETIMEDOUT};
    return reply < PIN_COUNT(causes) ? causes[reply] : EPROTO;
}

/* The address that the proxy has bound isn't wanted; how long it is says its kind. */
static bool expect_bound(struct pin_proxy_talk *talk) {
    static const uint8_t sizes[] = {[1] = 4, [4] = 16};
    uint8_t kind = talk->got[3];
    if (kind == 3)
        talk->head_size = talk->got[4] + 2u;
    else if (kind < PIN_COUNT(sizes) && sizes[kind] > 0)
        talk->head_size = sizes[kind] - 1u + 2u; /* its first byte is here already */
    else
        return false;
    talk->state = SOCKS_BOUND;
    return true;
}

static enum pin_proxy_step answer_socks(struct pin_proxy_talk *talk) {
    const uint8_t *got = talk->got;
    talk->got_size = 0;
    if (talk->state != SOCKS_LOGIN && got[0] != SOCKS_VERSION)
        return no(talk, EPROTO);
    if (talk->state == SOCKS_METHOD && got[1] == SOCKS_WITH_LOGIN && *talk->login != '\0')
        log_in(talk);
    else if ((talk->state == SOCKS_METHOD && got[1] == SOCKS_NO_LOGIN) ||
             (talk->state == SOCKS_LOGIN && got[1] == 0))
        ask_socks(talk);
    else if (talk->state != SOCKS_REPLY)
        return no(talk, EACCES);
    else if (got[1] != 0)
        return no(talk, errno_of_reply(got[1]));
    else if (!expect_bound(talk))
        return no(talk, EPROTO);
    return talk->os_errno == 0 ? PIN_PROXY_MORE : PIN_PROXY_NO;
}

static enum pin_proxy_step take_socks(struct pin_proxy_talk *talk, uint8_t byte) {
    if (talk->state == SOCKS_BOUND)
        return --talk->head_size == 0 ? PIN_PROXY_DONE : PIN_PROXY_MORE;
    talk->got[talk->got_size++] = byte;
    return talk->got_size < talk->expected ? PIN_PROXY_MORE : answer_socks(talk);
}

enum pin_proxy_step pin_proxy_read(struct pin_proxy_talk *talk, const uint8_t *data, size_t size,
                                   size_t *used) {
    talk->send_size = 0;
    for (*used = 0; *used < size;) {
        uint8_t byte = data[(*used)++];
        enum pin_proxy_step step = talk->state == HTTP_HEAD ? take_http(talk, byte) : take_socks(talk, byte);
        if (step != PIN_PROXY_MORE || talk->send_size > 0)
            return step;
    }
    return PIN_PROXY_MORE;
}
