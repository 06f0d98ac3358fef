#include "policy/audit/weights.h"

#include <string.h>

#include <jansson.h>

#include "base/names.h"
#include "pin_policy_weights.h"
#include "policy/audit/arg_names.h"
#include "policy/json_source.h"
#include "policy/syscalls.h"

static const char *const part_names[] = {
    [PIN_SCORE_CALLS] = "calls",
    [PIN_SCORE_FAMILIES] = "families",
    [PIN_SCORE_FILES] = "files",
    [PIN_SCORE_DESCRIPTORS] = "descriptors",
    [PIN_SCORE_CAPABILITIES] = "capabilities",
    [PIN_SCORE_IDENTITY] = "identity",
    [PIN_SCORE_EGRESS] = "egress",
    [PIN_SCORE_SECRETS] = "secrets",
    [PIN_SCORE_LIMITS] = "limits",
};
_Static_assert(PIN_COUNT(part_names) == PIN_SCORE_PART_COUNT, "every part has a name");

const char *pin_score_part_name(enum pin_score_part part) {
    return part_names[part];
}

static const char *const grant_names[] = {
    [PIN_WEIGHT_WORKSPACE_READ] = "workspace-read",
    [PIN_WEIGHT_WORKSPACE_COW] = "workspace-cow",
    [PIN_WEIGHT_WORKSPACE_WRITE] = "workspace-write",
    [PIN_WEIGHT_ROOT_OVERLAY] = "root-overlay",
    [PIN_WEIGHT_WRITE_ROOT] = "write-root",
    [PIN_WEIGHT_WRITE_PATH] = "write-path",
    [PIN_WEIGHT_MOUNT_READ] = "mount-read",
    [PIN_WEIGHT_MOUNT_WRITE] = "mount-write",
    [PIN_WEIGHT_STDIO] = "stdio",
    [PIN_WEIGHT_TTY] = "tty",
    [PIN_WEIGHT_FRAMES_FD] = "frames-fd",
    [PIN_WEIGHT_FRAMES_STDOUT] = "frames-stdout",
    [PIN_WEIGHT_ROOT_INSIDE] = "root-inside",
    [PIN_WEIGHT_IDS] = "ids",
    [PIN_WEIGHT_PRIVILEGED] = "privileged",
    [PIN_WEIGHT_HOST_NAME] = "host-name",
    [PIN_WEIGHT_HOST_WILDCARD] = "host-wildcard",
    [PIN_WEIGHT_HOST_INTERNAL] = "host-internal",
    [PIN_WEIGHT_CIDR] = "cidr",
    [PIN_WEIGHT_CIDR_BIT] = "cidr-bit",
    [PIN_WEIGHT_PORT] = "port",
    [PIN_WEIGHT_PUBLISHED] = "published",
    [PIN_WEIGHT_PUBLISHED_UNIX] = "published-unix",
    [PIN_WEIGHT_SECRET] = "secret",
    [PIN_WEIGHT_NO_LIMIT] = "no-limit",
    [PIN_WEIGHT_OPTIONAL] = "optional",
};
_Static_assert(PIN_COUNT(grant_names) == PIN_WEIGHT_GRANT_COUNT, "every grant has a name");

struct reader {
    struct pin_weights *weights;
    const struct pin_json_source *source;
    struct pin_findings *found;
};

static bool read_number(const struct reader *reader, const struct pin_json *node, double most,
                        double *value) {
    double number = json_number_value(node->value);
    if (node->value == NULL) /* under a duplicate key or a fault, which has been said */
        return false;
    if (!json_is_number(node->value) || number < 0 || number > most) {
        pin_json_fault(reader->source, node, reader->found, NULL, "expected a number from 0 to %g", most);
        return false;
    }
    *value = number;
    return true;
}

#define WEIGHT_MAX 1000.0

/* 40, or {"weight": 40, "why": "…"}. */
static void read_weight(const struct reader *reader, const struct pin_json *node, struct pin_weight *weight) {
    if (!json_is_object(node->value)) {
        if (read_number(reader, node, WEIGHT_MAX, &weight->weight))
            weight->why = "from a file of your own";
        return;
    }
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        if (strcmp(child->key, "weight") == 0)
            (void)read_number(reader, child, WEIGHT_MAX, &weight->weight);
        else if (strcmp(child->key, "why") == 0 && json_is_string(child->value))
            weight->why = pin_arena_strdup(&reader->weights->arena, json_string_value(child->value));
        else
            pin_json_fault_key(reader->source, child, reader->found, "write \"weight\" and \"why\"",
                               "unknown or misused key '%.40s'", child->key);
    }
}

/* Names of a section, by index; NULL after the last. */
typedef const char *name_at(size_t index);

