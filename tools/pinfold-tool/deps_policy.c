/* What an installation may do, as a policy like any other; and what its driver is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/names.h"
#include "tools/pinfold-tool/deps.h"

#define LOOPBACK_NAME                                                                                        \
    "host.pinfold.internal" /* the host's loopback, as sandboxes call it: docs/egress.md                     \
                             */

/* Names by name, addresses by cidr, and the loopback by its own name. */
static bool add_rule(json_t *rules, const struct pin_deps_host *host) {
    char cidr[300];
    json_t *ports = json_pack("[i]", (int)host->port);
    if (host->is_loopback)
        return json_array_append_new(rules, json_pack("{s:s, s:o}", "host", LOOPBACK_NAME, "ports", ports)) ==
               0;
    (void)snprintf(cidr, sizeof(cidr), "%s/%d", host->name, strchr(host->name, ':') != NULL ? 128 : 32);
    return json_array_append_new(rules, json_pack("{s:s, s:o}", host->is_address ? "cidr" : "host",
                                                  host->is_address ? cidr : host->name, "ports", ports)) == 0;
}

static bool add_url(json_t *rules, const char *url, struct pin_error *err) {
    struct pin_deps_host host;
    return pin_deps_host_parse(url, &host, err) && add_rule(rules, &host);
}

/* "HOST:PORT" of index_hosts. */
static bool add_host(json_t *rules, const char *text, struct pin_error *err) {
    char url[320];
    (void)snprintf(url, sizeof(url), "https://%s", text);
    return strlen(text) < sizeof(url) - sizeof("https://") && strpbrk(text, "/@?#") == NULL &&
           add_url(rules, url, err);
}

static json_t *egress_of(const struct pin_deps_index *index, const struct pin_tool_config *stored,
                         struct pin_error *err) {
    json_t *rules = json_array();
    bool good = add_url(rules, index->url, err);
    for (size_t i = 0; good && i < index->extra_count; i++)
        good = add_url(rules, index->extra[i], err);
    for (size_t i = 0; good && i < stored->index_host_count; i++)
        good = add_host(rules, stored->index_hosts[i], err);
    if (good)
        return rules;
    json_decref(rules);
    if (!pin_is_set(err))
        (void)pin_fail(err, PIN_ERROR_INVALID, "a host of the index is no HOST:PORT");
    return NULL;
}

static json_t *optional_of(const struct pin_policy *call_policy) {
    json_t *list = json_array();
    for (int i = 0; i < PIN_PROTECT_COUNT; i++)
        if (call_policy->optional & (1u << i))
            (void)json_array_append_new(list, json_string(pin_protection_name((enum pin_protection)i)));
    return list;
}

static char *print(json_t *object, struct pin_error *err) {
    char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (text == NULL)
        (void)pin_fail(err, PIN_ERROR_INVALID, "the index or a requirement is no UTF-8");
    return text;
}

char *pin_deps_policy(const struct pin_deps_index *index, const struct pin_tool_config *stored,
                      const char *source, const char *target, const struct pin_policy *call_policy,
                      struct pin_error *err) {
    json_t *egress = egress_of(index, stored, err);
    if (egress == NULL)
        return NULL;
    return print(json_pack("{s:i, s:s, s:[s], s:{s:[{s:s, s:s, s:s}], s:{s:[s]}}, s:{s:o}, s:{s:[]}, s:o}",
                           "pinfold", 1, "name", "dependencies", "extends", "build", "filesystem", "mounts",
                           "source", source, "target", target, "access", "read-write", "write", "add", target,
                           "network", "egress", egress, "environment", "pass", "optional",
                           optional_of(call_policy)),
                 err);
}

/* The host's loopback has another name inside. A new reference. */
static json_t *url_inside(const char *url) {
    struct pin_error ignored = {0};
    struct pin_deps_host host;
    if (!pin_deps_host_parse(url, &host, &ignored) || !host.is_loopback)
        return json_string(url);
    return json_sprintf("%.*s" LOOPBACK_NAME "%s", (int)host.name_at, url,
                        url + host.name_at + host.name_length);
}

/* pip asks for a certificate of every host but its own idea of a loopback. */
static void trust_plain(json_t *trusted, const char *url) {
    struct pin_error ignored = {0};
    struct pin_deps_host host;
    if (pin_deps_host_parse(url, &host, &ignored) && host.is_plain)
        (void)json_array_append_new(
            trusted, json_sprintf("%s:%u", host.is_loopback ? LOOPBACK_NAME : host.name, host.port));
}

char *pin_deps_packet(const struct pin_deps_index *index, const struct pin_requirements *requirements,
                      const char *target, struct pin_error *err) {
    json_t *list = json_array(), *extra = json_array(), *trusted = json_array();
    for (size_t i = 0; i < requirements->count; i++)
        (void)json_array_append_new(list, json_string(requirements->items[i].text));
    for (size_t i = 0; i < index->extra_count; i++)
        (void)json_array_append_new(extra, url_inside(index->extra[i]));
    for (size_t i = 0; i < index->trusted_count; i++)
        (void)json_array_append_new(trusted, json_string(index->trusted[i]));
    trust_plain(trusted, index->url);
    for (size_t i = 0; i < index->extra_count; i++)
        trust_plain(trusted, index->extra[i]);
    return print(json_pack("{s:s, s:o, s:o, s:o, s:o, s:s?}", "target", target, "requirements", list, "index",
                           url_inside(index->url), "extra", extra, "trusted", trusted, "certificates",
                           index->certificates),
                 err);
}
