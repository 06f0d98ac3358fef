#include "runtime/bundle/bundle_codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "policy/host_grant.h"
#include "policy/policy_write.h"

#define FAULT(reader, node, hint, ...)                                                                       \
    pin_json_fault(&(reader)->source, node, (reader)->found, hint, __VA_ARGS__)

/* linux.namespaces: a list of {type, path}; here it is an array by type. */

struct namespace_item {
    const char *type, *path;
};
static const struct pin_bundle_row namespace_rows[] = {
    PIN_ROW("type", TEXT, PIN_AT(struct namespace_item, type), .required = true),
    PIN_ROW("path", TEXT, PIN_AT(struct namespace_item, path)),
};
static const struct pin_bundle_table namespace_fields = PIN_TABLE(namespace_rows);

static int find_namespace(const char *name) {
    for (unsigned i = 0; i < PIN_NS_COUNT; i++)
        if (strcmp(pin_namespace_name((enum pin_namespace)i), name) == 0)
            return (int)i;
    return -1;
}

static void read_namespaces(struct pin_bundle_reader *reader, const struct pin_json *node, void *base) {
    struct pin_bundle *bundle = base;
    if (!pin_bundle_expect(reader, node, JSON_ARRAY))
        return;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        struct namespace_item item = {0};
        char shown[64];
        pin_bundle_read_object(reader, child, &namespace_fields, &item);
        if (item.type == NULL)
            continue;
        int index = find_namespace(item.type);
        if (index < 0) {
            FAULT(reader, child, NULL, "'%s' is no namespace",
                  pin_escape(shown, sizeof(shown), item.type, strlen(item.type)));
            continue;
        }
        struct pin_bundle_namespace *place = &bundle->namespaces[index];
        if (place->present)
            FAULT(reader, child, "keep one of them", "the namespace '%s' stands twice", item.type);
        place->present = true;
        place->path = item.path != NULL && item.path[0] != '\0' ? item.path : NULL;
    }
}

static bool write_namespaces(struct pin_json_text *text, const void *base) {
    const struct pin_bundle *bundle = base;
    size_t count = 0;
    pin_json_text_open(text, '[');
    for (unsigned i = 0; i < PIN_NS_COUNT; i++) {
        if (!bundle->namespaces[i].present)
            continue;
        struct namespace_item item = {pin_namespace_name((enum pin_namespace)i), bundle->namespaces[i].path};
        struct pin_json_mark mark = pin_json_text_member(text, NULL, count++);
        pin_json_text_open(text, '{');
        pin_bundle_write_rows(text, &namespace_fields, &item);
        pin_json_text_close(text, '}');
        pin_json_text_end(text, &mark);
    }
    pin_json_text_close(text, ']');
    return count > 0;
}

const struct pin_bundle_codec pin_codec_namespaces = {read_namespaces, write_namespaces};

/* An object whose members are objects of two numbers, kept as one text: timeOffsets and rdma. */

struct two_numbers {
    bool has_first, has_second;
    int64_t first;
    uint64_t second;
};

static const struct pin_bundle_row offset_rows[] = {
    PIN_ROW("secs", NUMBER, PIN_I64(struct two_numbers, first), .always = true),
    {"nanosecs", PIN_ROW_NUMBER, PIN_AT(struct two_numbers, second), .size = 8, .max = 999999999,
                                                                          .always = true},
};
static const struct pin_bundle_table offset_fields = PIN_TABLE(offset_rows);

static const struct pin_bundle_row rdma_rows[] = {
    PIN_ROW("hcaHandles", NUMBER, PIN_AT(struct two_numbers, first), .size = 8, .max = UINT32_MAX,
            PIN_HAS(struct two_numbers, has_first)),
    PIN_ROW("hcaObjects", NUMBER, PIN_AT(struct two_numbers, second), .size = 8, .max = UINT32_MAX,
            PIN_HAS(struct two_numbers, has_second)),
};
static const struct pin_bundle_table rdma_fields = PIN_TABLE(rdma_rows);

static void write_pairs(struct pin_json_text *text, const struct pin_pair *pairs, size_t count,
                        const struct pin_bundle_table *table,
                        void (*split)(const char *value, struct two_numbers *numbers)) {
    pin_json_text_open(text, '{');
    for (size_t i = 0; i < count; i++) {
        struct two_numbers numbers = {0};
        split(pairs[i].value, &numbers);
        struct pin_json_mark mark = pin_json_text_member(text, pairs[i].key, i);
        pin_json_text_open(text, '{');
        pin_bundle_write_rows(text, table, &numbers);
        pin_json_text_close(text, '}');
        pin_json_text_end(text, &mark);
    }
    pin_json_text_close(text, '}');
}

