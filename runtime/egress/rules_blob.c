#include "runtime/egress/rules_blob.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/io.h"
#include "base/names.h"
#include "policy/egress_terms.h"
#include "runtime/egress/proxy_talk.h"
#include "runtime/egress/wire_name.h"

static const uint8_t magic[8] = "PINEGR3";

struct writer {
    uint8_t *at;
    const uint8_t *end;
    bool full;
};

static void put(struct writer *out, const void *data, size_t size) {
    if ((size_t)(out->end - out->at) < size) {
        out->full = true;
        return;
    }
    if (size > 0)
        memcpy(out->at, data, size);
    out->at += size;
}

static void put_number(struct writer *out, uint64_t value, unsigned bytes) {
    while (bytes-- > 0)
        put(out, &(uint8_t){(uint8_t)(value >> 8 * bytes)}, 1);
}

static void put_text(struct writer *out, const char *text) {
    size_t size = text != NULL ? strlen(text) : 0;
    put_number(out, size, 2);
    put(out, text, size);
}

static void put_limits(struct writer *out, const struct pin_egress_limits *limits) {
    for (size_t i = 0; i < PIN_EGRESS_LIMIT_COUNT; i++)
        put_number(out, *(const uint64_t *)(const void *)((const char *)limits + pin_egress_limit_offsets[i]),
                   8);
}

/* Its place in the list, from 1; 0: none. */
static size_t budget_number(const struct pin_egress_setup *setup, const struct pin_egress_rule *rule) {
    return rule->budget == NULL ? 0 : (size_t)(rule->budget - setup->budgets) + 1;
}

static void put_rule(struct writer *out, const struct pin_egress_setup *setup,
                     const struct pin_egress_rule *rule) {
    put_text(out, rule->host);
    put(out, rule->address, sizeof(rule->address));
    put_number(out, rule->prefix, 1);
    put_number(out, (uint64_t)rule->protocol, 1);
    put_number(out, (uint64_t)rule->inspect, 1);
    put_number(out, rule->accept, 1);
    put_number(out, budget_number(setup, rule), 2);
    put_number(out, rule->port_count, 2);
    for (size_t i = 0; i < rule->port_count; i++) {
        put_number(out, rule->ports[i].first, 2);
        put_number(out, rule->ports[i].last, 2);
    }
}

static void put_rules(struct writer *out, const struct pin_egress_setup *setup,
                      const struct pin_egress_rule *rules, size_t count) {
    put_number(out, count, 2);
    for (size_t i = 0; i < count; i++)
        put_rule(out, setup, &rules[i]);
}

static void put_budgets(struct writer *out, const struct pin_egress_setup *setup) {
    put_number(out, setup->budget_count, 2);
    for (size_t i = 0; i < setup->budget_count; i++) {
        put_text(out, setup->budgets[i].name);
        put_limits(out, &setup->budgets[i].limits);
    }
}

static void put_proxy(struct writer *out, const struct pin_egress_setup *setup) {
    put_number(out, (uint64_t)setup->proxy.kind, 1);
    put_number(out, setup->proxy.port, 2);
    put(out, setup->proxy.address, sizeof(setup->proxy.address));
    put_text(out, setup->proxy.host);
    put_text(out, setup->proxy_login);
}

/* Numbers that the fields have room for, and budgets that are there. */
static bool fits(const struct pin_egress_setup *setup, const struct pin_egress_rule *rules, size_t count) {
    for (size_t i = 0; i < count && i < PIN_RULES_MAX; i++) {
        const struct pin_egress_budget *budget = rules[i].budget;
        if (rules[i].port_count > UINT16_MAX ||
            (budget != NULL &&
             pin_egress_budget_find(setup->budgets, setup->budget_count, budget->name) != budget))
            return false;
    }
    return count <= PIN_RULES_MAX && setup->budget_count <= PIN_BUDGETS_MAX;
}

