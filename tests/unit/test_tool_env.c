/* Layers of a tool call's environment, pair by pair. */
#include "tests/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "runtime/tool/env.h"

/* the stored configuration's is the lowest of them; the policy's is below all: tests/integration */
static const char *const layers[] = {"configuration", "sandbox", "agent", "call"};

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

static void resolve(const char *json, const struct pin_tool_config *config, struct pin_tool_request *request,
                    struct pin_arena *arena, struct pin_tool_env *env) {
    char text[512];
    static struct pin_findings found;
    (void)snprintf(text, sizeof(text), "{\"language\":\"python\",\"source\":\"\",\"name\":\"f\"%s%s}",
                   json[0] != '\0' ? "," : "", json);
    assert_true(pin_tool_request_parse(request, text, strlen(text), &found));
    pin_tool_env(request, config, arena, env);
}

static void with_env(const char *json, const struct pin_tool_config *config, const char *name,
                     const char *expected) {
    struct pin_tool_request request = {0};
    struct pin_arena arena = {0};
    struct pin_tool_env env;
    resolve(json, config, &request, &arena, &env);
    const struct pin_pair *pair = find(env.over, env.over_count, name);
    assert_non_null(pair);
    if (expected == NULL)
        assert_null(pair->value);
    else
        assert_string_equal(pair->value, expected);
    pin_arena_free(&arena);
    pin_tool_request_free(&request);
}

/* X in two layers, of which the first is the configuration's or the request's. */
static void with_two(size_t low, const char *low_value, size_t high, const char *high_value,
                     const char *expected) {
    char json[256], quoted[2][16];
    const char *const given[] = {low_value, high_value};
    struct pin_tool_variable variable = {"X", low_value, NULL};
    const struct pin_tool_config config = {.env = &variable, .env_count = low == 0};
    for (size_t i = 0; i < 2; i++)
        (void)snprintf(quoted[i], sizeof(quoted[i]), given[i] == NULL ? "null" : "\"%s\"", given[i]);
    if (low == 0)
        (void)snprintf(json, sizeof(json), "\"env\":{\"%s\":{\"X\":%s}}", layers[high], quoted[1]);
    else
        (void)snprintf(json, sizeof(json), "\"env\":{\"%s\":{\"X\":%s},\"%s\":{\"X\":%s}}", layers[high],
                       quoted[1], layers[low], quoted[0]);
    with_env(json, &config, "X", expected);
}

static void the_higher_of_two_layers_wins_and_null_removes(void **state) {
    (void)state;
    for (size_t low = 0; low < PIN_COUNT(layers); low++) {
        for (size_t high = low + 1; high < PIN_COUNT(layers); high++) {
            with_two(low, "low", high, "high", "high");
            with_two(low, "low", high, NULL, NULL);
            with_two(low, NULL, high, "high", "high");
        }
    }
}

static void a_sealed_value_is_opened_where_nothing_covers_it(void **state) {
    (void)state;
    static const struct {
        const char *json;
        size_t sealed;
    } rows[] = {
        {"",                                 1},
        {"\"env\":{\"agent\":{\"Y\":\"\"}}", 1},
        {"\"env\":{\"agent\":{\"X\":\"\"}}", 0},
        {"\"env\":{\"call\":{\"X\":null}}",  0},
    };
    struct pin_tool_variable variables[] = {
        {"W", "",   NULL},
        {"X", NULL, "00"}
    };
    const struct pin_tool_config config = {.env = variables, .env_count = 2};
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_tool_request request = {0};
        struct pin_arena arena = {0};
        struct pin_tool_env env;
        resolve(rows[i].json, &config, &request, &arena, &env);
        assert_int_equal(env.sealed_count, rows[i].sealed);
        if (rows[i].sealed > 0) {
            assert_string_equal(env.sealed[0]->name, "X");
            assert_string_equal(find(env.over, env.over_count, "X")->value, "");
        }
        pin_arena_free(&arena);
        pin_tool_request_free(&request);
    }
}

static void ids_are_the_requests_alone(void **state) {
    (void)state;
    struct pin_tool_variable variable = {"LETTA_TOOL_ID", "c", NULL};
    const struct pin_tool_config config = {.env = &variable, .env_count = 1};
    with_env("", &config, "LETTA_TOOL_ID", NULL);
    with_env("\"agent_id\":\"a\",\"env\":{\"call\":{\"LETTA_AGENT_ID\":\"b\"}}", &config, "LETTA_AGENT_ID",
             "a");
    with_env("\"env\":{\"call\":{\"LETTA_AGENT_ID\":\"b\"}}", &config, "LETTA_AGENT_ID", NULL);
    with_env("\"project_id\":\"p\"", &config, "LETTA_PROJECT_ID", "p");
    with_env("\"tool_id\":\"t\"", &config, "LETTA_TOOL_ID", "t");
}

static void our_own_settings_are_below_all(void **state) {
    (void)state;
    struct pin_tool_request request = {0};
    struct pin_arena arena = {0};
    struct pin_tool_env env;
    static const struct pin_tool_config none;
    static const char *const names[] = {"NO_COLOR", "TERM", "PYTHONUNBUFFERED", "PYTHONWARNINGS",
                                        "NODE_NO_WARNINGS"};
    pin_tool_env(&request, &none, &arena, &env);
    for (size_t i = 0; i < PIN_COUNT(names); i++) {
        assert_non_null(find(env.under, env.under_count, names[i]));
        assert_null(find(env.over, env.over_count, names[i]));
    }
    pin_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_higher_of_two_layers_wins_and_null_removes),
        cmocka_unit_test(a_sealed_value_is_opened_where_nothing_covers_it),
        cmocka_unit_test(ids_are_the_requests_alone),
        cmocka_unit_test(our_own_settings_are_below_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
