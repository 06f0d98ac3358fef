#include "policy/audit/recording.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "policy/address_class.h"
#include "policy/syscalls.h"
#include "policy/syscalls_guard.h"

/* --- which arguments count --- */

static void look_at(struct pin_recording *recording, const char *name, unsigned index) {
    const struct pin_syscall *call = pin_syscall_find(name);
    if (call != NULL)
        recording->looked_at[call - pin_syscalls] |= (uint8_t)(1u << index);
}

static void look_at_guards(struct pin_recording *recording, bool walled) {
    size_t count;
    const struct pin_guard *guards = pin_guards(walled, &count);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < guards[i].count; j++)
            for (size_t k = 0; k < guards[i].cases[j].arg_count; k++)
                look_at(recording, guards[i].call, guards[i].cases[j].args[k].index);
}

static void look_at_entries(struct pin_recording *recording, const struct pin_syscall_entry *entries,
                            size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < entries[i].arg_count; j++)
            look_at(recording, entries[i].name, entries[i].args[j].index);
}

void pin_recording_open(struct pin_recording *recording, const struct pin_policy *const *policies,
                        size_t count) {
    size_t never_count;
    const struct pin_guard_never *nevers = pin_guard_nevers(&never_count);
    recording->index = json_object();
    look_at_guards(recording, true);
    look_at_guards(recording, false);
    for (size_t i = 0; i < never_count; i++)
        look_at(recording, nevers[i].call, nevers[i].arg.index);
    for (size_t i = 0; i < count; i++) {
        look_at_entries(recording, policies[i]->syscalls.allow, policies[i]->syscalls.allow_count);
        look_at_entries(recording, policies[i]->syscalls.deny, policies[i]->syscalls.deny_count);
    }
}

void pin_recording_free(struct pin_recording *recording) {
    json_decref(recording->index);
    pin_arena_free(&recording->arena);
}

/* --- facts --- */

/* The place of the fact in its list, or a new one; NULL where there is no room. */
static void *find(struct pin_recording *recording, const char *key, void *items_slot, size_t *count,
                  size_t size, bool *fresh) {
    const json_t *known = json_object_get(recording->index, key);
    *fresh = known == NULL;
    if (known != NULL)
        return *(char **)items_slot + (size_t)json_integer_value(known) * size;
    if (*count >= (recording->most != 0 ? recording->most : PIN_RECORDING_MAX)) {
        recording->dropped++;
        return NULL;
    }
    (void)json_object_set_new_nocheck(recording->index, key, json_integer((json_int_t)*count));
    return pin_arena_grow(&recording->arena, items_slot, count, size);
}

void pin_recording_call(struct pin_recording *recording, const char *name,
                        const uint64_t args[PIN_FILTER_ARGS_MAX], bool denied) {
    const struct pin_syscall *row = pin_syscall_find(name);
    struct pin_recorded_call fact = {.denied = denied, .count = 1};
    char key[256];
    bool fresh;
    if (row == NULL)
        return;
    recording->total_calls++;
    fact.name = row->name;
    int size = snprintf(key, sizeof(key), "call %s %d", row->name, denied);
    for (unsigned i = 0; i < PIN_FILTER_ARGS_MAX; i++) {
        if ((recording->looked_at[row - pin_syscalls] & (1u << i)) == 0)
            continue;
        fact.args[i] = args[i];
        size += snprintf(key + size, sizeof(key) - (size_t)size, " %" PRIx64, args[i]);
    }
    struct pin_recorded_call *call =
        find(recording, key, &recording->calls, &recording->call_count, sizeof(*recording->calls), &fresh);
    if (call == NULL)
        return;
    if (fresh)
        *call = fact;
    else
        call->count++;
}

void pin_recording_path(struct pin_recording *recording, const char *path, unsigned uses) {
    char shown[4096 * 4 + 8], *key = stpcpy(shown, "path ");
    bool fresh;
    (void)pin_escape(key, sizeof(shown) - (size_t)(key - shown), path, strlen(path));
    struct pin_recorded_path *fact =
        find(recording, shown, &recording->paths, &recording->path_count, sizeof(*recording->paths), &fresh);
    if (fact == NULL)
        return;
    if (fresh)
        *fact = (struct pin_recorded_path){pin_arena_strdup(&recording->arena, key), uses};
    else /* whether it was there is a matter of its first mention */
        fact->uses |= uses & ~(unsigned)(PIN_USE_MISSING | PIN_USE_NEW);
}