static const char *call_at(size_t index) {
    return index < pin_syscalls_count ? pin_syscalls[index].name : NULL;
}

static const char *family_at(size_t index) {
    int family;
    return index < PIN_WEIGHT_FAMILIES_MAX ? pin_arg_family(index, &family) : NULL;
}

static const char *capability_at(size_t index) {
    return index < PIN_CAPABILITY_COUNT ? pin_capability_name((unsigned)index) : NULL;
}

static const char *grant_at(size_t index) {
    return index < PIN_WEIGHT_GRANT_COUNT ? grant_names[index] : NULL;
}

static bool read_named(const struct reader *reader, const struct pin_json *node, name_at *names,
                       struct pin_weight *weights) {
    for (size_t i = 0; names(i) != NULL; i++)
        if (strcmp(names(i), node->key) == 0) {
            read_weight(reader, node, &weights[i]);
            return true;
        }
    return false;
}

static bool expect_object(const struct reader *reader, const struct pin_json *node) {
    if (!json_is_object(node->value))
        pin_json_fault(reader->source, node, reader->found, "write {\"NAME\": NUMBER}",
                       "expected an object, found %s", pin_json_type_name(node->value));
    return json_is_object(node->value);
}

/* "*" is what those count that have no weight of their own, so it is read first. */
static void read_section(const struct reader *reader, const struct pin_json *section, name_at *names,
                         struct pin_weight *weights) {
    if (!expect_object(reader, section))
        return;
    for (const struct pin_json *node = section->first; node != NULL; node = node->next)
        if (strcmp(node->key, "*") == 0) {
            struct pin_weight all = {0};
            read_weight(reader, node, &all);
            for (size_t i = 0; names(i) != NULL; i++)
                weights[i] = all;
        }
    for (const struct pin_json *node = section->first; node != NULL; node = node->next)
        if (strcmp(node->key, "*") != 0 && !read_named(reader, node, names, weights))
            pin_json_fault_key(reader->source, node, reader->found, NULL, "'%.60s' has no weight here",
                               node->key);
}

static void read_parts(const struct reader *reader, const struct pin_json *section) {
    if (!expect_object(reader, section))
        return;
    for (const struct pin_json *node = section->first; node != NULL; node = node->next) {
        int part = pin_name_find(part_names, PIN_SCORE_PART_COUNT, node->key);
        if (part < 0)
            pin_json_fault_key(reader->source, node, reader->found, NULL, "there is no part '%.60s'",
                               node->key);
        else
            (void)read_number(reader, node, 10.0, &reader->weights->parts[part]);
    }
}

static void read_top(const struct reader *reader, const struct pin_json *node) {
    struct pin_weights *weights = reader->weights;
    const struct {
        const char *key;
        name_at *names;
        struct pin_weight *weights;
    } sections[] = {
        {"calls",        call_at,       weights->calls       },
        {"families",     family_at,     weights->families    },
        {"capabilities", capability_at, weights->capabilities},
        {"grants",       grant_at,      weights->grants      },
    };
    if (strcmp(node->key, "about") == 0)
        return;
    if (strcmp(node->key, "partial") == 0) {
        (void)read_number(reader, node, 1.0, &weights->partial);
        return;
    }
    if (strcmp(node->key, "parts") == 0) {
        read_parts(reader, node);
        return;
    }
    for (size_t i = 0; i < PIN_COUNT(sections); i++)
        if (strcmp(node->key, sections[i].key) == 0) {
            read_section(reader, node, sections[i].names, sections[i].weights);
            return;
        }
    pin_json_fault_key(reader->source, node, reader->found,
                       "about, partial, parts, calls, families, capabilities or grants",
                       "unknown key '%.40s'", node->key);
}

bool pin_weights_read(struct pin_weights *weights, const char *file, const char *text, size_t size,
                      struct pin_findings *found) {
    struct pin_json_source source = {0};
    struct reader reader = {weights, &source, found};
    size_t before = found->count + found->dropped;
    if (weights->calls == NULL)
        weights->calls = pin_arena_array(&weights->arena, pin_syscalls_count, sizeof(*weights->calls));
    if (pin_json_read(&source, file, text, size, found)) {
        const struct pin_json *node = expect_object(&reader, source.root) ? source.root->first : NULL;
        for (; node != NULL; node = node->next)
            if (node->value != NULL)
                read_top(&reader, node);
    }
    pin_json_free(&source);
    return found->count + found->dropped == before;
}

bool pin_weights_builtin(struct pin_weights *weights, struct pin_findings *found) {
    return pin_weights_read(weights, "built-in:weights", (const char *)pin_policy_weights[0].data,
                            pin_policy_weights[0].size, found);
}

void pin_weights_free(struct pin_weights *weights) {
    pin_arena_free(&weights->arena);
}
