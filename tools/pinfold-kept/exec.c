/* exec, shell: a command in a kept sandbox, with the caller's descriptors. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/supervise/result.h"
#include "runtime/supervise/terminal.h"
#include "tools/pinfold-kept/session.h"
#include "tools/pinfold/front.h"
#include "tools/pinfold/input.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/verbs.h"

struct exec_options {
    bool json, stream, tty, detach, interactive;
    const char *input, *cwd, *user;
    struct pin_texts env, secrets;
    int frames;
    struct pin_number timeout;
};

#define ROW(name, letter, type, member, value, help)                                                         \
    { name, letter, type, offsetof(struct exec_options, member), value, help, NULL }
static const struct pin_option options[] = {
    ROW("env", 'e', PIN_OPTION_TEXTS, env, "K=V", "set a variable for this command"),
    ROW("secret", 0, PIN_OPTION_TEXTS, secrets, "NAME[:env=V|:file]", "hand this secret to this command"),
    ROW("user", 'u', PIN_OPTION_TEXT, user, "USER[:GROUP]",
        "as this user, where the policy lets commands become others"),
    ROW("cwd", 0, PIN_OPTION_TEXT, cwd, "DIR", "start it in this directory"),
    ROW("timeout", 't', PIN_OPTION_TIME, timeout, "T", "end it after this time"),
    ROW("stdin", 0, PIN_OPTION_TEXT, input, "FILE|-", "what it reads (nothing)"),
    ROW("tty", 0, PIN_OPTION_FLAG, tty, NULL, "a terminal of its own"),
    ROW("detach", 'd', PIN_OPTION_FLAG, detach, NULL, "leave it running, and print its number"),
    ROW("interactive", 'i', PIN_OPTION_FLAG, interactive, NULL, "keep its input open for 'attach'"),
    {"frames", 0, PIN_OPTION_CHOICE, offsetof(struct exec_options, frames), NULL,
                                                                                                  "where result frames are read (none)", pin_front_frames},
    ROW("json", 0, PIN_OPTION_FLAG, json, NULL, "print one JSON object"),
    ROW("stream", 0, PIN_OPTION_FLAG, stream, NULL, "print JSON lines while things happen"),
};

struct session {
    struct pin_session talk;
    const struct exec_options *values;
    struct pin_terminal terminal;
};

static bool add_env(json_t *request, const struct pin_texts *texts, bool tty, struct pin_error *err) {
    json_t *env = json_object();
    const char *term = getenv("TERM");
    (void)json_object_set_new(request, "env", env);
    for (size_t i = 0; i < texts->count; i++) {
        const char *equals = strchr(texts->items[i], '=');
        if (equals == NULL || equals == texts->items[i])
            return pin_fail(err, PIN_ERROR_USAGE, "--env '%.60s' has no name and value", texts->items[i]);
        size_t length = (size_t)(equals - texts->items[i]);
        if (json_object_getn(env, texts->items[i], length) != NULL) {
            (void)pin_fail(err, PIN_ERROR_USAGE, "--env '%.*s' is given twice",
                           length < 60 ? (int)length : 60, texts->items[i]);
            return pin_hint(err, "leave one of them out");
        }
        if (json_object_setn_new(env, texts->items[i], length, json_string(equals + 1)) != 0)
            return pin_fail(err, PIN_ERROR_INVALID, "--env '%.60s' isn't UTF-8", texts->items[i]);
    }
    if (tty && term != NULL && json_object_get(env, "TERM") == NULL)
        (void)json_object_set_new(env, "TERM", json_string(term));
    return true;
}

static void set(json_t *request, const char *key, bool value) {
    if (value)
        (void)json_object_set_new(request, key, json_true());
}

/* -1 without an error: there is none. */
static bool open_input(const struct exec_options *values, int *input, struct pin_error *err) {
    *input = -1;
    if (values->input != NULL)
        *input = pin_input_open(values->input, err);
    else if (values->tty && isatty(STDIN_FILENO))
        *input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    return *input >= 0 || values->input == NULL;
}

static bool describe(json_t *request, const struct exec_options *values, char *const *args, size_t count,
                     int input, struct pin_error *err) {
    bool passes = !values->json && !values->detach;
    if (!pin_client_put_texts(request, "args", (const char *const *)args, count, err) ||
        !add_env(request, &values->env, values->tty, err) ||
        !pin_client_put_text(request, "user", values->user, err) ||
        !pin_client_put_text(request, "cwd", values->cwd, err) ||
        !pin_client_put_texts(request, "secrets", values->secrets.items, values->secrets.count, err))
        return false;
    set(request, "stdin", input >= 0);
    set(request, "stdout", passes);
    set(request, "stderr", passes && !values->stream && !values->tty);
    set(request, "tty", values->tty);
    set(request, "detach", values->detach);
    set(request, "interactive", values->interactive);
    if (values->frames >= 0)
        (void)json_object_set_new(request, "frames", json_string(pin_front_frames[values->frames]));
    if (values->json || values->stream)
        (void)json_object_set_new(request, "output", json_string(values->json ? "capture" : "stream"));
    if (values->timeout.given)
        (void)json_object_set_new(request, "timeout_ms",
                                  json_integer((json_int_t)(values->timeout.value / PIN_NS_PER_MS)));
    if (values->tty) {
        uint16_t rows, columns;
        pin_terminal_size(isatty(STDIN_FILENO) ? STDIN_FILENO : -1, &rows, &columns);
        (void)json_object_set_new(request, "rows", json_integer(rows));
        (void)json_object_set_new(request, "columns", json_integer(columns));
    }
    return true;
}

