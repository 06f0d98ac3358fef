#include "tools/pinfold-kept/code_context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/text.h"
#include "pin_code_runners.h"
#include "runtime/kept/home.h"

const char *const pin_code_languages[] = {"python", "javascript", NULL};

#define DYING_STEPS 20
#define DYING_STEP_US 10000

static const struct {
    const char *program, *option, *runner;
} programs[] = {
    [PIN_CODE_PYTHON] = {"python3", "-c", "code.py"},
    [PIN_CODE_JAVASCRIPT] = {"node",    "-e", "code.js"},
};
_Static_assert(PIN_COUNT(programs) == PIN_CODE_LANGUAGE_COUNT, "every language has a runner");

static const char *runner_of(enum pin_code_language language) {
    for (size_t i = 0; i < pin_code_runners_count; i++)
        if (strcmp(pin_code_runners[i].name, programs[language].runner) == 0)
            return (const char *)pin_code_runners[i].data;
    return "";
}

static json_t *request_start(enum pin_code_language language) {
    json_t *request = pin_client_request("exec");
    (void)json_object_set_new(
        request, "args",
        json_pack("[s, s, s]", programs[language].program, programs[language].option, runner_of(language)));
    (void)json_object_set_new(request, "detach", json_true());
    (void)json_object_set_new(request, "context", json_true());
    return request;
}

json_t *pin_code_request_cell(const struct pin_code_context *context) {
    json_t *request = pin_client_request("exec");
    (void)json_object_set_new(request, "args",
                              json_pack("[s, s]", "cell", pin_code_languages[context->language]));
    (void)json_object_set_new(request, "hand", json_true());
    (void)json_object_set_new(request, "cell_of", json_integer(context->exec));
    return request;
}