static void read_time_offsets(struct pin_bundle_reader *reader, const struct pin_json *node, void *base) {
    struct pin_bundle *bundle = base;
    static const char *const clocks[] = {"monotonic", "boottime"};
    if (!pin_bundle_expect(reader, node, JSON_OBJECT))
        return;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        struct two_numbers numbers = {0};
        if (pin_name_find(clocks, PIN_COUNT(clocks), child->key) < 0) {
            pin_json_fault_key(&reader->source, child, reader->found, "write monotonic or boottime",
                               "this clock has no offset");
            continue;
        }
        if (child->value == NULL)
            continue;
        pin_bundle_read_object(reader, child, &offset_fields, &numbers);
        struct pin_pair *pair =
            pin_arena_grow(reader->arena, &bundle->time_offsets, &bundle->time_offset_count, sizeof(*pair));
        pair->key = pin_arena_strdup(reader->arena, child->key);
        pair->value = pin_arena_printf(reader->arena, "%" PRId64 ".%" PRIu64, numbers.first, numbers.second);
    }
}

static void split_offset(const char *value, struct two_numbers *numbers) {
    (void)sscanf(value, "%" SCNd64 ".%" SCNu64, &numbers->first, &numbers->second); /* our own text */
}

static bool write_time_offsets(struct pin_json_text *text, const void *base) {
    const struct pin_bundle *bundle = base;
    write_pairs(text, bundle->time_offsets, bundle->time_offset_count, &offset_fields, split_offset);
    return bundle->time_offset_count > 0;
}

const struct pin_bundle_codec pin_codec_time_offsets = {read_time_offsets, write_time_offsets};

static void read_rdma(struct pin_bundle_reader *reader, const struct pin_json *node, void *base) {
    struct pin_bundle_resources *resources = base;
    if (!pin_bundle_expect(reader, node, JSON_OBJECT))
        return;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        struct two_numbers numbers = {0};
        char first[48] = "", second[48] = "";
        if (child->value == NULL)
            continue;
        pin_bundle_read_object(reader, child, &rdma_fields, &numbers);
        if (numbers.has_first)
            (void)snprintf(first, sizeof(first), "hca_handle=%" PRId64, numbers.first);
        if (numbers.has_second)
            (void)snprintf(second, sizeof(second), "%shca_object=%" PRIu64, numbers.has_first ? " " : "",
                           numbers.second);
        struct pin_pair *pair =
            pin_arena_grow(reader->arena, &resources->rdma, &resources->rdma_count, sizeof(*pair));
        pair->key = pin_arena_strdup(reader->arena, child->key);
        pair->value = pin_arena_printf(reader->arena, "%s%s", first, second);
    }
}

static void split_rdma(const char *value, struct two_numbers *numbers) {
    const char *handle = strstr(value, "hca_handle="), *object = strstr(value, "hca_object=");
    numbers->has_first = handle != NULL && sscanf(handle + 11, "%" SCNd64, &numbers->first) == 1;
    numbers->has_second = object != NULL && sscanf(object + 11, "%" SCNu64, &numbers->second) == 1;
}

static bool write_rdma(struct pin_json_text *text, const void *base) {
    const struct pin_bundle_resources *resources = base;
    write_pairs(text, resources->rdma, resources->rdma_count, &rdma_fields, split_rdma);
    return resources->rdma_count > 0;
}

const struct pin_bundle_codec pin_codec_rdma = {read_rdma, write_rdma};

/* pinfold.egress: a destination is a host name or an address range, ports are "443" or "8000-8100". */

typedef bool read_pattern(const char *text, char to[PIN_HOST_MAX + 2], struct pin_error *err);

static void read_target(struct pin_bundle_reader *reader, const struct pin_json *node, read_pattern *pattern,
                        void *base) {
    struct pin_egress_rule *rule = base;
    struct pin_error err = {0};
    char host[PIN_HOST_MAX + 2];
    const char *text = pin_bundle_read_text(reader, node);
    if (text == NULL)
        return;
    if (strchr(text, '/') != NULL || strchr(text, ':') != NULL) {
        if (!pin_cidr_parse(text, rule->address, &rule->prefix, &err))
            FAULT(reader, node, err.hint, "%s", err.message);
    } else if (pattern(text, host, &err)) {
        rule->host = pin_arena_strdup(reader->arena, host);
    } else {
        FAULT(reader, node, err.hint, "%s", err.message);
    }
}

static void read_destination(struct pin_bundle_reader *reader, const struct pin_json *node, void *base) {
    read_target(reader, node, pin_host_grant, base);
}

