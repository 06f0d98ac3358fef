/* `pinfold pool`: what waits for calls, and its bounds. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/state/state_dir.h"
#include "runtime/supervise/result.h"
#include "tools/pinfold-tool/pool.h"
#include "tools/pinfold-tool/verbs.h"
#include "tools/pinfold/report.h"

struct pool_options {
    struct pin_number ahead, most, memory, idle;
    bool json;
};

#define POOL_ROW(option, type, member, form, text)                                                           \
    { option, 0, type, offsetof(struct pool_options, member), form, text, NULL }
#define JSON_ROW POOL_ROW("json", PIN_OPTION_FLAG, json, NULL, "print one JSON object")

/* clang-format off */
static const struct pin_option show_options[] = {JSON_ROW};
static const struct pin_option set_options[] = {
    POOL_ROW("ahead", PIN_OPTION_COUNT, ahead, "N", "so many are started ahead for each kind of call (2)"),
    POOL_ROW("most", PIN_OPTION_COUNT, most, "N", "at most so many sandboxes wait in all (16)"),
    POOL_ROW("memory", PIN_OPTION_SIZE, memory, "N", "none is started while all of them use this much (1GiB)"),
    POOL_ROW("idle-timeout", PIN_OPTION_TIME, idle, "T", "one that has had no call for this long ends (10m)"),
    JSON_ROW,
};
/* clang-format on */

static bool set(int state_dir, const struct pool_options *values, struct pin_pool_settings *settings,
                struct pin_error *err) {
    if (values->ahead.given)
        settings->ahead = values->ahead.value;
    if (values->most.given)
        settings->most = values->most.value;
    if (values->memory.given)
        settings->memory_bytes = values->memory.value;
    if (values->idle.given)
        settings->idle_ns = values->idle.value;
    return pin_pool_save(state_dir, settings, err);
}

static bool clear(int state_dir, const struct pool_options *values, struct pin_pool_settings *settings,
                  struct pin_error *err) {
    (void)values, (void)settings;
    return pin_pool_clear(state_dir, err);
}

static void print_text(const struct pin_pool_settings *settings, const json_t *list) {
    size_t i;
    json_t *item;
    (void)printf("ahead %" PRIu64 ", most %" PRIu64 ", memory %" PRIu64 " MiB, idle timeout %" PRIu64 " s\n",
                 settings->ahead, settings->most, settings->memory_bytes >> 20,
                 settings->idle_ns / PIN_NS_PER_S);
    json_array_foreach(list, i, item) {
        const char *name = "", *kind = "", *fingerprint = "", *state = "";
        json_int_t memory = 0, idle_ms = 0;
        (void)json_unpack(item, "{s:s, s:s, s:s, s:s, s:I, s:I}", "name", &name, "kind", &kind, "fingerprint",
                          &fingerprint, "state", &state, "memory_bytes", &memory, "idle_ms", &idle_ms);
        (void)printf("%-26s %-8s %5" PRId64 " MiB  idle %" PRId64 " s\n", name, state, (int64_t)memory >> 20,
                     (int64_t)idle_ms / 1000);
    }
}

static bool show(int state_dir, const struct pin_pool_settings *settings, bool as_json,
                 struct pin_error *err) {
    json_t *list = pin_pool_list(state_dir, err);
    bool ok = list != NULL;
    if (ok && as_json) {
        json_t *all =
            json_pack("{s:I, s:I, s:I, s:I, s:O}", "ahead", (json_int_t)settings->ahead, "most",
                      (json_int_t)settings->most, "memory_bytes", (json_int_t)settings->memory_bytes,
                      "idle_ms", (json_int_t)(settings->idle_ns / PIN_NS_PER_MS), "sandboxes", list);
        ok = pin_json_print(STDOUT_FILENO, all, err);
        json_decref(all);
    } else if (ok) {
        print_text(settings, list);
    }
    json_decref(list);
    return ok;
}

typedef bool pool_act(int state_dir, const struct pool_options *values, struct pin_pool_settings *settings,
                      struct pin_error *err);

static bool nothing(int state_dir, const struct pool_options *values, struct pin_pool_settings *settings,
                    struct pin_error *err) {
    (void)state_dir, (void)values, (void)settings, (void)err;
    return true;
}

static int run(const struct pin_invocation *invocation, pool_act *act) {
    const struct pool_options *values = invocation->values;
    struct pin_pool_settings settings;
    struct pin_error err = {0};
    PIN_CLOSE int state_dir = pin_state_open(&err);
    if (state_dir >= 0 && pin_pool_load(state_dir, &settings, &err) &&
        act(state_dir, values, &settings, &err) && show(state_dir, &settings, values->json, &err))
        return 0;
    return pin_report(&err, values->json);
}

static int run_show(const struct pin_invocation *invocation) {
    return run(invocation, nothing);
}

static int run_set(const struct pin_invocation *invocation) {
    return run(invocation, set);
}

static int run_clear(const struct pin_invocation *invocation) {
    return run(invocation, clear);
}

const struct pin_verb pin_tool_verb_pool_show = {
    .name = "pool show",
    .synopsis = "",
    .summary = "the sandboxes that wait for calls, and their bounds",
    .example = "  pinfold pool show --json",
    .options = show_options,
    .option_count = PIN_COUNT(show_options),
    .values_size = sizeof(struct pool_options),
    .run = run_show,
};

const struct pin_verb pin_tool_verb_pool_set = {
    .name = "pool set",
    .synopsis = "",
    .summary = "set bounds of the sandboxes that wait for calls",
    .description = "They hold for what is started from now on. Where a new sandbox has no room, others that "
                   "are idle end, the "
                   "longest unused first.",
    .example = "  pinfold pool set --ahead 4 --memory 2GiB",
    .options = set_options,
    .option_count = PIN_COUNT(set_options),
    .values_size = sizeof(struct pool_options),
    .run = run_set,
};

const struct pin_verb pin_tool_verb_pool_clear = {
    .name = "pool clear",
    .synopsis = "",
    .summary = "end the sandboxes that wait for calls",
    .example = "  pinfold pool clear",
    .options = show_options,
    .option_count = PIN_COUNT(show_options),
    .values_size = sizeof(struct pool_options),
    .run = run_clear,
};
