/* proxy.h: an upstream proxy as a policy names it. Pure. Source: docs/policy.md "network.upstream_proxy". */
#pragma once

#include <stdint.h>

#include "policy/host_name.h"

enum pin_proxy_kind { PIN_PROXY_NONE, PIN_PROXY_HTTP, PIN_PROXY_SOCKS5, PIN_PROXY_KIND_COUNT };

struct pin_proxy {
    enum pin_proxy_kind kind;
    char host[PIN_HOST_MAX]; /* canonical; '' where it is named by its address */
    uint8_t address[16];     /* IPv4 mapped */
    uint16_t port;
};

/* "http://proxy.example.com:3128", "socks5://[2001:db8::1]:1080"; nothing behind the port, nothing before the
 * host. */
bool pin_proxy_parse(const char *text, struct pin_proxy *proxy);
