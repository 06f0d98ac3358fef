/* pause, resume, stop, kill, rm, wait: the life of kept sandboxes, several at once where it makes sense. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/kept/home.h"
#include "runtime/state/state_dir.h"
#include "runtime/supervise/loop.h"
#include "runtime/supervise/result.h"
#include "tools/pinfold-kept/client.h"
#include "tools/pinfold-kept/end.h"
#include "tools/pinfold-kept/verbs.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/run_audit.h"

#define MADE_NS (10 * PIN_NS_PER_S) /* for a sandbox that is being made */

struct life_options {
    bool json, force;
    struct pin_number grace, idle, lifetime;
};

static const struct pin_option rm_options[] = {
    {"force", 'f', PIN_OPTION_FLAG, offsetof(struct life_options, force), NULL, "kill it first", NULL},
    {"json",  0,   PIN_OPTION_FLAG, offsetof(struct life_options, json),  NULL,
     "print a refusal as a JSON object",                                                         NULL},
};
static const struct pin_option stop_options[] = {
    {"grace", 0, PIN_OPTION_TIME, offsetof(struct life_options, grace), "T",
     "from TERM to KILL (the policy's)", NULL},
    {"json",  0, PIN_OPTION_FLAG, offsetof(struct life_options, json),  NULL,
     "print a refusal as a JSON object", NULL},
};
static const struct pin_option plain_options[] = {
    {"json", 0, PIN_OPTION_FLAG, offsetof(struct life_options, json), NULL,
     "print a refusal as a JSON object", NULL},
};
static const struct pin_option renew_options[] = {
    {"idle-timeout", 0, PIN_OPTION_TIME, offsetof(struct life_options, idle),     "T",
     "end it when nobody has used it for this long, from now on", NULL},
    {"lifetime",     0, PIN_OPTION_TIME, offsetof(struct life_options, lifetime), "T",
     "end it when so much time has passed from now on",           NULL},
    {"json",         0, PIN_OPTION_FLAG, offsetof(struct life_options, json),     NULL,
     "print a refusal as a JSON object",                          NULL},
};
static const struct pin_option wait_options[] = {
    {"json", 0, PIN_OPTION_FLAG, offsetof(struct life_options, json), NULL, "print one JSON object", NULL},
};

static bool call(const char *name, json_t *request, bool is_end, struct pin_error *err) {
    PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
    if (!pin_client_open(&client, name, err)) {
        json_decref(request);
        return is_end && pin_end_is_under_way(&client, err) && pin_end_await(&client, err);
    }
    json_t *ok = pin_client_call(&client, request, err);
    bool done = ok != NULL && (!is_end || pin_end_await(&client, err));
    json_decref(ok);
    return done;
}

static void set_time(json_t *request, const char *key, const struct pin_number *time) {
    if (time->given)
        (void)json_object_set_new(request, key, json_integer((json_int_t)(time->value / PIN_NS_PER_MS)));
}

/* One that fails doesn't keep the others from it. */
static int call_all(const struct pin_invocation *invocation, const char *verb, bool is_end) {
    const struct life_options *values = invocation->values;
    int code = 0;
    for (size_t i = 0; i < invocation->argument_count; i++) {
        struct pin_error err = {0};
        json_t *request = pin_client_request(verb);
        set_time(request, "grace_ms", &values->grace);
        if (!call(invocation->arguments[i], request, is_end, &err))
            code = pin_report(&err, values->json);
    }
    return code;
}

/* Without a time it is a use: idling begins anew. */
static int run_renew(const struct pin_invocation *invocation) {
    const struct life_options *values = invocation->values;
    int code = 0;
    for (size_t i = 0; i < invocation->argument_count; i++) {
        struct pin_error err = {0};
        json_t *request = pin_client_request("renew");
        set_time(request, "idle_ms", &values->idle);
        set_time(request, "lifetime_ms", &values->lifetime);
        if (!call(invocation->arguments[i], request, false, &err))
            code = pin_report(&err, values->json);
    }
    return code;
}

static int run_pause(const struct pin_invocation *invocation) {
    return call_all(invocation, "pause", false);
}

static int run_resume(const struct pin_invocation *invocation) {
    return call_all(invocation, "resume", false);
}

static int run_stop(const struct pin_invocation *invocation) {
    return call_all(invocation, "stop", true);
}

static int run_kill(const struct pin_invocation *invocation) {
    const struct life_options *values = invocation->values;
    int code = 0;
    for (size_t i = 0; i < invocation->argument_count; i++) {
        struct pin_error err = {0};
        if (!pin_end_kill(invocation->arguments[i], &err))
            code = pin_report(&err, values->json);
    }
    return code;
}

