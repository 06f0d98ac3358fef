#include "tools/pinfold-tool/request.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/names.h"
#include "tools/pinfold-tool/runners.h"

char *pin_call_read(const char *name, size_t *size, struct pin_findings *found) {
    struct pin_error err = {0};
    bool is_stdin = name == NULL || strcmp(name, "-") == 0;
    char *text = is_stdin ? pin_read_all(STDIN_FILENO, PIN_TOOL_REQUEST_MAX, size, &err)
                          : pin_read_file_at(AT_FDCWD, name, PIN_TOOL_REQUEST_MAX, size, &err);
    if (text == NULL) {
        (void)pin_wrap(&err, "read the request");
        pin_find_error(found, &err);
    }
    return text;
}

static void put_labels(struct pin_call *call) {
    const char **labels = NULL;
    size_t count = 0;
    const char *name;
    json_t *value;
    json_object_foreach(call->request.labels, name, value) {
        const char **label = pin_arena_grow(&call->arena, &labels, &count, sizeof(*labels));
        *label = pin_arena_printf(&call->arena, "%s=%s", name, json_string_value(value));
    }
    call->options.labels = (struct pin_texts){labels, count};
}

static bool put_options(struct pin_call *call, const struct pin_call_options *values,
                        struct pin_findings *found) {
    call->options = values->front;
    pin_tool_env(&call->request, &call->config.stored, &call->arena, &call->env);
    call->options.env_over = call->env.over;
    call->options.env_over_count = call->env.over_count;
    call->options.env_under = call->env.under;
    call->options.env_under_count = call->env.under_count;
    call->options.frames = pin_name_find(pin_front_frames, 4, "fd");
    call->options.on_exit = -1;
    if (call->request.timeout_ns > 0)
        call->options.timeout = (struct pin_number){true, call->request.timeout_ns};
    put_labels(call);
    return pin_call_apply_config(&call->config, &call->request, &call->arena, &call->options, found);
}

static struct pin_tool_shape shape_of(const struct pin_call *call) {
    const struct pin_tool_config *stored = &call->config.stored;
    return (struct pin_tool_shape){
        .language = pin_runner_name(call->request.language),
        .organisation = stored->organisation,
        .configuration = stored->name,
        .configuration_digest = stored->name != NULL ? stored->digest : NULL,
        .pip_lock = pin_call_deps_lock(&call->deps, PIN_INSTALLER_PIP),
        .npm_lock = pin_call_deps_lock(&call->deps, PIN_INSTALLER_NPM),
        .privileged = call->request.privileged,
    };
}

static bool make_bundle(struct pin_call *call, struct pin_front *front, struct pin_findings *found) {
    front->request.records = front->request.hands_secrets = front->request.records_calls = true;
    return pin_front_bundle(front, &call->options, call->argv, call->arg_count, found);
}

/* A layer's own variables are of the runner's settings. */
static void show_layers(struct pin_call *call) {
    size_t count = call->env.under_count + call->deps.env_count;
    struct pin_pair *pairs = pin_arena_array(&call->arena, count + 1, sizeof(*pairs));
    memcpy(pairs, call->env.under, call->env.under_count * sizeof(*pairs));
    for (size_t i = 0; i < call->deps.env_count; i++)
        pairs[call->env.under_count + i] = call->deps.env[i];
    call->options.env_under = pairs;
    call->options.env_under_count = count;
    call->options.layers = call->deps.layers;
    call->options.layer_count = call->deps.layer_count;
    if (pin_call_deps_python(&call->deps) != NULL)
        call->argv[0] = pin_arena_strdup(&call->arena, pin_call_deps_python(&call->deps));
}

/* A call that the policy refuses installs nothing: it is judged first, and then once more with the layers. */
static bool add_dependencies(struct pin_call *call, struct pin_front *front,
                             const struct pin_call_options *values, struct pin_findings *found) {
    const struct pin_deps_options how = {call->options.image, call->options.site, call->options.policy,
                                         values->recreate, call->installs == PIN_INSTALLS_FOUND};
    struct pin_error err = {0};
    if (!pin_call_has_requirements(&call->config))
        return true;
    if (!make_bundle(call, front, found))
        return false;
    pin_front_free(front);
    *front = PIN_FRONT_NONE;
    if (!pin_call_deps(&call->deps, &call->config, &how, &call->arena, &err)) {
        pin_find_error(found, &err);
        return false;
    }
    show_layers(call);
    return true;
}

bool pin_call_resolve(struct pin_call *call, struct pin_front *front, const char *text, size_t size,
                      const struct pin_call_options *values, struct pin_findings *found) {
    if (!pin_tool_request_parse(&call->request, text, size, found) ||
        !pin_call_configure(&call->config, &call->request, values->organisation, values->configuration,
                            &call->arena, found) ||
        !put_options(call, values, found))
        return false;
    call->argv = pin_runner_argv(call->request.language, PIN_RUNNER_COLD, &call->arena, &call->arg_count);
    if (!add_dependencies(call, front, values, found) || !make_bundle(call, front, found))
        return false;
    pin_call_deps_path(&call->deps, front->bundle);
    call->shape = shape_of(call);
    return true;
}

void pin_call_release(struct pin_call *call) {
    pin_call_deps_free(&call->deps);
    pin_call_config_free(&call->config);
    pin_tool_request_free(&call->request);
    pin_arena_free(&call->arena);
}

struct pin_warm pin_call_warm(struct pin_call *call, const struct pin_front *front) {
    return (struct pin_warm){.request = &call->request,
                             .options = &call->options,
                             .front = front,
                             .shape = &call->shape,
                             .stored = &call->config.stored,
                             .env = &call->env,
                             .deps = &call->deps,
                             .arena = &call->arena,
                             .state_dir = -1};
}
