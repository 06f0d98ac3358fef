#include "runtime/tool/config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "policy/json_source.h"
#include "policy/reader.h"

struct walk {
    struct pin_tool_config *config;
    struct pin_reader *reader; /* policy's, for its JSON and its words; it has no policy here */
    const struct pin_json *node;
};

static void fault(const struct walk *walk, const struct pin_json *node, const char *what) {
    pin_json_fault(walk->reader->source, node, walk->reader->found, NULL, "the value isn't %s", what);
}

static const char *text_of(struct walk *walk, const struct pin_json *node) {
    const char *text = pin_reader_string(walk->reader, node);
    return text == NULL ? NULL : pin_arena_strdup(&walk->config->arena, text);
}

static void take_text(struct walk *walk, void *slot) {
    *(const char **)slot = text_of(walk, walk->node);
}

/* A name, or an absolute path: a relative one would mean another file to each caller. */
static void take_policy(struct walk *walk, void *slot) {
    const char *text = text_of(walk, walk->node);
    if (text != NULL && text[0] != '/' && !pin_is_name(text))
        fault(walk, walk->node, "a policy's name or absolute path");
    *(const char **)slot = text;
}

static void take_url(struct walk *walk, void *slot) {
    const char *text = text_of(walk, walk->node);
    if (text != NULL && strncmp(text, "https://", 8) != 0 && strncmp(text, "http://", 7) != 0)
        fault(walk, walk->node, "an http or https URL");
    *(const char **)slot = text;
}

static bool is_list(struct walk *walk, size_t most) {
    if (!json_is_array(walk->node->value)) {
        pin_reader_expected(walk->reader, walk->node, "a list", PIN_HINT_LIST);
        return false;
    }
    if (walk->node->count > most)
        fault(walk, walk->node, "a list of so few items as there may be");
    return walk->node->count <= most;
}

static const char **take_texts(struct walk *walk, size_t *count) {
    const char **list = NULL;
    if (!is_list(walk, PIN_REQUIREMENTS_MAX))
        return NULL;
    for (const struct pin_json *child = walk->node->first; child != NULL; child = child->next) {
        const char *text = text_of(walk, child);
        if (text != NULL)
            *(const char **)pin_arena_grow(&walk->config->arena, &list, count, sizeof(*list)) = text;
    }
    return list;
}

static void take_egress(struct walk *walk, void *slot) {
    *(const char ***)slot = take_texts(walk, &walk->config->egress_count);
}

static void take_hosts(struct walk *walk, void *slot) {
    *(const char ***)slot = take_texts(walk, &walk->config->index_host_count);
}

static void take_requirements(struct walk *walk, enum pin_installer installer,
                              struct pin_requirements *slot) {
    struct pin_requirements list = {0}, none = {0};
    struct pin_requirement one;
    if (!is_list(walk, PIN_REQUIREMENTS_MAX))
        return;
    for (const struct pin_json *child = walk->node->first; child != NULL; child = child->next) {
        struct pin_error err = {0};
        const char *text = pin_reader_string(walk->reader, child);
        if (text == NULL)
            continue;
        if (pin_requirement_parse(installer, text, &walk->config->arena, &one, &err))
            *(struct pin_requirement *)pin_arena_grow(&walk->config->arena, &list.items, &list.count,
                                                      sizeof(one)) = one;
        else
            pin_json_fault(walk->reader->source, child, walk->reader->found, err.hint, "%s", err.message);
    }
    pin_requirements_merge(&none, &list, &walk->config->arena, slot);
}

static void take_pip(struct walk *walk, void *slot) {
    take_requirements(walk, PIN_INSTALLER_PIP, slot);
}

static void take_npm(struct walk *walk, void *slot) {
    take_requirements(walk, PIN_INSTALLER_NPM, slot);
}

static void take_memory(struct walk *walk, void *slot) {
    const char *text = pin_reader_string(walk->reader, walk->node);
    walk->config->has_memory = text != NULL && pin_parse_size(text, slot);
    if (text != NULL && !walk->config->has_memory)
        fault(walk, walk->node, "a size such as '512MiB'");
}

static void take_timeout(struct walk *walk, void *slot) {
    const char *text = pin_reader_string(walk->reader, walk->node);
    walk->config->has_timeout = text != NULL && pin_parse_time(text, slot) && *(uint64_t *)slot > 0;
    if (text != NULL && !walk->config->has_timeout)
        fault(walk, walk->node, "a time such as '30s'");
}

static void take_cpus(struct walk *walk, void *slot) {
    uint32_t millicpus = 0;
    const char *text = pin_reader_string(walk->reader, walk->node);
    walk->config->has_cpus = text != NULL && pin_parse_cpus(text, &millicpus) && millicpus > 0;
    if (text != NULL && !walk->config->has_cpus)
        fault(walk, walk->node, "a number of processors such as '0.5'");
    *(uint64_t *)slot = millicpus;
}

