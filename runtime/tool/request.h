/* request.h: one tool call, as its JSON says it; tools/schema/tool-request.schema.json.
 *
 * Pure. Unknown fields, wrong types and what this version can't do are findings with a pointer, all of them
 * at once: a field is never ignored. Strings point into `json` and live as long as the request. Arguments are
 * converted by the tool's schema (args.h) here, before anything is built.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/findings.h"
#include "runtime/tool/requirement.h"

#define PIN_TOOL_REQUEST_MAX ((size_t)32 * 1024 * 1024) /* bytes of JSON */

enum pin_tool_language { PIN_TOOL_PYTHON, PIN_TOOL_TYPESCRIPT, PIN_TOOL_JAVASCRIPT, PIN_TOOL_LANGUAGE_COUNT };

enum pin_tool_reuse {                             /* of sandboxes */
                      PIN_TOOL_REUSE_COLD,        /* one is built for the call */
                      PIN_TOOL_REUSE_NEVER,       /* one that was started ahead, and has no other call */
                      PIN_TOOL_REUSE_FINGERPRINT, /* one that stays, for calls of the same fingerprint */
                      PIN_TOOL_REUSE_COUNT
};

enum pin_tool_layer { /* of the environment, lowest first; "env" has an object for each */
                      PIN_TOOL_ENV_SANDBOX,
                      PIN_TOOL_ENV_AGENT,
                      PIN_TOOL_ENV_CALL,
                      PIN_TOOL_LAYER_COUNT
};

struct pin_tool_request { /* zeroed at first */
    json_t *json;         /* owns the strings and values below */
    enum pin_tool_language language;
    const char *source, *name;
    json_t *args; /* an object, converted; owned */
    json_t *schema;
    bool named;                                  /* one object instead of arguments in their order */
    const char *agent_id, *project_id, *tool_id; /* NULL: none */
    const json_t *agent_state;                   /* NULL: none */
    bool pickled;                                /* agent_state is base64 that only the sandbox opens */
    json_t *env[PIN_TOOL_LAYER_COUNT];           /* objects of text or null; NULL: none */
    json_t *labels;                              /* object of text; NULL: none */
    const char *policy;                          /* a policy's name; NULL: not said */
    const char *organisation, *configuration;    /* of a stored one; NULL: not said */
    bool privileged;
    struct pin_arena arena; /* of the requirements' texts */
    struct pin_requirements requirements[PIN_INSTALLER_COUNT];
    uint64_t timeout_ns; /* 0: not said */
    enum pin_tool_reuse reuse;
};

/* False with findings. */
bool pin_tool_request_parse(struct pin_tool_request *request, const char *text, size_t size,
                            struct pin_findings *found);
void pin_tool_request_free(struct pin_tool_request *request);

/* What the runner reads on its stdin, JSON that the caller frees with free(); `key` is returned by the runner
 * with its result. `env` (NULL: none): the whole environment, for a runner that was started without the call.
 * NULL when memory is out. */
char *pin_tool_request_packet(const struct pin_tool_request *request, const char *key, const json_t *env);
