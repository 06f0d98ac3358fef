#include "tools/pinfold/run_calls.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/audit/denial.h"
#include "policy/syscalls.h"
#include "runtime/watch/watcher.h"

struct command {
    struct command *next;
    uint32_t number; /* 0: of none */
    struct pin_recording recording;
};

struct pin_run_calls {
    struct pin_run_calls_given given;
    pthread_mutex_t busy; /* over the list: the watcher's thread adds to it */
    struct command *commands;
    struct pin_watcher *watcher;
};

bool pin_run_calls_wanted(const struct pin_bundle *bundle) {
    for (size_t i = 0; i < bundle->ext.record_count; i++)
        if (strcmp(bundle->ext.record[i], "syscalls") == 0)
            return true;
    return false;
}

static struct command **find(struct pin_run_calls *calls, uint32_t number) {
    struct command **at = &calls->commands;
    while (*at != NULL && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

static struct command *find_or_add(struct pin_run_calls *calls, uint32_t number) {
    struct command **at = find(calls, number);
    if (*at != NULL || (*at = calloc(1, sizeof(**at))) == NULL)
        return *at;
    (*at)->number = number;
    (*at)->recording.most = PIN_RUN_CALLS_MAX;
    pin_recording_open(&(*at)->recording, &calls->given.policy, 1);
    return *at;
}

static void on_denied(void *self, uint32_t number, const char *call, const uint64_t *args) {
    struct pin_run_calls *calls = self;
    (void)pthread_mutex_lock(&calls->busy);
    struct command *command = find_or_add(calls, number);
    if (command != NULL) /* without memory it is denied all the same */
        pin_recording_call(&command->recording, call, args, true);
    (void)pthread_mutex_unlock(&calls->busy);
}

struct pin_run_calls *pin_run_calls_start(const struct pin_run_calls_given *given, struct pin_error *err) {
    struct pin_run_calls *calls = calloc(1, sizeof(*calls));
    if (calls == NULL) {
        (void)pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to record system calls");
        return NULL;
    }
    const struct pin_watcher_options options = {
        .listener = given->listener,
        .init = given->init,
        .filter = given->filter,
        .arch = pin_arch_native(),
        .denied = on_denied,
        .self = calls,
    };
    calls->given = *given;
    (void)pthread_mutex_init(&calls->busy, NULL);
    calls->watcher = pin_watcher_start(&options, err);
    if (calls->watcher != NULL)
        return calls;
    free(calls);
    return NULL;
}

/* --- the verdict --- */

static void set(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value); /* out of memory: the field is left out */
}

static void copy(json_t *to, const char *key, const json_t *from, const char *as) {
    json_t *value = json_object_get(from, as);
    if (value != NULL && !json_is_null(value))
        (void)json_object_set(to, key, value);
}

static json_t *args_json(uint8_t looked_at, const struct pin_recorded_call *call) {
    json_t *args = json_object();
    for (unsigned i = 0; i < PIN_FILTER_ARGS_MAX; i++) {
        char key[2] = {(char)('0' + i), '\0'}, value[24];
        (void)snprintf(value, sizeof(value), "0x%" PRIx64, call->args[i]);
        if (looked_at & (1u << i))
            set(args, key, json_string(value));
    }
    return args;
}

static json_t *describe(const struct pin_policy *policy, const struct pin_recording *recording,
                        const struct pin_recorded_call *call) {
    uint8_t looked_at = recording->looked_at[pin_syscall_find(call->name) - pin_syscalls];
    json_t *object = json_pack("{s:s, s:s, s:o, s:I}", "denied", "syscall", "call", call->name, "args",
                               args_json(looked_at, call), "times", (json_int_t)call->count);
    json_t *why = pin_denial_of_call(policy, call->name, call->args, looked_at);
    copy(object, "pointer", why, "rule");
    copy(object, "place", why, "place");
    copy(object, "mend", why, "edit");
    if (json_object_get(object, "mend") == NULL)
        copy(object, "reason", why, "note");
    if (why != NULL)
        set(object, "why", why);
    return object;
}

static void tell(const struct pin_run_calls *calls, struct command *command, json_t *list) {
    const struct pin_recording *recording = &command->recording;
    for (size_t i = 0; i < recording->call_count; i++)
        (void)json_array_append_new(list, describe(calls->given.policy, recording, &recording->calls[i]));
    if (recording->dropped > 0)
        (void)json_array_append_new(
            list, json_pack("{s:s, s:I}", "denied", "syscall", "dropped", (json_int_t)recording->dropped));
    pin_recording_free(&command->recording);
    free(command);
}

json_t *pin_run_calls_take(struct pin_run_calls *calls, uint32_t number) {
    json_t *list = json_array();
    if (calls == NULL)
        return list;
    (void)pthread_mutex_lock(&calls->busy);
    struct command **at = find(calls, number), *command = *at;
    if (command != NULL)
        *at = command->next;
    (void)pthread_mutex_unlock(&calls->busy);
    if (command != NULL)
        tell(calls, command, list);
    return list;
}

json_t *pin_run_calls_end(struct pin_run_calls *calls) {
    json_t *list = json_array();
    if (calls == NULL)
        return list;
    pin_watcher_end(calls->watcher);
    for (struct command *command = calls->commands, *next; command != NULL; command = next) {
        next = command->next;
        tell(calls, command, list);
    }
    (void)pthread_mutex_destroy(&calls->busy);
    free(calls);
    return list;
}
