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
        .language = pin_runner_program(call->request.language),
        .organisation = stored->organisation,
        .configuration = stored->name,
        .configuration_digest = stored->name != NULL ? stored->digest : NULL,
        .privileged = call->request.privileged,
    };
}

bool pin_call_resolve(struct pin_call *call, struct pin_front *front, const char *text, size_t size,
                      const struct pin_call_options *values, struct pin_findings *found) {
    size_t count = 0;
    if (!pin_tool_request_parse(&call->request, text, size, found) ||
        !pin_call_configure(&call->config, &call->request, values->organisation, values->configuration,
                            &call->arena, found) ||
        !put_options(call, values, found))
        return false;
    char **argv = pin_runner_argv(call->request.language, PIN_RUNNER_COLD, &call->arena, &count);
    call->shape = shape_of(call);
    front->request.records = front->request.hands_secrets = true;
    return pin_front_bundle(front, &call->options, argv, count, found);
}

void pin_call_release(struct pin_call *call) {
    pin_call_config_free(&call->config);
    pin_tool_request_free(&call->request);
    pin_arena_free(&call->arena);
}

struct pin_warm pin_call_warm(struct pin_call *call, const struct pin_front *front) {
    return (struct pin_warm){.request = &call->request,
                             .options = &call->options,
                             .front = front,
                             .shape = &call->shape,
                             .sealed = call->env.sealed_count > 0,
                             .arena = &call->arena,
                             .state_dir = -1};
}
