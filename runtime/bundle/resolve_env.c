#include "runtime/bundle/resolve_env.h"

#include <string.h>

#include "base/text.h"

struct layers {
    const struct pin_policy *policy;
    struct pin_arena *arena;
    struct pin_pair *pairs;
    size_t count;
};

static bool is_refused(const struct pin_policy *policy, const char *name) {
    for (size_t i = 0; i < policy->environment.refuse.count; i++)
        if (pin_glob_match(policy->environment.refuse.items[i].text, name))
            return true;
    return false;
}

/* NULL as a value takes the name away. */
static void put(struct layers *layers, const char *name, const char *value) {
    for (size_t i = 0; i < layers->count; i++) {
        if (strcmp(layers->pairs[i].key, name) == 0) {
            layers->pairs[i].value = value;
            return;
        }
    }
    if (value == NULL || is_refused(layers->policy, name))
        return;
    struct pin_pair *pair =
        pin_arena_grow(layers->arena, &layers->pairs, &layers->count, sizeof(*layers->pairs));
    *pair = (struct pin_pair){.key = name, .value = value};
}

/* "NAME=VALUE" */
static void put_variable(struct layers *layers, const char *variable) {
    const char *equals = strchr(variable, '=');
    if (equals != NULL && equals != variable)
        put(layers, pin_arena_strndup(layers->arena, variable, (size_t)(equals - variable)), equals + 1);
}

static const char *host_value(const char *const *environment, const char *name) {
    size_t length = strlen(name);
    for (; environment != NULL && *environment != NULL; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return *environment + length + 1;
    return NULL;
}

/* The request's own on top of all, and what came of it into the bundle. */
static void finish(struct layers *layers, struct pin_bundle *bundle, const struct pin_request *request) {
    for (size_t i = 0; i < request->env_count; i++)
        put(layers, request->env[i].key, request->env[i].value);
    const char **env = pin_arena_array(&bundle->arena, layers->count, sizeof(*env));
    size_t count = 0;
    for (size_t i = 0; i < layers->count; i++)
        if (layers->pairs[i].value != NULL)
            env[count++] =
                pin_arena_printf(&bundle->arena, "%s=%s", layers->pairs[i].key, layers->pairs[i].value);
    bundle->process.env = env;
    bundle->process.env_count = count;
}

void pin_resolve_env(struct pin_bundle *bundle, const struct pin_policy *policy,
                     const struct pin_request *request) {
    struct layers layers = {.policy = policy, .arena = &bundle->arena};
    if (request->tty)
        put(&layers, "TERM", "xterm"); /* what every terminal understands; a higher layer knows better */
    for (size_t i = 0; i < request->env_under_count; i++)
        put(&layers, request->env_under[i].key, request->env_under[i].value);
    for (size_t i = 0; i < policy->environment.set_count; i++)
        put(&layers, policy->environment.set[i].name, policy->environment.set[i].value);
    for (size_t i = 0; i < request->image_env_count; i++)
        put_variable(&layers, request->image_env[i]);
    for (size_t i = 0; i < policy->environment.pass.count; i++) {
        const char *name = policy->environment.pass.items[i].text;
        const char *value = host_value(request->host_env, name);
        if (value != NULL)
            put(&layers, name, value);
    }
    finish(&layers, bundle, request);
}

void pin_override_env(struct pin_bundle *bundle, const struct pin_policy *policy,
                      const struct pin_request *request) {
    struct layers layers = {.policy = policy, .arena = &bundle->arena};
    for (size_t i = 0; i < bundle->process.env_count; i++)
        put_variable(&layers, bundle->process.env[i]);
    finish(&layers, bundle, request);
}