bool pin_code_draw(char id[PIN_CODE_ID], struct pin_error *err) {
    unsigned char bytes[(PIN_CODE_ID - 1) / 2];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return pin_fail_errno(err, "draw a key");
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static void name_file(const struct pin_code_context *context, const char *end, char name[128]) {
    (void)snprintf(name, 128, "code-%s.%s", context->name, end);
}

static int language_named(const char *name) {
    for (int i = 0; name != NULL && pin_code_languages[i] != NULL; i++)
        if (strcmp(pin_code_languages[i], name) == 0)
            return i;
    return -1;
}

/* What isn't there, or isn't a record, is no context. */
static void read_record(struct pin_code_context *context, int *language) {
    char name[128];
    struct pin_error err = {0};
    name_file(context, "json", name);
    json_t *record = pin_home_read(context->folder, name, &err);
    *language = language_named(json_string_value(json_object_get(record, "language")));
    if (*language >= 0)
        context->exec = json_integer_value(json_object_get(record, "exec"));
    json_decref(record);
}

static bool write_record(const struct pin_code_context *context, struct pin_error *err) {
    char name[128];
    name_file(context, "json", name);
    json_t *record =
        json_pack("{s:I, s:s}", "exec", context->exec, "language", pin_code_languages[context->language]);
    bool ok = pin_home_write(context->folder, name, record, err);
    json_decref(record);
    return ok;
}

static bool take_lock(struct pin_code_context *context, struct pin_error *err) {
    char name[128];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    name_file(context, "lock", name);
    context->lock = openat(context->folder, name, O_CREAT | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    return (context->lock >= 0 && fcntl(context->lock, F_OFD_SETLKW, &lock) == 0) ||
           pin_fail_errno(err, "lock the context '%s'", context->name);
}

bool pin_code_context_open(struct pin_code_context *context, const char *sandbox, const char *name,
                           int language, struct pin_error *err) {
    PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
    int recorded = -1;
    *context = (struct pin_code_context){.folder = -1, .lock = -1};
    context->name = name != NULL ? name : pin_code_languages[language >= 0 ? language : PIN_CODE_PYTHON];
    if (!pin_is_name(context->name))
        return pin_fail(err, PIN_ERROR_USAGE, "'%.60s' can't be the name of a context", context->name);
    if (!pin_client_find(&client, sandbox, err))
        return false;
    context->folder = pin_steal_fd(&client.folder);
    if (!take_lock(context, err))
        return false;
    read_record(context, &recorded);
    if (language < 0)
        language = recorded >= 0 ? recorded : language_named(context->name);
    context->language = language >= 0 ? (enum pin_code_language)language : PIN_CODE_PYTHON;
    if (recorded < 0 || recorded == (int)context->language)
        return true;
    (void)pin_fail(err, PIN_ERROR_INVALID, "the context '%s' is of %s", context->name,
                   pin_code_languages[recorded]);
    return pin_hint(err, "name another one with --context");
}

void pin_code_context_close(struct pin_code_context *context) {
    pin_close_fd(&context->lock);
    pin_close_fd(&context->folder);
}

static bool is_running(const struct pin_code_context *context, struct pin_client *client, bool *runs,
                       struct pin_error *err) {
    size_t i;
    json_t *exec, *facts = pin_client_call(client, pin_client_request("show"), err);
    *runs = false;
    json_array_foreach(json_object_get(facts, "execs"), i, exec) {
        const char *state = json_string_value(json_object_get(exec, "state"));
        if (json_integer_value(json_object_get(exec, "exec")) == context->exec && state != NULL)
            *runs = strcmp(state, "running") == 0;
    }
    json_decref(facts);
    return facts != NULL;
}

static bool start(struct pin_code_context *context, struct pin_session *session, struct pin_error *err) {
    json_t *request = request_start(context->language);
    (void)json_object_set_new(request, "idle_ms", json_integer((json_int_t)context->idle_ms));
    if (context->lifetime_ms > 0)
        (void)json_object_set_new(request, "lifetime_ms", json_integer((json_int_t)context->lifetime_ms));
    session->detach = true;
    json_t *message =
        pin_client_send(&session->client, request, NULL, 0, err) ? pin_session_await(session, err) : NULL;
    session->detach = false;
    context->exec = session->exec;
    session->exec = 0;
    const json_t *result = json_object_get(message, "result");
    const char *why = json_string_value(json_object_get(json_object_get(result, "error"), "message"));
    if (result != NULL)
        (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "start a context of %s: %s",
                       pin_code_languages[context->language], why != NULL ? why : "it ended at once");
    context->is_new = true;
    json_decref(message);
    return message != NULL && !pin_is_set(err) && write_record(context, err);
}

bool pin_code_context_ready(struct pin_code_context *context, struct pin_session *session,
                            struct pin_error *err) {
    bool runs = false;
    if (context->exec != 0 && !is_running(context, &session->client, &runs, err))
        return false;
    context->had_one = context->exec != 0 && !runs;
    return runs || start(context, session, err);
}

/* The cell knows that nobody answers before its context is known to be dead. */
static bool ends_soon(const struct pin_code_context *context, struct pin_client *client) {
    struct pin_error err = {0};
    bool runs = true;
    for (int i = 0; runs && i < DYING_STEPS; i++) {
        if (!is_running(context, client, &runs, &err))
            return false;
        if (runs)
            (void)usleep(DYING_STEP_US);
    }
    return !runs;
}

bool pin_code_context_was_out_of_memory(const struct pin_code_context *context, struct pin_client *client) {
    struct pin_error err = {0};
    if (context->exec == 0 || !ends_soon(context, client))
        return false;
    json_t *request = pin_client_request("wait");
    (void)json_object_set_new(request, "exec", json_integer(context->exec));
    json_t *end = pin_client_call(client, request, &err);
    const char *status = json_string_value(json_object_get(end, "status"));
    bool memory = status != NULL && strcmp(status, "memory") == 0;
    json_decref(end);
    return memory;
}

bool pin_code_context_end(struct pin_code_context *context, struct pin_client *client,
                          struct pin_error *err) {
    char name[128];
    name_file(context, "json", name);
    if (context->exec != 0) {
        json_t *request = pin_client_request("end");
        (void)json_object_set_new(request, "exec", json_integer(context->exec));
        json_t *ok = pin_client_call(client, request, err);
        if (ok == NULL && err->kind != PIN_ERROR_NOT_FOUND) /* it may have ended by itself */
            return false;
        pin_error_clear(err);
        json_decref(ok);
    }
    context->exec = 0;
    return unlinkat(context->folder, name, 0) == 0 || errno == ENOENT ||
           pin_fail_errno(err, "forget the context '%s'", context->name);
}