static void take_pids(struct walk *walk, void *slot) {
    json_int_t number = json_integer_value(walk->node->value);
    walk->config->has_pids = json_is_integer(walk->node->value) && number > 0;
    if (!walk->config->has_pids)
        pin_reader_expected(walk->reader, walk->node, "a whole number above 0", "such as 64");
    else
        *(uint64_t *)slot = (uint64_t)number;
}

static void take_frames(struct walk *walk, void *slot) {
    const char *text = pin_reader_string(walk->reader, walk->node);
    *(bool *)slot = text != NULL && strcmp(text, "stdout-letta") == 0;
    if (text != NULL && !*(bool *)slot && strcmp(text, "fd") != 0)
        fault(walk, walk->node, "'fd' or 'stdout-letta'");
}

#define ROW(key, take, member)                                                                               \
    { key, take, offsetof(struct pin_tool_config, member) }
/* clang-format off */
static const struct {
    const char *key;
    void (*take)(struct walk *walk, void *slot);
    size_t offset;
} rows[] = {
    ROW("description", take_text, description),
    ROW("policy", take_policy, policy),
    ROW("privileged_policy", take_policy, privileged_policy),
    ROW("image", take_text, image),
    ROW("egress", take_egress, egress),
    ROW("memory", take_memory, memory_bytes),
    ROW("cpus", take_cpus, millicpus),
    ROW("pids", take_pids, pids),
    ROW("timeout", take_timeout, timeout_ns),
    ROW("pip_requirements", take_pip, requirements[PIN_INSTALLER_PIP]),
    ROW("npm_requirements", take_npm, requirements[PIN_INSTALLER_NPM]),
    ROW("pip_index", take_url, index[PIN_INSTALLER_PIP]),
    ROW("npm_registry", take_url, index[PIN_INSTALLER_NPM]),
    ROW("index_hosts", take_hosts, index_hosts),
    ROW("frames", take_frames, letta_frames),
};
/* clang-format on */

static void read_object(struct pin_tool_config *config, struct pin_reader *reader) {
    const char *keys[PIN_COUNT(rows)];
    const struct pin_json *members[PIN_COUNT(rows)] = {NULL};
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        keys[i] = rows[i].key;
    /* an unknown key is one fault, and the values of the others may have more */
    (void)pin_reader_members(reader, reader->source->root, keys, PIN_COUNT(rows), members);
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct walk walk = {config, reader, members[i]};
        if (members[i] != NULL && members[i]->value != NULL)
            rows[i].take(&walk, (char *)config + rows[i].offset);
    }
}

/* One text for each content: keys sorted, no spaces. */
static void print_canonical(struct pin_tool_config *config, const json_t *tree) {
    uint8_t digest[PIN_SHA256_SIZE];
    char *text = json_dumps(tree, JSON_COMPACT | JSON_SORT_KEYS);
    config->text = text == NULL ? "{}" : pin_arena_strdup(&config->arena, text);
    free(text);
    pin_sha256(config->text, strlen(config->text), digest);
    (void)pin_digest_print(config->digest, digest);
}

bool pin_tool_config_parse(struct pin_tool_config *config, const char *file, const char *text, size_t size,
                           struct pin_findings *found) {
    struct pin_json_source source = {0};
    struct pin_reader reader = {NULL, &source, found, false};
    if (pin_json_read(&source, file, text, size, found)) {
        read_object(config, &reader);
        if (!pin_found_any(found))
            print_canonical(config, source.tree);
    }
    pin_json_free(&source);
    return !pin_found_any(found);
}

char *pin_tool_config_patch(const char *text, const char *file, const char *patch, size_t size,
                            struct pin_findings *found) {
    struct pin_json_source source = {0};
    json_t *whole = json_loads(text, 0, NULL);
    const char *key;
    json_t *value;
    char *patched = NULL;
    if (whole == NULL)
        (void)pin_find(found, PIN_ERROR_SYNTAX, "", NULL, "the stored configuration is no JSON");
    else if (pin_json_read(&source, file, patch, size, found) && !json_is_object(source.tree))
        (void)pin_find(found, PIN_ERROR_SYNTAX, file, NULL, "a configuration is a JSON object");
    if (!pin_found_any(found)) {
        json_object_foreach(source.tree, key, value) {
            if (json_is_null(value))
                (void)json_object_del(whole, key);
            else
                (void)json_object_set(whole, key, value);
        }
        patched = json_dumps(whole, JSON_COMPACT | JSON_SORT_KEYS);
    }
    json_decref(whole);
    pin_json_free(&source);
    return patched;
}

void pin_tool_config_free(struct pin_tool_config *config) {
    pin_arena_free(&config->arena);
    *config = (struct pin_tool_config){0};
}

bool pin_tool_is_variable(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    return name[0] != '\0' && strchr("0123456789", name[0]) == NULL && strlen(name) <= 255 &&
           strspn(name, letters) == strlen(name);
}
