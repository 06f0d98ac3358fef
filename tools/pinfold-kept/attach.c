/* attach: to a command that runs in a kept sandbox: its output from the log and as it comes, and its input.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/supervise/terminal.h"
#include "tools/pinfold-kept/client.h"
#include "tools/pinfold-kept/session.h"
#include "tools/pinfold-kept/verbs.h"
#include "tools/pinfold/input.h"
#include "tools/pinfold/report.h"

#define LEAVE_FIRST 0x10 /* control-P, then control-Q: what docker's users know */
#define LEAVE_SECOND 0x11

struct attach_options {
    bool json, no_stdin;
    const char *input;
    struct pin_number since;
};

static const struct pin_option options[] = {
    {"since",    0, PIN_OPTION_COUNT, offsetof(struct attach_options, since),    "N",
     "only what came after record N",                                                                                  NULL},
    {"stdin",    0, PIN_OPTION_TEXT,  offsetof(struct attach_options, input),    "FILE|-",
     "what it reads (the terminal, where there is one)",                                                               NULL},
    {"no-stdin", 0, PIN_OPTION_FLAG,  offsetof(struct attach_options, no_stdin), NULL,     "only look",                NULL},
    {"json",     0, PIN_OPTION_FLAG,  offsetof(struct attach_options, json),     NULL,     "one JSON object a record",
     NULL                                                                                                                  },
};

struct attached {
    struct pin_client client;
    const struct attach_options *values;
    struct pin_terminal terminal;
    uint64_t exec;
    bool is_terminal, takes_input; /* the command's */
    int signals;
    int keys; /* where what is typed goes to; -1: nothing is typed */
    bool first_key, left;
};

/* The one of this number, or the one that was started last. */
static bool find_exec(struct attached *attached, struct pin_error *err) {
    size_t i;
    json_t *facts = pin_client_call(&attached->client, pin_client_request("show"), err), *exec;
    if (facts == NULL)
        return false;
    uint64_t wanted = attached->exec;
    json_array_foreach(json_object_get(facts, "execs"), i, exec) {
        uint64_t number = (uint64_t)json_integer_value(json_object_get(exec, "exec"));
        if (wanted != 0 && number != wanted)
            continue;
        attached->exec = number;
        attached->is_terminal = json_is_true(json_object_get(exec, "tty"));
        attached->takes_input = json_is_true(json_object_get(exec, "input"));
    }
    json_decref(facts);
    return true;
}

/* The keys that leave must not reach the command, so that what is typed comes by here. */
static bool open_keys(struct attached *attached, int *input, struct pin_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return pin_fail_errno(err, "make a pipe");
    *input = ends[0];
    attached->keys = ends[1];
    return !attached->is_terminal || pin_terminal_raw(&attached->terminal, STDIN_FILENO, err);
}

static bool open_input(struct attached *attached, int *input, struct pin_error *err) {
    const char *file = attached->values->input;
    if (attached->values->no_stdin || (file == NULL && (!attached->takes_input || !isatty(STDIN_FILENO))))
        return true;
    if (file == NULL)
        return open_keys(attached, input, err);
    *input = pin_input_open(file, err);
    return *input >= 0;
}

static bool ask(struct attached *attached, struct pin_error *err) {
    PIN_CLOSE int input = -1;
    int fds[3], count = 0;
    if (!open_input(attached, &input, err))
        return false;
    json_t *request = pin_client_request("attach");
    (void)json_object_set_new(request, "exec", json_integer((json_int_t)attached->exec));
    (void)json_object_set_new(request, "since", json_integer((json_int_t)attached->values->since.value));
    (void)json_object_set_new(request, "stdin", json_boolean(input >= 0));
    (void)json_object_set_new(request, "stdout", json_true());
    (void)json_object_set_new(request, "stderr", json_boolean(!attached->values->json));
    (void)json_object_set_new(request, "output", json_string(attached->values->json ? "stream" : "pass"));
    if (input >= 0)
        fds[count++] = input;
    fds[count++] = STDOUT_FILENO;
    if (!attached->values->json)
        fds[count++] = STDERR_FILENO;
    return pin_client_send(&attached->client, request, fds, count, err);
}

static bool follow_size(struct attached *attached, struct pin_error *err) {
    if (!attached->is_terminal || attached->keys < 0)
        return true;
    return pin_client_resize(&attached->client, (json_int_t)attached->exec, err);
}

/* Interrupting leaves the command where it is: `kill` of the sandbox, or a signal to the command, ends that.
 */