static int seal(const uint8_t *blob, size_t size, struct pin_error *err) {
    PIN_CLOSE int fd = memfd_create("pinfold-egress", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool made = fd >= 0 && pin_write_all(fd, blob, size, err) &&
                fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    if (!made && !pin_is_set(err))
        (void)pin_fail_errno(err, "write the egress rules");
    return made ? pin_steal_fd(&fd) : -1;
}

int pin_rules_blob_write(const struct pin_egress_setup *setup, struct pin_error *err) {
    const struct pin_egress_rules *rules = &setup->rules;
    if (!fits(setup, rules->allow, rules->allow_count) || !fits(setup, rules->deny, rules->deny_count)) {
        (void)pin_fail(err, PIN_ERROR_INVALID,
                       "more than %d egress rules, too many ports, or a budget that isn't there",
                       PIN_RULES_MAX);
        return -1;
    }
    PIN_FREE uint8_t *blob = malloc(PIN_RULES_BLOB_MAX);
    if (blob == NULL) {
        (void)pin_fail_errno(err, "write the egress rules");
        return -1;
    }
    struct writer out = {.at = blob, .end = blob + PIN_RULES_BLOB_MAX};
    put(&out, magic, sizeof(magic));
    put_limits(&out, &setup->limits);
    put_number(&out, (uint64_t)setup->unknown_names, 1);
    put_proxy(&out, setup);
    put_budgets(&out, setup);
    put_rules(&out, setup, rules->allow, rules->allow_count);
    put_rules(&out, setup, rules->deny, rules->deny_count);
    if (out.full) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "the egress rules have more than %u bytes",
                       PIN_RULES_BLOB_MAX);
        return -1;
    }
    return seal(blob, (size_t)(out.at - blob), err);
}

/* A name or a pattern in canonical form, or none. */
static bool take_host(struct pin_cursor *in, struct pin_arena *arena, const char **host) {
    uint16_t size;
    const uint8_t *bytes;
    char canonical[PIN_HOST_MAX];
    if (!pin_take_u16be(in, &size) || !pin_take_bytes(in, size, &bytes))
        return false;
    *host = NULL;
    if (size == 0)
        return true;
    size_t skip = size > 2 && bytes[0] == '*' && bytes[1] == '.' ? 2 : 0;
    bool every = size == 1 && bytes[0] == '*';
    if (!every && (!pin_wire_name(canonical, bytes + skip, size - skip) || strlen(canonical) != size - skip ||
                   memcmp(canonical, bytes + skip, size - skip) != 0))
        return false;
    *host = pin_arena_strndup(arena, (const char *)bytes, size);
    return true;
}

static bool take_ports(struct pin_cursor *in, struct pin_arena *arena, struct pin_egress_rule *rule) {
    uint16_t count;
    if (!pin_take_u16be(in, &count) || pin_left(in) / 4 < count)
        return false;
    rule->port_count = count;
    rule->ports = pin_arena_array(arena, count, sizeof(*rule->ports));
    for (size_t i = 0; i < count; i++)
        if (!pin_take_u16be(in, &rule->ports[i].first) || !pin_take_u16be(in, &rule->ports[i].last) ||
            rule->ports[i].first > rule->ports[i].last)
            return false;
    return true;
}

#define ACCEPT_ALL (PIN_ACCEPT_NO_NAME | PIN_ACCEPT_ENCRYPTED_HELLO | PIN_ACCEPT_PLAIN_TEXT)

static bool take_terms(struct pin_cursor *in, const struct pin_egress_setup *setup,
                       struct pin_egress_rule *rule) {
    uint8_t inspect, accept;
    uint16_t budget;
    if (!pin_take_u8(in, &inspect) || !pin_take_u8(in, &accept) || !pin_take_u16be(in, &budget) ||
        inspect >= PIN_INSPECT_COUNT || (accept & ~ACCEPT_ALL) != 0 || budget > setup->budget_count)
        return false;
    rule->inspect = (enum pin_inspect)inspect;
    rule->accept = accept;
    rule->budget = budget > 0 ? &setup->budgets[budget - 1] : NULL;
    return true;
}

static bool take_rule(struct pin_cursor *in, struct pin_arena *arena, const struct pin_egress_setup *setup,
                      struct pin_egress_rule *rule) {
    const uint8_t *address;
    uint8_t protocol;
    if (!take_host(in, arena, &rule->host) || !pin_take_bytes(in, sizeof(rule->address), &address) ||
        !pin_take_u8(in, &rule->prefix) || !pin_take_u8(in, &protocol) || rule->prefix > 128 ||
        protocol >= PIN_PROTOCOL_COUNT)
        return false;
    memcpy(rule->address, address, sizeof(rule->address));
    rule->protocol = (enum pin_protocol)protocol;
    return take_terms(in, setup, rule) && take_ports(in, arena, rule);
}