static bool ask(struct session *session, char *const *args, size_t count, struct pin_error *err) {
    const struct exec_options *values = session->values;
    int fds[3], fd_count = 0;
    PIN_CLOSE int input = -1;
    if (!open_input(values, &input, err))
        return false;
    json_t *request = pin_client_request("exec");
    if (!describe(request, values, args, count, input, err)) {
        json_decref(request);
        return false;
    }
    if (input >= 0)
        fds[fd_count++] = input;
    if (json_object_get(request, "stdout") != NULL)
        fds[fd_count++] = STDOUT_FILENO;
    if (json_object_get(request, "stderr") != NULL)
        fds[fd_count++] = STDERR_FILENO;
    return pin_client_send(&session->talk.client, request, fds, fd_count, err);
}

static void say_why(const json_t *error) {
    struct pin_error err = {0};
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *hint = json_string_value(json_object_get(error, "hint"));
    if (message == NULL)
        return;
    (void)pin_fail(&err, PIN_ERROR_SYSTEM, "%s", message);
    if (hint != NULL && hint[0] != '\0')
        (void)pin_hint(&err, "%s", hint);
    (void)pin_report(&err, false);
}

static int conclude(const struct session *session, const json_t *message) {
    struct pin_error err = {0};
    const json_t *result = json_object_get(message, "result");
    if (session->values->detach && result == NULL) {
        (void)printf("%lld\n", (long long)session->talk.exec);
        return 0;
    }
    if (session->values->json && !pin_json_print(STDOUT_FILENO, result, &err))
        return pin_report(&err, false);
    if (!session->values->json && !session->values->stream)
        say_why(json_object_get(result, "error"));
    return (int)json_integer_value(json_object_get(result, "exit_code"));
}

static int run_in(const char *name, const struct exec_options *values, char *const *args, size_t count) {
    struct session session = {.talk = PIN_SESSION_NONE, .values = values};
    struct pin_error err = {0};
    json_t *message = NULL;
    bool raw = values->tty && isatty(STDIN_FILENO);
    session.talk.tty = values->tty;
    session.talk.detach = values->detach;
    if (pin_session_open(&session.talk, name, &err) &&
        (!raw || pin_terminal_raw(&session.terminal, STDIN_FILENO, &err)) && ask(&session, args, count, &err))
        message = pin_session_await(&session.talk, &err);
    pin_terminal_restore(&session.terminal);
    int code =
        message != NULL ? conclude(&session, message) : pin_report(&err, values->json || values->stream);
    json_decref(message);
    pin_session_close(&session.talk);
    return code;
}

static int run_exec(const struct pin_invocation *invocation) {
    return run_in(invocation->arguments[0], invocation->values, invocation->arguments + 1,
                  invocation->argument_count - 1);
}

static int run_shell(const struct pin_invocation *invocation) {
    static char shell[] = "sh", with_script[] = "-c";
    struct exec_options values = *(const struct exec_options *)invocation->values;
    char *args[] = {shell, with_script, invocation->arguments[1], NULL};
    bool has_script = invocation->argument_count > 1;
    values.tty = values.tty || (!has_script && isatty(STDIN_FILENO));
    if (!has_script && !values.tty && values.input == NULL)
        values.input = "-";
    return run_in(invocation->arguments[0], &values, args, has_script ? 3 : 1);
}

const struct pin_verb pin_kept_verb_exec = {
    .name = "exec",
    .synopsis = "NAME -- CMD ARG…",
    .summary = "run a command in a kept sandbox",
    .description =
        "The command starts inside every wall of the sandbox, in a cgroup of its own; what it leaves behind "
        "ends with it.",
    .example = "  pinfold exec work --timeout 10s --json -- python3 step1.py",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct exec_options),
    .least_arguments = 2,
    .most_arguments = SIZE_MAX,
    .run = run_exec,
    .options_end = 2,
};

const struct pin_verb pin_kept_verb_shell = {
    .name = "shell",
    .synopsis = "NAME ['SCRIPT']",
    .summary = "a shell in a kept sandbox, or a script for it",
    .example = "  pinfold shell work 'cd /workspace && make'",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct exec_options),
    .least_arguments = 1,
    .most_arguments = 2,
    .run = run_shell,
    .options_end = 2,
};