void pin_recording_target(struct pin_recording *recording, const struct pin_recorded_target *target) {
    static const uint8_t none[PIN_ADDRESS_SIZE];
    char key[512], address[PIN_ADDRESS_TEXT];
    bool fresh;
    (void)snprintf(key, sizeof(key), "target %s %u %d",
                   target->host != NULL ? target->host : pin_address_print(address, target->address),
                   target->port, (int)target->protocol);
    struct pin_recorded_target *fact = find(recording, key, &recording->targets, &recording->target_count,
                                            sizeof(*recording->targets), &fresh);
    if (fact == NULL)
        return;
    if (fresh) {
        *fact = *target;
        fact->count = 0;
        if (target->host != NULL)
            fact->host = pin_arena_strdup(&recording->arena, target->host);
    }
    if (memcmp(fact->address, none, sizeof(none)) == 0 || (target->reached && !fact->reached))
        memcpy(fact->address, target->address, sizeof(fact->address));
    fact->reached = fact->reached || target->reached;
    if (target->refused != NULL)
        fact->refused = target->refused;
    fact->count += target->count;
}

/* --- for programs --- */

static json_t *calls_json(const struct pin_recording *recording) {
    json_t *list = json_array();
    for (size_t i = 0; i < recording->call_count; i++) {
        const struct pin_recorded_call *call = &recording->calls[i];
        uint8_t mask = recording->looked_at[pin_syscall_find(call->name) - pin_syscalls];
        json_t *args = json_object();
        for (unsigned j = 0; j < PIN_FILTER_ARGS_MAX; j++) {
            char key[2] = {(char)('0' + j), '\0'}, value[24];
            (void)snprintf(value, sizeof(value), "0x%" PRIx64, call->args[j]);
            if (mask & (1u << j))
                (void)json_object_set_new(args, key, json_string(value));
        }
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:I, s:b, s:o}", "call", call->name, "times",
                                              (json_int_t)call->count, "denied", call->denied, "args", args));
    }
    return list;
}

static json_t *uses_json(unsigned uses) {
    static const char *const names[] = {"look",    "read",    "write", "execute",
                                        "connect", "missing", "new",   "folder"};
    json_t *list = json_array();
    for (unsigned i = 0; i < PIN_COUNT(names); i++)
        if (uses & (1u << i))
            (void)json_array_append_new(list, json_string(names[i]));
    return list;
}

static json_t *targets_json(const struct pin_recording *recording) {
    static const uint8_t none[PIN_ADDRESS_SIZE];
    json_t *list = json_array();
    for (size_t i = 0; i < recording->target_count; i++) {
        const struct pin_recorded_target *target = &recording->targets[i];
        char address[PIN_ADDRESS_TEXT];
        json_t *object = json_object();
        if (target->host != NULL)
            (void)json_object_set_new(object, "host", json_string(target->host));
        if (memcmp(target->address, none, sizeof(none)) != 0)
            (void)json_object_set_new(object, "address",
                                      json_string(pin_address_print(address, target->address)));
        (void)json_object_set_new(object, "port", json_integer(target->port));
        (void)json_object_set_new(object, "protocol", json_string(pin_protocol_name(target->protocol)));
        (void)json_object_set_new(object, "reached", json_boolean(target->reached));
        if (target->refused != NULL)
            (void)json_object_set_new(object, "refused", json_string(target->refused));
        (void)json_object_set_new(object, "times", json_integer((json_int_t)target->count));
        (void)json_array_append_new(list, object);
    }
    return list;
}

json_t *pin_recording_json(const struct pin_recording *recording) {
    json_t *paths = json_object();
    for (size_t i = 0; i < recording->path_count; i++)
        (void)json_object_set_new(paths, recording->paths[i].path, uses_json(recording->paths[i].uses));
    return json_pack(
        "{s:o, s:o, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}, s:I, s:I}", "calls",
        calls_json(recording), "paths", paths, "destinations", targets_json(recording), "peaks",
        "memory_bytes", (json_int_t)recording->peaks.memory_bytes, "pids", (json_int_t)recording->peaks.pids,
        "wall_ms", (json_int_t)(recording->peaks.wall_ns / 1000000), "cpu_ms",
        (json_int_t)(recording->peaks.cpu_ns / 1000000), "tmp_bytes", (json_int_t)recording->peaks.tmp_bytes,
        "stdout_bytes", (json_int_t)recording->peaks.stdout_bytes, "stderr_bytes",
        (json_int_t)recording->peaks.stderr_bytes, "files", (json_int_t)recording->peaks.files,
        "system_calls", (json_int_t)recording->total_calls, "dropped", (json_int_t)recording->dropped);
}
