/* code: a cell of Python or JavaScript in a context that keeps its variables. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/supervise/result.h"
#include "tools/pinfold-kept/code_context.h"
#include "tools/pinfold-kept/code_result.h"
#include "tools/pinfold-kept/verbs.h"
#include "tools/pinfold/report.h"

#define IDLE_MS ((uint64_t)30 * 60 * 1000)
#define CODE_MAX ((size_t)16 * 1024 * 1024)

struct code_options {
    bool json, restart;
    int language;
    const char *context, *code;
    struct pin_number timeout, idle, lifetime;
};

#define ROW(name, letter, type, member, value, help)                                                         \
    { name, letter, type, offsetof(struct code_options, member), value, help, NULL }
static const struct pin_option options[] = {
    ROW("code", 'c', PIN_OPTION_TEXT, code, "CODE", "the cell (else FILE, or standard input)"),
    {"language", 0, PIN_OPTION_CHOICE, offsetof(struct code_options, language), NULL,
                                                                                             "of a new context (python)", pin_code_languages},
    ROW("context", 0, PIN_OPTION_TEXT, context, "NAME", "which context (that of the language)"),
    ROW("timeout", 't', PIN_OPTION_TIME, timeout, "T", "interrupt the cell after this time"),
    ROW("idle-timeout", 0, PIN_OPTION_TIME, idle, "T",
        "of a new context: ends it after this long without a cell (30m)"),
    ROW("lifetime", 0, PIN_OPTION_TIME, lifetime, "T", "of a new context: ends it after this long"),
    ROW("restart", 0, PIN_OPTION_FLAG, restart, NULL, "end the context first, and begin a new one"),
    ROW("json", 0, PIN_OPTION_FLAG, json, NULL, "print one JSON object"),
};

/* The caller frees it. */
static char *read_code(const struct pin_invocation *invocation, size_t *size, struct pin_error *err) {
    const struct code_options *values = invocation->values;
    const char *file = invocation->argument_count > 1 ? invocation->arguments[1] : "-";
    if (values->code != NULL && invocation->argument_count > 1) {
        (void)pin_fail(err, PIN_ERROR_USAGE, "there is both a FILE and --code");
        return NULL;
    }
    if (values->code != NULL) {
        *size = strlen(values->code);
        return strdup(values->code);
    }
    return strcmp(file, "-") == 0 ? pin_read_all(STDIN_FILENO, CODE_MAX, size, err)
                                  : pin_read_file_at(AT_FDCWD, file, CODE_MAX, size, err);
}

static int make_packet(const json_t *code, const char *key, struct pin_error *err) {
    json_t *request = json_pack("{s:s, s:O}", "key", key, "code", code);
    PIN_FREE char *text = request == NULL ? NULL : json_dumps(request, JSON_COMPACT);
    json_decref(request);
    PIN_CLOSE int packet = memfd_create("cell", MFD_CLOEXEC);
    if (packet < 0 || text == NULL)
        (void)pin_fail_errno(err, "hand the cell in");
    else if (pin_write_all(packet, text, strlen(text), err) && lseek(packet, 0, SEEK_SET) == 0)
        return pin_steal_fd(&packet);
    return -1;
}

static json_t *run_cell(const struct code_options *values, const struct pin_code_context *context,
                        struct pin_session *session, const json_t *code, const char *key,
                        struct pin_error *err) {
    PIN_CLOSE int packet = make_packet(code, key, err);
    int fds[] = {packet, STDOUT_FILENO, STDERR_FILENO};
    if (packet < 0)
        return NULL;
    json_t *request = pin_code_request_cell(context);
    (void)json_object_set_new(request, "frames", json_string("fd"));
    (void)json_object_set_new(request, "stdin", json_true());
    (void)json_object_set_new(request, "output", json_string(values->json ? "capture" : "pass"));
    if (!values->json) {
        (void)json_object_set_new(request, "stdout", json_true());
        (void)json_object_set_new(request, "stderr", json_true());
    }
    if (values->timeout.given)
        (void)json_object_set_new(request, "timeout_ms",
                                  json_integer((json_int_t)(values->timeout.value / PIN_NS_PER_MS)));
    return pin_client_send(&session->client, request, fds, values->json ? 1 : 3, err)
               ? pin_session_await(session, err)
               : NULL;
}

static void print_line(FILE *to, const json_t *text) {
    size_t size = json_string_length(text);
    (void)fwrite(json_string_value(text), 1, size, to);
    if (size > 0 && json_string_value(text)[size - 1] != '\n')
        (void)fputc('\n', to);
}

