/* Layers of a tool call's environment, pair by pair. */
#include "tests/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "runtime/tool/env.h"

static const char *const layers[] = {"sandbox", "agent", "call"};

/* The entry of the name in `over`; NULL: it isn't in there. */
static const struct pin_pair *find(const struct pin_pair *pairs, size_t count, const char *name) {
    const struct pin_pair *found = NULL;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(pairs[i].key, name) != 0)
            continue;
        assert_null(found); /* each name once */
        found = &pairs[i];
    }
    return found;
}

static void with_env(const char *json, const char *name, const char *expected) {
    char text[512];
    static struct pin_findings found;
    struct pin_tool_request request = {0};
    struct pin_arena arena = {0};
    struct pin_tool_env env;
    (void)snprintf(text, sizeof(text), "{\"language\":\"python\",\"source\":\"\",\"name\":\"f\",%s}", json);
    assert_true(pin_tool_request_parse(&request, text, strlen(text), &found));
    pin_tool_env(&request, &arena, &env);
    const struct pin_pair *pair = find(env.over, env.over_count, name);
    assert_non_null(pair);
    if (expected == NULL)
        assert_null(pair->value);
    else
        assert_string_equal(pair->value, expected);
    pin_arena_free(&arena);
    pin_tool_request_free(&request);
}

static void the_higher_of_two_layers_wins_and_null_removes(void **state) {
    (void)state;
    for (size_t low = 0; low < PIN_COUNT(layers); low++) {
        for (size_t high = low + 1; high < PIN_COUNT(layers); high++) {
            char json[256];
            (void)snprintf(json, sizeof(json), "\"env\":{\"%s\":{\"X\":\"high\"},\"%s\":{\"X\":\"low\"}}",
                           layers[high], layers[low]);
            with_env(json, "X", "high");
            (void)snprintf(json, sizeof(json), "\"env\":{\"%s\":{\"X\":null},\"%s\":{\"X\":\"low\"}}",
                           layers[high], layers[low]);
            with_env(json, "X", NULL);
            (void)snprintf(json, sizeof(json), "\"env\":{\"%s\":{\"X\":\"high\"},\"%s\":{\"X\":null}}",
                           layers[high], layers[low]);
            with_env(json, "X", "high");
        }
    }
}

static void ids_are_the_requests_alone(void **state) {
    (void)state;
    with_env("\"agent_id\":\"a\",\"env\":{\"call\":{\"LETTA_AGENT_ID\":\"b\"}}", "LETTA_AGENT_ID", "a");
    with_env("\"env\":{\"call\":{\"LETTA_AGENT_ID\":\"b\"}}", "LETTA_AGENT_ID", NULL);
    with_env("\"project_id\":\"p\"", "LETTA_PROJECT_ID", "p");
    with_env("\"tool_id\":\"t\"", "LETTA_TOOL_ID", "t");
}

static void our_own_settings_are_below_all(void **state) {
    (void)state;
    struct pin_tool_request request = {0};
    struct pin_arena arena = {0};
    struct pin_tool_env env;
    static const char *const names[] = {"NO_COLOR", "TERM", "PYTHONUNBUFFERED", "PYTHONWARNINGS",
                                        "NODE_NO_WARNINGS"};
    pin_tool_env(&request, &arena, &env);
    for (size_t i = 0; i < PIN_COUNT(names); i++) {
        assert_non_null(find(env.under, env.under_count, names[i]));
        assert_null(find(env.over, env.over_count, names[i]));
    }
    pin_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_higher_of_two_layers_wins_and_null_removes),
        cmocka_unit_test(ids_are_the_requests_alone),
        cmocka_unit_test(our_own_settings_are_below_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
