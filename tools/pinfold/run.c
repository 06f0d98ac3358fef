#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "tools/pinfold/input.h"
#include "tools/pinfold/one_shot.h"
#include "tools/pinfold/refusal.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/verbs.h"
#include "tools/pinfold/workspace.h"

struct run_options {
    struct pin_front_options front; /* first: PIN_FRONT_ROWS */
    const char *input, *receipt;
    bool stream, audit_sync;
    int io;
};

static const char *const io_choices[] = {"auto", "uring", "epoll", NULL};
static const enum pin_io io_values[] = {PIN_IO_AUTO, PIN_IO_URING, PIN_IO_EPOLL};

static const struct pin_option options[] = {
    PIN_FRONT_ROWS,
    {"stdin",      0, PIN_OPTION_TEXT,   offsetof(struct run_options, input),      "FILE|-",
      "what the command reads (nothing)",                                                                                      NULL},
    {"stream",     0, PIN_OPTION_FLAG,   offsetof(struct run_options, stream),     NULL,
      "print JSON lines while things happen",                                                                                  NULL},
    {"audit-sync", 0, PIN_OPTION_FLAG,   offsetof(struct run_options, audit_sync), NULL,
      "each audit record is on the disk before the run goes on",                                                               NULL},
    {"receipt",    0, PIN_OPTION_TEXT,   offsetof(struct run_options, receipt),    "FILE",
      "write what was enforced, signed, into this new file",                                                                   NULL},
    {"io",         0, PIN_OPTION_CHOICE, offsetof(struct run_options, io),         NULL,     "how the loop waits, for tests",
      io_choices                                                                                                                   },
};

static bool open_input(const struct run_options *values, int *input, struct pin_error *err) {
    if (values->input == NULL) {
        *input = values->front.tty && isatty(STDIN_FILENO) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
        return true;
    }
    *input = pin_input_open(values->input, err);
    return *input >= 0;
}

static int print_result(struct pin_one_shot *run, const struct run_options *values) {
    struct pin_error err = {0};
    int fault = pin_is_set(&run->audit.fault) ? pin_report(&run->audit.fault, false) : 0;
    bool told = true; /* a result that nobody got is no success */
    if (pin_is_set(&run->receipt_fault))
        fault = pin_report(&run->receipt_fault, false);
    if (values->stream) {
        told = pin_stream_exit(&run->stream, &run->result, &err);
    } else if (values->front.json) {
        json_t *json = pin_result_json(&run->result);
        told = pin_json_print(STDOUT_FILENO, json, &err);
        json_decref(json);
    } else {
        if (run->result.changes != NULL)
            pin_workspace_print(run->result.changes);
        if (pin_is_set(&run->result.error))
            (void)pin_report(&run->result.error, false);
    }
    if (!told)
        fault = pin_report(&err, false);
    return fault != 0 ? fault : run->result.exit_code;
}

static int report_failure(const struct pin_one_shot *run, const struct pin_error *err, bool json) {
    if (pin_is_set(&run->audit.fault))
        (void)pin_report(&run->audit.fault, false);
    return pin_report(err, json);
}

static int run_planned(struct pin_one_shot *run, const struct run_options *values, bool json) {
    struct pin_error err = {0};
    PIN_CLOSE int input = -1;
    struct pin_one_shot_settings settings = {
        .output = values->stream       ? PIN_OUTPUT_STREAM
                  : values->front.json ? PIN_OUTPUT_CAPTURE
                                       : PIN_OUTPUT_PASS,
        .tty = values->front.tty,
        .fingerprint = json,
        .audit_sync = values->audit_sync,
        .receipt = values->receipt,
        .io = values->io >= 0 ? io_values[values->io] : PIN_IO_AUTO,
    };
    if (!open_input(values, &input, &err))
        return pin_report(&err, json);
    settings.input = input;
    return pin_one_shot_run(run, &settings, &err) ? print_result(run, values)
                                                  : report_failure(run, &err, json);
}

static int run_run(const struct pin_invocation *invocation) {
    const struct run_options *values = invocation->values;
    struct pin_one_shot run = PIN_ONE_SHOT_NONE;
    static struct pin_findings found; /* 40 KiB that a run without findings never touches */
    bool json = values->front.json || values->stream;
    if (values->front.json && values->stream)
        (void)pin_find(&found, PIN_ERROR_USAGE, "--stream", "leave one of them out",
                       "--json and --stream exclude each other");
    run.front.request.records = run.front.request.hands_secrets = run.front.request.records_calls = true;
    run.front.request.publishes = true;
    run.ahead = pin_ahead_start();
    bool ok = !pin_found_any(&found) &&
              pin_front_bundle(&run.front, &values->front, invocation->arguments, invocation->argument_count,
                               &found) &&
              pin_front_plan(&run.front, &found);
    int code = ok ? run_planned(&run, values, json)
                  : pin_refusal_report(&run.front, &found, values->audit_sync, json);
    pin_one_shot_free(&run);
    return code;
}

const struct pin_verb pin_verb_run = {
    .name = "run",
    .synopsis = "-- CMD ARG…",
    .options_end = 1,
    .summary = "run a command in a sandbox of its own, once",
    .description = "The command gets fresh namespaces, limits, a system call filter and a root of its own, "
                   "as the policy says.\n"
                   "A request beyond the policy is refused whole, and nothing is built. The run ends with "
                   "its process tree.",
    .example = "  pinfold run --workspace . --timeout 10s --json -- python3 tool.py",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct run_options),
    .most_arguments = SIZE_MAX,
    .run = run_run,
};
