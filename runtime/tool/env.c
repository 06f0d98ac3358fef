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

static const char sealed_value[] = ""; /* by its address: nobody covered it */

static void put_config(const struct pin_tool_config *config, struct pin_arena *arena, struct pin_pair **pairs,
                       size_t *count) {
    for (size_t i = 0; i < config->env_count; i++)
        put(arena, pairs, count, config->env[i].name,
            config->env[i].sealed != NULL ? sealed_value : config->env[i].value);
}

static void list_sealed(const struct pin_tool_config *config, struct pin_arena *arena,
                        struct pin_tool_env *env) {
    const struct pin_tool_variable **list = NULL;
    for (size_t i = 0; i < config->env_count; i++)
        for (size_t j = 0; j < env->over_count; j++)
            if (env->over[j].value == sealed_value && strcmp(env->over[j].key, config->env[i].name) == 0)
                *(const struct pin_tool_variable **)pin_arena_grow(arena, &list, &env->sealed_count,
                                                                   sizeof(void *)) = &config->env[i];
    env->sealed = list;
}

void pin_tool_env(const struct pin_tool_request *request, const struct pin_tool_config *config,
                  struct pin_arena *arena, struct pin_tool_env *env) {
    const struct pin_pair ids[] = {
        {"LETTA_AGENT_ID",   request->agent_id  },
        {"LETTA_PROJECT_ID", request->project_id},
        {"LETTA_TOOL_ID",    request->tool_id   },
    };
    struct pin_pair *pairs = NULL;
    size_t count = 0;
    const char *name;
    json_t *value;
    put_config(config, arena, &pairs, &count);
    for (size_t layer = 0; layer < PIN_TOOL_LAYER_COUNT; layer++) {
        json_object_foreach(request->env[layer], name, value)
            put(arena, &pairs, &count, name, json_string_value(value));
    }
    for (size_t i = 0; i < PIN_COUNT(ids); i++)
        put(arena, &pairs, &count, ids[i].key, ids[i].value);
    *env = (struct pin_tool_env){
        .under = settings, .over = pairs, .under_count = PIN_COUNT(settings), .over_count = count};
    list_sealed(config, arena, env);
}
