#include "policy/proxy.h"

#include <string.h>

#include "base/names.h"
#include "policy/egress_rule.h"

static const char *const schemes[] = {
    [PIN_PROXY_NONE] = "",
    [PIN_PROXY_HTTP] = "http://",
    [PIN_PROXY_SOCKS5] = "socks5://",
};
_Static_assert(PIN_COUNT(schemes) == PIN_PROXY_KIND_COUNT, "every kind has a scheme");

static bool parse_place(const char *place, size_t size, struct pin_proxy *proxy) {
    char text[PIN_HOST_WRITTEN_MAX];
    struct pin_error err = {0};
    uint8_t prefix;
    if (size == 0 || size >= sizeof(text))
        return false;
    memcpy(text, place, size);
    text[size] = '\0';
    if (text[0] == '[') {
        bool closed = text[size - 1] == ']';
        text[size - 1] = '\0';
        return closed && strchr(text, '/') == NULL && pin_cidr_parse(text + 1, proxy->address, &prefix, &err);
    }
    if (text[strspn(text, "0123456789.")] == '\0')
        return pin_cidr_parse(text, proxy->address, &prefix, &err);
    return pin_host_written(text, size, proxy->host, &err);
}

bool pin_proxy_parse(const char *text, struct pin_proxy *proxy) {
    struct pin_port_range range;
    *proxy = (struct pin_proxy){.kind = PIN_PROXY_NONE};
    for (unsigned kind = PIN_PROXY_HTTP; kind < PIN_PROXY_KIND_COUNT; kind++)
        if (strncmp(text, schemes[kind], strlen(schemes[kind])) == 0)
            proxy->kind = (enum pin_proxy_kind)kind;
    if (proxy->kind == PIN_PROXY_NONE)
        return false;
    const char *place = text + strlen(schemes[proxy->kind]), *colon = strrchr(place, ':');
    if (colon == NULL || !pin_ports_parse(colon + 1, &range) || range.first != range.last ||
        strchr(colon, '-') != NULL)
        return false;
    proxy->port = range.first;
    return parse_place(place, (size_t)(colon - place), proxy);
}
