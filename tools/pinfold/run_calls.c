#include "tools/pinfold/run_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_write.h"
#include "policy/syscalls.h"
#include "runtime/bundle/bundle_places.h"
#include "runtime/watch/watcher.h"

struct pin_run_calls {
    const struct pin_front *front;
    struct pin_recording recording;
    struct pin_watcher *watcher;
};

bool pin_run_calls_wanted(const struct pin_bundle *bundle) {
    for (size_t i = 0; i < bundle->ext.record_count; i++)
        if (strcmp(bundle->ext.record[i], "syscalls") == 0)
            return true;
    return false;
}

struct pin_run_calls *pin_run_calls_start(const struct pin_front *front, const struct pin_sandbox *sandbox,
                                          struct pin_error *err) {
    struct pin_run_calls *calls = calloc(1, sizeof(*calls));
    if (calls == NULL) {
        (void)pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to record system calls");
        return NULL;
    }
    const struct pin_policy *policies[] = {front->effective};
    const struct pin_watcher_options options = {
        .listener = sandbox->watch,
        .init = sandbox->init,
        .filter = &front->bundle->seccomp,
        .arch = pin_arch_native(),
        .recording = &calls->recording,
        .only_denied = true,
    };
    calls->front = front;
    pin_recording_open(&calls->recording, policies, front->effective != NULL ? 1 : 0);
    calls->watcher = pin_watcher_start(&options, err);
    if (calls->watcher != NULL)
        return calls;
    pin_recording_free(&calls->recording);
    free(calls);
    return NULL;
}

/* --- the verdict --- */

static void set(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value); /* out of memory: the field is left out */
}

static bool denies(const struct pin_syscall_entry *entry, const struct pin_recorded_call *call) {
    const struct pin_syscall_set *group = pin_syscall_group(entry->name);
    struct pin_filter_rule rule = {.arg_count = entry->arg_count};
    if (group != NULL)
        return pin_syscall_in(group, pin_syscall_find(call->name));
    memcpy(rule.args, entry->args, sizeof(entry->args));
    return strcmp(entry->name, call->name) == 0 && pin_filter_rule_matches(&rule, call->args);
}

static void blame_entry(json_t *object, const struct pin_policy *policy, size_t index) {
    PIN_ARENA struct pin_arena arena = {0};
    const struct pin_syscall_entry *entry = &policy->syscalls.deny[index];
    char place[PIN_PLACE_TEXT];
    set(object, "pointer", json_string(pin_arena_printf(&arena, "/syscalls/deny/%zu", index)));
    set(object, "place", json_string(pin_place_print(place, &entry->place)));
    json_t *item =
        json_loads(pin_policy_item_text(&arena, PIN_FIELD_SYSCALLS_DENY, entry), JSON_DECODE_ANY, NULL);
    set(object, "mend", json_pack("{s:{s:{s:[o]}}}", "syscalls", "deny", "remove", item));
}

/* No statement names it. What no policy may allow has no edit. */
static void blame_baseline(json_t *object, const struct pin_bundle_ext *ext,
                           const struct pin_recorded_call *call, bool guarded) {
    const char *place = pin_bundle_place(ext, PIN_FIELD_SYSCALLS_BASELINE);
    set(object, "pointer", json_string(pin_field_pointer(PIN_FIELD_SYSCALLS_BASELINE)));
    if (place != NULL)
        set(object, "place", json_string(place));
    const struct pin_syscall *row = pin_syscall_find(call->name);
    if (row->never != NULL)
        set(object, "reason", json_pack("s+", "it ", row->never));
    else if (!guarded)
        set(object, "mend", json_pack("{s:{s:{s:[s]}}}", "syscalls", "allow", "add", call->name));
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

static json_t *describe(const struct pin_run_calls *calls, const struct pin_recorded_call *call) {
    const struct pin_policy *policy = calls->front->effective;
    uint8_t looked_at = calls->recording.looked_at[pin_syscall_find(call->name) - pin_syscalls];
    json_t *object = json_pack("{s:s, s:s, s:o, s:I}", "denied", "syscall", "call", call->name, "args",
                               args_json(looked_at, call), "times", (json_int_t)call->count);
    for (size_t i = 0; policy != NULL && i < policy->syscalls.deny_count; i++)
        if (denies(&policy->syscalls.deny[i], call)) {
            blame_entry(object, policy, i);
            return object;
        }
    blame_baseline(object, &calls->front->bundle->ext, call, looked_at != 0);
    return object;
}

json_t *pin_run_calls_end(struct pin_run_calls *calls) {
    json_t *list = json_array();
    if (calls == NULL)
        return list;
    pin_watcher_end(calls->watcher);
    for (size_t i = 0; i < calls->recording.call_count; i++)
        (void)json_array_append_new(list, describe(calls, &calls->recording.calls[i]));
    pin_recording_free(&calls->recording);
    free(calls);
    return list;
}