static bool take_rules(struct pin_cursor *in, struct pin_arena *arena, const struct pin_egress_setup *setup,
                       const struct pin_egress_rule **rules, size_t *count) {
    uint16_t number;
    if (!pin_take_u16be(in, &number) || number > PIN_RULES_MAX)
        return false;
    struct pin_egress_rule *list = pin_arena_array(arena, number, sizeof(*list));
    for (size_t i = 0; i < number; i++)
        if (!take_rule(in, arena, setup, &list[i]))
            return false;
    *rules = list;
    *count = number;
    return true;
}

static bool take_limits(struct pin_cursor *in, struct pin_egress_limits *limits) {
    for (size_t i = 0; i < PIN_EGRESS_LIMIT_COUNT; i++)
        if (!pin_take_u64be(in, (uint64_t *)(void *)((char *)limits + pin_egress_limit_offsets[i])))
            return false;
    return true;
}

static bool take_budgets(struct pin_cursor *in, struct pin_arena *arena, struct pin_egress_setup *setup) {
    uint16_t count, size;
    const uint8_t *name;
    if (!pin_take_u16be(in, &count) || count > PIN_BUDGETS_MAX)
        return false;
    struct pin_egress_budget *list = pin_arena_array(arena, count, sizeof(*list));
    for (size_t i = 0; i < count; i++) {
        if (!pin_take_u16be(in, &size) || !pin_take_bytes(in, size, &name) || memchr(name, 0, size) != NULL ||
            !take_limits(in, &list[i].limits))
            return false;
        list[i].name = pin_arena_strndup(arena, (const char *)name, size);
    }
    setup->budgets = list;
    setup->budget_count = count;
    return true;
}

static bool take_proxy(struct pin_cursor *in, struct pin_arena *arena, struct pin_egress_setup *setup) {
    struct pin_proxy *proxy = &setup->proxy;
    uint8_t kind;
    uint16_t size;
    const uint8_t *address, *login;
    const char *host;
    if (!pin_take_u8(in, &kind) || kind >= PIN_PROXY_KIND_COUNT || !pin_take_u16be(in, &proxy->port) ||
        !pin_take_bytes(in, sizeof(proxy->address), &address) || !take_host(in, arena, &host) ||
        !pin_take_u16be(in, &size) || size >= PIN_PROXY_LOGIN_MAX || !pin_take_bytes(in, size, &login) ||
        memchr(login, 0, size) != NULL || (host != NULL && host[0] == '*'))
        return false;
    proxy->kind = (enum pin_proxy_kind)kind;
    memcpy(proxy->address, address, sizeof(proxy->address));
    if (host != NULL)
        memcpy(proxy->host, host, strlen(host) + 1);
    setup->proxy_login = pin_arena_strndup(arena, (const char *)login, size);
    return true;
}

static bool take_unknown_names(struct pin_cursor *in, struct pin_egress_setup *setup) {
    uint8_t answer;
    if (!pin_take_u8(in, &answer) || answer >= PIN_UNKNOWN_COUNT)
        return false;
    setup->unknown_names = (enum pin_unknown_names)answer;
    return true;
}

bool pin_rules_blob_read(const uint8_t *data, size_t size, struct pin_arena *arena,
                         struct pin_egress_setup *setup, struct pin_error *err) {
    struct pin_cursor in = {data, data + size};
    struct pin_egress_setup read = {.rules = {.allow = NULL}};
    const uint8_t *head;
    if (!pin_take_bytes(&in, sizeof(magic), &head) || memcmp(head, magic, sizeof(magic)) != 0 ||
        !take_limits(&in, &read.limits) || !take_unknown_names(&in, &read) ||
        !take_proxy(&in, arena, &read) || !take_budgets(&in, arena, &read) ||
        !take_rules(&in, arena, &read, &read.rules.allow, &read.rules.allow_count) ||
        !take_rules(&in, arena, &read, &read.rules.deny, &read.rules.deny_count) || pin_left(&in) > 0)
        return pin_fail(err, PIN_ERROR_SYNTAX, "the egress rules are not what this broker reads");
    *setup = read;
    return true;
}
