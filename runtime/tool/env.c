#include "runtime/tool/env.h"

#include <string.h>

#include "base/names.h"

static const struct pin_pair settings[] = {
    {"NO_COLOR",         "1"     },
    {"TERM",             "dumb"  },
    {"PYTHONUNBUFFERED", "1"     },
    {"PYTHONWARNINGS",   "ignore"},
    {"NODE_NO_WARNINGS", "1"     },
};

static void put(struct pin_arena *arena, struct pin_pair **pairs, size_t *count, const char *name,
                const char *value) {
    for (size_t i = 0; i < *count; i++) {
        if (strcmp((*pairs)[i].key, name) == 0) {
            (*pairs)[i].value = value;
            return;
        }
    }
    struct pin_pair *pair = pin_arena_grow(arena, pairs, count, sizeof(*pair));
    *pair = (struct pin_pair){.key = name, .value = value};
}

void pin_tool_env(const struct pin_tool_request *request, struct pin_arena *arena, struct pin_tool_env *env) {
    const struct pin_pair ids[] = {
        {"LETTA_AGENT_ID",   request->agent_id  },
        {"LETTA_PROJECT_ID", request->project_id},
        {"LETTA_TOOL_ID",    request->tool_id   },
    };
    struct pin_pair *pairs = NULL;
    size_t count = 0;
    const char *name;
    json_t *value;
    for (size_t layer = 0; layer < PIN_TOOL_LAYER_COUNT; layer++) {
        json_object_foreach(request->env[layer], name, value)
            put(arena, &pairs, &count, name, json_string_value(value));
    }
    for (size_t i = 0; i < PIN_COUNT(ids); i++)
        put(arena, &pairs, &count, ids[i].key, ids[i].value);
    *env = (struct pin_tool_env){settings, pairs, PIN_COUNT(settings), count};
}