/* Where the sandbox was recorded, its removal is, before it happens. One that is torn has nothing to say. */
static bool record_removal(int state_dir, const char *name, struct pin_error *err) {
    struct pin_error unread = {0};
    PIN_CLOSE int folder = pin_home_open(state_dir, name, &unread);
    json_t *facts =
        folder < 0 || pin_home_is_live(folder) ? NULL : pin_home_read(folder, "sandbox.json", &unread);
    bool ok = !json_is_true(json_object_get(facts, "audited")) ||
              pin_run_audit_remove(name, json_object_get(facts, "labels"), err);
    json_decref(facts);
    return ok;
}

static bool remove_ended(int state_dir, const char *name, struct pin_error *err) {
    return record_removal(state_dir, name, err) && pin_home_remove(state_dir, name, err);
}

/* One that is just being made has nobody yet who could be asked, and one that ends needs nobody: the next
 * look says. */
static bool remove_one(int state_dir, const char *name, bool force, struct pin_error *err) {
    for (uint64_t until_ns = pin_now_ns() + MADE_NS;; pin_error_clear(err)) {
        struct pin_error refusal = {0};
        if (remove_ended(state_dir, name, err))
            return true;
        if (!force || err->kind != PIN_ERROR_BUSY)
            return false;
        if (pin_now_ns() > until_ns) {
            pin_error_clear(err);
            return pin_end_force(name, err) && remove_ended(state_dir, name, err);
        }
        (void)pin_end_kill(name, &refusal);
        (void)usleep(1000);
    }
}

static int run_rm(const struct pin_invocation *invocation) {
    const struct life_options *values = invocation->values;
    struct pin_error err = {0};
    int code = 0;
    PIN_CLOSE int state_dir = pin_state_open(&err);
    if (state_dir < 0)
        return pin_report(&err, values->json);
    for (size_t i = 0; i < invocation->argument_count; i++) {
        struct pin_error found = {0};
        if (!remove_one(state_dir, invocation->arguments[i], values->force, &found))
            code = pin_report(&found, values->json);
    }
    return code;
}

static int run_wait(const struct pin_invocation *invocation) {
    const struct life_options *values = invocation->values;
    PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
    struct pin_error err = {0};
    uint64_t exec = 0;
    if (invocation->argument_count > 1 && (!pin_parse_u64(invocation->arguments[1], &exec) || exec == 0)) {
        (void)pin_fail(&err, PIN_ERROR_USAGE, "'%.40s' is no number of a command", invocation->arguments[1]);
        return pin_report(&err, values->json);
    }
    json_t *request = pin_client_request("wait"), *end = NULL;
    if (exec != 0)
        (void)json_object_set_new(request, "exec", json_integer((json_int_t)exec));
    if (pin_client_open(&client, invocation->arguments[0], &err))
        end = pin_client_call(&client, request, &err);
    else
        json_decref(request);
    if (end == NULL)
        return pin_report(&err, values->json);
    int code = (int)json_integer_value(json_object_get(end, "exit_code")); /* 0 for a sandbox: it has none */
    if (values->json && !pin_json_print(STDOUT_FILENO, end, &err))
        code = pin_report(&err, false);
    json_decref(end);
    return code;
}

#define LIFE_VERB(verb, text, shown, ...)                                                                    \
    const struct pin_verb pin_kept_verb_##verb = {.name = #verb,                                             \
                                                  .synopsis = "NAME…",                                       \
                                                  .summary = text,                                           \
                                                  .example = shown,                                          \
                                                  .values_size = sizeof(struct life_options),                \
                                                  .least_arguments = 1,                                      \
                                                  .most_arguments = SIZE_MAX,                                \
                                                  .run = run_##verb,                                         \
                                                  __VA_ARGS__}

LIFE_VERB(pause, "freeze all processes of a kept sandbox", "  pinfold pause work", .options = plain_options,
          .option_count = PIN_COUNT(plain_options));
LIFE_VERB(resume, "let a paused sandbox go on", "  pinfold resume work", .options = plain_options,
          .option_count = PIN_COUNT(plain_options));
LIFE_VERB(stop, "end kept sandboxes: TERM, and KILL after a while", "  pinfold stop work",
          .options = stop_options, .option_count = PIN_COUNT(stop_options));
LIFE_VERB(kill, "end kept sandboxes at once", "  pinfold kill work", .options = plain_options,
          .option_count = PIN_COUNT(plain_options));
LIFE_VERB(renew, "let kept sandboxes live longer", "  pinfold renew work --idle-timeout 1h",
          .options = renew_options, .option_count = PIN_COUNT(renew_options));
LIFE_VERB(rm, "remove what an ended sandbox has left", "  pinfold rm --force work", .options = rm_options,
          .option_count = PIN_COUNT(rm_options));

const struct pin_verb pin_kept_verb_wait = {
    .name = "wait",
    .synopsis = "NAME [EXEC]",
    .summary = "wait for the end of a kept sandbox, or of a command in it",
    .example = "  number=$(pinfold exec work --detach -- make)\n  pinfold wait work $number",
    .options = wait_options,
    .option_count = PIN_COUNT(wait_options),
    .values_size = sizeof(struct life_options),
    .least_arguments = 1,
    .most_arguments = 2,
    .run = run_wait,
};