static void read_denied(struct pin_bundle_reader *reader, const struct pin_json *node, void *base) {
    read_target(reader, node, pin_host_pattern, base);
}

static bool write_destination(struct pin_json_text *text, const void *base) {
    const struct pin_egress_rule *rule = base;
    char cidr[PIN_CIDR_TEXT];
    pin_json_text_string(text,
                         rule->host != NULL ? rule->host : pin_cidr_print(cidr, rule->address, rule->prefix));
    return true;
}

const struct pin_bundle_codec pin_codec_destination = {read_destination, write_destination};
const struct pin_bundle_codec pin_codec_denied = {read_denied, write_destination};

/* The limits come later: pin_egress_give_budgets(). */
static void read_budget(struct pin_bundle_reader *reader, const struct pin_json *node, void *base) {
    struct pin_egress_rule *rule = base;
    const char *text = pin_bundle_read_text(reader, node);
    if (text == NULL)
        return;
    struct pin_egress_budget *named = pin_arena_alloc(reader->arena, sizeof(*named));
    *named = (struct pin_egress_budget){.name = pin_arena_strdup(reader->arena, text),
                                        .limits = pin_egress_no_limits};
    rule->budget = named;
}

static bool write_budget(struct pin_json_text *text, const void *base) {
    const struct pin_egress_rule *rule = base;
    if (rule->budget != NULL)
        pin_json_text_string(text, rule->budget->name);
    return rule->budget != NULL;
}

const struct pin_bundle_codec pin_codec_budget = {read_budget, write_budget};

static void read_ports(struct pin_bundle_reader *reader, const struct pin_json *node, void *base) {
    struct pin_egress_rule *rule = base;
    if (!pin_bundle_expect(reader, node, JSON_ARRAY))
        return;
    rule->ports = pin_arena_array(reader->arena, node->count, sizeof(*rule->ports));
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        const char *text = pin_bundle_read_text(reader, child);
        if (text == NULL)
            continue;
        if (pin_ports_parse(text, &rule->ports[rule->port_count]))
            rule->port_count++;
        else
            FAULT(reader, child, "write \"443\" or \"8000-8100\"", "this is no port or range of ports");
    }
    rule->port_count = pin_ports_normalise(rule->ports, rule->port_count);
}

static bool write_ports(struct pin_json_text *text, const void *base) {
    const struct pin_egress_rule *rule = base;
    pin_json_text_open(text, '[');
    for (size_t i = 0; i < rule->port_count; i++) {
        char range[16];
        bool one = rule->ports[i].first == rule->ports[i].last;
        (void)snprintf(range, sizeof(range), one ? "%u" : "%u-%u", rule->ports[i].first, rule->ports[i].last);
        struct pin_json_mark mark = pin_json_text_member(text, NULL, i);
        pin_json_text_string(text, range);
        pin_json_text_end(text, &mark);
    }
    pin_json_text_close(text, ']');
    return true;
}

const struct pin_bundle_codec pin_codec_ports = {read_ports, write_ports};

/* The place of a rule: "file:line:column", or a word where there is no line. */

static bool take_number(char *text, uint32_t *value) {
    char *colon = strrchr(text, ':'), *end;
    if (colon == NULL || colon[1] < '0' || colon[1] > '9')
        return false;
    unsigned long read = strtoul(colon + 1, &end, 10);
    if (*end != '\0' || read == 0 || read > UINT32_MAX)
        return false;
    *value = (uint32_t)read;
    *colon = '\0';
    return true;
}

static void read_place(struct pin_bundle_reader *reader, const struct pin_json *node, void *base) {
    struct pin_egress_rule *rule = base;
    const char *text = pin_bundle_read_text(reader, node);
    if (text == NULL)
        return;
    if (strlen(text) >= PIN_PLACE_TEXT) {
        FAULT(reader, node, NULL, "a place has at most %d bytes", PIN_PLACE_TEXT - 1);
        return;
    }
    char *file = pin_arena_strdup(reader->arena, text);
    struct pin_place place = {.file = file};
    if (!take_number(file, &place.column) || !take_number(file, &place.line))
        place = (struct pin_place){.file = text};
    rule->place = place;
}

static bool write_place(struct pin_json_text *text, const void *base) {
    const struct pin_egress_rule *rule = base;
    char place[PIN_PLACE_TEXT];
    if (rule->place.file == NULL)
        return false;
    pin_json_text_string(text, pin_place_print(place, &rule->place));
    return true;
}

const struct pin_bundle_codec pin_codec_place = {read_place, write_place};
