/* config.h: a stored configuration of tool calls, as its JSON says it; tools/schema/tool-config.schema.json.
 *
 * Pure. Read as strictly as a policy: unknown keys, wrong types and bad values are findings with their place,
 * all of them at once. Strings live in `arena`. A configuration asks, like a request, and the policy grants.
 * Source: docs/tool.md "Configurations".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/findings.h"
#include "base/sha256.h"
#include "runtime/tool/requirement.h"

#define PIN_TOOL_CONFIG_MAX ((size_t)256 * 1024) /* bytes of JSON */
#define PIN_TOOL_DEFAULT_ORGANISATION "default"
#define PIN_TOOL_DEFAULT_CONFIG "default"

struct pin_tool_variable { /* of a configuration's environment */
    const char *name;
    const char *value;  /* NULL: the name is taken away from the layers below, or the value is sealed */
    const char *sealed; /* hexadecimal; only the sealing program reads it; NULL: not sealed */
};

struct pin_tool_config { /* zeroed: the configuration that says nothing */
    struct pin_arena arena;
    const char *organisation, *name; /* NULL: not a stored one */
    char digest[PIN_DIGEST_TEXT];    /* of the content; "" where it isn't a stored one */
    const char *text;                /* canonical JSON */
    const char *description, *policy, *privileged_policy, *image;
    const char **egress;
    size_t egress_count;
    struct pin_requirements requirements[PIN_INSTALLER_COUNT];
    const char *index[PIN_INSTALLER_COUNT]; /* URLs; NULL: the client's own */
    const char **index_hosts;               /* "HOST:PORT": where the index keeps its files */
    size_t index_host_count;
    bool has_memory, has_cpus, has_pids, has_timeout;
    uint64_t memory_bytes, millicpus, pids, timeout_ns;
    bool letta_frames; /* a Letta frame in stdout stands for what a tool returns */
    struct pin_tool_variable *env;
    size_t env_count;
};

/* From JSON into a zeroed configuration; `file` is what findings call it. Fills `text` and `digest` too. */
bool pin_tool_config_parse(struct pin_tool_config *config, const char *file, const char *text, size_t size,
                           struct pin_findings *found);
/* The text of a configuration with the keys of `patch` laid over it; null takes a key away. The caller frees
 * it. It is not yet known to be good. */
char *pin_tool_config_patch(const char *text, const char *file, const char *patch, size_t size,
                            struct pin_findings *found);
void pin_tool_config_free(struct pin_tool_config *config);

/* Of variables: [A-Za-z_][A-Za-z0-9_]*, at most 255 bytes. */
bool pin_tool_is_variable(const char *name);