static bool take_signal(struct attached *attached, struct pin_error *err) {
    struct signalfd_siginfo info;
    if (read(attached->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return true;
    if (info.ssi_signo == SIGWINCH)
        return follow_size(attached, err);
    attached->left = true;
    return true;
}

static bool take_keys(struct attached *attached, struct pin_error *err) {
    char typed[512], passed[sizeof(typed) + 1];
    size_t count = 0;
    ssize_t got = read(STDIN_FILENO, typed, sizeof(typed));
    if (got <= 0) {
        pin_close_fd(&attached->keys);
        return true;
    }
    for (ssize_t i = 0; i < got && !attached->left; i++) {
        if (attached->first_key && typed[i] == LEAVE_SECOND)
            attached->left = true;
        else if (attached->first_key)
            passed[count++] = LEAVE_FIRST;
        attached->first_key = !attached->first_key && typed[i] == LEAVE_FIRST;
        if (!attached->first_key && !attached->left)
            passed[count++] = typed[i];
    }
    return pin_write_all(attached->keys, passed, count, err);
}

/* True with *result NULL: only part of what there is to say. */
static bool take_message(struct attached *attached, json_t **result, struct pin_error *err) {
    json_t *message = pin_client_receive(&attached->client, NULL, err);
    if (message == NULL)
        return false;
    const char *event = json_string_value(json_object_get(message, "event"));
    *result = json_incref(json_object_get(message, "result"));
    if (event != NULL && strcmp(event, "gap") == 0)
        (void)fprintf(stderr, "pinfold: %lld records are gone\n",
                      (long long)json_integer_value(json_object_get(message, "records")));
    bool ok = event == NULL || strcmp(event, "attached") != 0 || follow_size(attached, err);
    json_decref(message);
    return ok;
}

/* NULL without an error: we left. */
static json_t *await(struct attached *attached, struct pin_error *err) {
    json_t *result = NULL;
    while (result == NULL && !attached->left) {
        struct pollfd ready[] = {
            {.fd = attached->client.socket,                 .events = POLLIN},
            {.fd = attached->signals,                       .events = POLLIN},
            {.fd = attached->keys >= 0 ? STDIN_FILENO : -1, .events = POLLIN},
        };
        if (poll(ready, PIN_COUNT(ready), -1) < 0 && errno != EINTR) {
            (void)pin_fail_errno(err, "wait for the sandbox");
            return NULL;
        }
        if ((ready[1].revents != 0 && !take_signal(attached, err)) ||
            (ready[2].revents != 0 && !take_keys(attached, err)) ||
            (ready[0].revents != 0 && !take_message(attached, &result, err)))
            return NULL;
    }
    return result;
}

static int conclude(struct attached *attached, const json_t *result, const struct pin_error *err) {
    pin_terminal_restore(&attached->terminal);
    if (pin_is_set(err))
        return pin_report(err, attached->values->json);
    if (result != NULL)
        return (int)json_integer_value(json_object_get(result, "exit_code"));
    (void)fprintf(stderr, "pinfold: command %llu goes on\n", (unsigned long long)attached->exec);
    return 0;
}

static int run_attach(const struct pin_invocation *invocation) {
    struct attached attached = {
        .client = PIN_CLIENT_NONE, .values = invocation->values, .signals = -1, .keys = -1};
    struct pin_error err = {0};
    json_t *result = NULL;
    const char *number = invocation->argument_count > 1 ? invocation->arguments[1] : NULL;
    if (number != NULL && (!pin_parse_u64(number, &attached.exec) || attached.exec == 0))
        (void)pin_fail(&err, PIN_ERROR_USAGE, "'%.40s' is no number of a command", number);
    else if (pin_client_open(&attached.client, invocation->arguments[0], &err) &&
             find_exec(&attached, &err) && pin_session_take_signals(&attached.signals, &err) &&
             ask(&attached, &err))
        result = await(&attached, &err);
    int code = conclude(&attached, result, &err);
    json_decref(result);
    pin_close_fd(&attached.signals);
    pin_close_fd(&attached.keys);
    pin_client_close(&attached.client);
    return code;
}

const struct pin_verb pin_kept_verb_attach = {
    .name = "attach",
    .synopsis = "NAME [EXEC]",
    .summary = "see, and type to, a command that runs in a kept sandbox",
    .description = "Without a number it is the command that was started last. Its output comes from the log, "
                   "from the record "
                   "after --since on, and then as it is written; exit code and end are the command's.\n"
                   "What is typed reaches a command with a terminal, or one that was started with "
                   "--interactive. Control-P "
                   "and control-Q, or an interrupt, leave it running.",
    .example = "  number=$(pinfold exec work --detach --tty -- python3)\n  pinfold attach work $number",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct attach_options),
    .least_arguments = 1,
    .most_arguments = 2,
    .run = run_attach,
};