static void print_text(const json_t *object) {
    size_t i;
    json_t *item;
    const json_t *error = json_object_get(object, "error"), *trace = json_object_get(error, "traceback");
    json_array_foreach(json_object_get(object, "results"), i, item) {
        if (json_object_get(item, "text/plain") != NULL)
            print_line(stdout, json_object_get(item, "text/plain"));
    }
    if (json_is_string(trace))
        print_line(stderr, trace);
    else if (json_is_object(error))
        (void)fprintf(stderr, "%s: %s\n", json_string_value(json_object_get(error, "type")),
                      json_string_value(json_object_get(error, "message")));
    json_array_foreach(json_object_get(object, "notes"), i, item) {
        (void)fputs("pinfold: ", stderr);
        print_line(stderr, item);
    }
}

static void add_context(json_t *object, const struct pin_code_context *context, bool lost) {
    json_t *notes = json_object_get(object, "notes");
    if (context->had_one)
        (void)json_array_append_new(
            notes, json_string("the context had ended: this one is new, without its variables"));
    if (lost)
        (void)json_array_append_new(notes, json_string("the context was ended: its variables are gone"));
    (void)json_object_set_new(object, "context",
                              json_pack("{s:s, s:s, s:s}", "name", context->name, "language",
                                        pin_code_languages[context->language], "state",
                                        lost              ? "ended"
                                        : context->is_new ? "new"
                                                          : "kept"));
}

static int conclude(const struct code_options *values, struct pin_code_context *context,
                    struct pin_session *session, const json_t *message, const char *key) {
    struct pin_error err = {0};
    struct pin_code_outcome outcome = pin_code_result(json_object_get(message, "result"), key);
    int code = outcome.exit_code;
    if (outcome.ended && pin_code_context_was_out_of_memory(context, &session->client)) {
        pin_code_say_memory(&outcome);
        code = outcome.exit_code;
    }
    bool ended = !outcome.lost || pin_code_context_end(context, &session->client, &err);
    add_context(outcome.object, context, outcome.lost);
    if (!ended)
        code = pin_report(&err, false);
    if (!values->json)
        print_text(outcome.object);
    else if (!pin_json_print(STDOUT_FILENO, outcome.object, &err))
        code = pin_report(&err, false);
    json_decref(outcome.object);
    return code;
}

static int run_in(const char *sandbox, const struct code_options *values, const json_t *code) {
    struct pin_session session = PIN_SESSION_NONE;
    struct pin_code_context context;
    struct pin_error err = {0};
    char key[PIN_CODE_ID];
    json_t *message = NULL;
    bool open = pin_code_context_open(&context, sandbox, values->context, values->language, &err);
    context.idle_ms = values->idle.given ? values->idle.value / PIN_NS_PER_MS : IDLE_MS;
    context.lifetime_ms = values->lifetime.given ? values->lifetime.value / PIN_NS_PER_MS : 0;
    if (open && pin_session_open(&session, sandbox, &err) &&
        (!values->restart || pin_code_context_end(&context, &session.client, &err)) &&
        pin_code_context_ready(&context, &session, &err) && pin_code_draw(key, &err))
        message = run_cell(values, &context, &session, code, key, &err);
    int exit_code =
        message != NULL ? conclude(values, &context, &session, message, key) : pin_report(&err, values->json);
    json_decref(message);
    pin_session_close(&session);
    pin_code_context_close(&context);
    return exit_code;
}

static int run_code(const struct pin_invocation *invocation) {
    const struct code_options *values = invocation->values;
    struct pin_error err = {0};
    size_t size = 0;
    PIN_FREE char *text = read_code(invocation, &size, &err);
    json_t *code = text == NULL ? NULL : json_stringn(text, size);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, which the analyzer doesn't see */
    if (text != NULL && code == NULL)
        (void)pin_fail(&err, PIN_ERROR_INVALID, "the code isn't UTF-8");
    int exit_code =
        code == NULL ? pin_report(&err, values->json) : run_in(invocation->arguments[0], values, code);
    json_decref(code);
    return exit_code;
}

const struct pin_verb pin_kept_verb_code = {
    .name = "code",
    .synopsis = "NAME [FILE|-]",
    .summary = "run code in a context that keeps its variables",
    .description = "The code is one cell: its variables are there for the next one, and the value of its "
                   "last expression is "
                   "its result. The context starts with its first cell, and ends with the sandbox, with "
                   "--restart, or when a "
                   "cell can't be interrupted. Cells of one context run one after the other.",
    .example = "  pinfold code work -c 'x = 6'\n  echo 'x * 7' | pinfold code --json work",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct code_options),
    .least_arguments = 1,
    .most_arguments = 2,
    .run = run_code,
};
