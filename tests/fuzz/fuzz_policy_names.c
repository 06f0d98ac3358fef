/* A canonical host name or range reads as itself, and covers itself; a printed rule reads back. */
#include <assert.h>
#include <string.h>

#include "policy/egress_rule.h"
#include "policy/host_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_host(const char *text) {
    char once[PIN_HOST_MAX + 2], twice[PIN_HOST_MAX + 2];
    struct pin_error err = {0};
    if (!pin_host_pattern(text, once, &err)) {
        assert(pin_is_set(&err));
        return;
    }
    assert(pin_host_pattern(once, twice, &err) && strcmp(once, twice) == 0);
    assert(pin_host_covers(once, once) && pin_host_covers("*", once));
    assert(strspn(once, "*.-_abcdefghijklmnopqrstuvwxyz0123456789") == strlen(once));
}

static void check_cidr(const char *text) {
    uint8_t address[16], again[16], prefix, same;
    char printed[PIN_CIDR_TEXT];
    struct pin_error err = {0};
    if (!pin_cidr_parse(text, address, &prefix, &err))
        return;
    assert(prefix <= 128 && pin_cidr_contains(address, prefix, address));
    assert(pin_cidr_parse(pin_cidr_print(printed, address, prefix), again, &same, &err));
    assert(same == prefix && memcmp(address, again, 16) == 0);
}

static void check_rule(const char *text) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_egress_rule rule = {0}, again = {0};
    struct pin_error err = {0};
    char printed[400];
    if (!pin_egress_parse(text, &arena, &rule, &err))
        return;
    assert(pin_egress_parse(pin_egress_print(printed, sizeof(printed), &rule), &arena, &again, &err));
    assert(pin_egress_same(&rule, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[512];
    size_t length = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
    if (length > 0)
        memcpy(text, data, length);
    text[length] = '\0';
    check_host(text);
    check_cidr(text);
    check_rule(text);
    return 0;
}
