/* Arguments of tools: what a schema makes of them, and what it refuses. */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "runtime/tool/args.h"
#include "runtime/tool/args_parts.h"
#include "runtime/tool/request.h"

static json_t *read_json(const char *text) {
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    return json;
}

/* What is printed of the converted arguments; NULL: refused. The caller frees it. */
static char *convert(const char *schema_text, const char *args_text, struct pin_findings *found) {
    json_t *schema = read_json(schema_text), *args = read_json(args_text);
    memset(found, 0, sizeof(*found));
    json_t *result = pin_tool_args_convert(schema, args, found);
    char *text = result == NULL ? NULL : json_dumps(result, JSON_COMPACT);
    assert_true((result == NULL) == pin_found_any(found));
    json_decref(result);
    json_decref(schema);
    json_decref(args);
    return text;
}

/* The schema of one argument, "a". */
static void one(char *to, size_t room, const char *schema) {
    (void)snprintf(to, room, "{\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":%s}}}", schema);
}

static void values_become_what_the_schema_wants(void **state) {
    (void)state;
    static const struct {
        const char *schema, *given, *expected; /* of "a"; "" is left out */
    } rows[] = {
        {"{\"type\":\"integer\"}",                                                            "\"-12\"",            "-12"                },
        {"{\"type\":\"integer\"}",                                                            "7.0",                "7"                  },
        {"{\"type\":\"integer\"}",                                                            "\"1e3\"",            "1000"               },
        {"{\"type\":\"number\"}",                                                             "3",                  "3"                  },
        {"{\"type\":\"number\"}",                                                             "\"2.5\"",            "2.5"                },
        {"{\"type\":\"boolean\"}",                                                            "\"True\"",           "true"               },
        {"{\"type\":\"string\"}",                                                             "42",                 "\"42\""             },
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}",                             "\"[1, \\\"2\\\"]\"", "[1,2]"              },
        {"{\"type\":\"object\"}",                                                             "\"{\\\"x\\\": 1}\"", "{\"x\":1}"          },
        {"{\"type\":[\"integer\",\"null\"]}",                                                 "null",               "null"               },
        {"{\"type\":\"integer\",\"nullable\":true}",                                          "null",               "null"               },
        {"{\"type\":\"integer\"}",                                                            "null",               ""                   },
        {"{\"type\":\"integer\",\"default\":5}",                                              "null",               "5"                  },
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}",                        "\"5\"",              "\"5\""              },
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}",                          "\"5\"",              "5"                  },
        {"{\"allOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}",                              "\"5\"",              "5"                  },
        {"{\"enum\":[1,2.0]}",                                                                "1.0",                "1.0"                },
        {"{\"multipleOf\":0.1}",                                                              "0.3",                "0.29999999999999999"},
        {"{\"minLength\":2,\"maxLength\":2}",                                                 "\"\\u00fc\\u20ac\"", "\"\u00fc\u20ac\""   },
        {"true",                                                                              "[1,{}]",             "[1,{}]"             },
        {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",             "{\"x\":\"1\"}",
         "{\"x\":1}"                                                                                                                     },
        {"{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"integer\",\"default\":1}}}", "{}",
         "{\"b\":1}"                                                                                                                     },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_findings found;
        char schema[512], given[256], expected[256];
        one(schema, sizeof(schema), rows[i].schema);
        (void)snprintf(given, sizeof(given), "{\"a\":%s}", rows[i].given);
        (void)snprintf(expected, sizeof(expected), rows[i].expected[0] != '\0' ? "{\"a\":%s}" : "{}%s",
                       rows[i].expected);
        char *text = convert(schema, given, &found);
        if (text == NULL)
            fail_msg("row %zu: %s", i, found.list[0].message);
        assert_string_equal(text, expected);
        free(text);
    }
}

static void values_that_dont_fit_are_refused_at_their_place(void **state) {
    (void)state;
    static const struct {
        const char *schema, *given, *pointer;
    } rows[] = {
        {"{\"type\":\"integer\"}",                                   "\"1.5\"",   "/args/a"     },
        {"{\"type\":\"integer\"}",                                   "\"0x10\"",  "/args/a"     },
        {"{\"type\":\"integer\"}",                                   "\"\"",      "/args/a"     },
        {"{\"type\":\"integer\"}",                                   "true",      "/args/a"     },
        {"{\"type\":\"integer\"}",                                   "1e300",     "/args/a"     },
        {"{\"type\":\"number\"}",                                    "\"nan\"",   "/args/a"     },
        {"{\"type\":\"number\"}",                                    "\"1e999\"", "/args/a"     },
        {"{\"type\":\"string\"}",                                    "true",      "/args/a"     },
        {"{\"type\":\"boolean\"}",                                   "1",         "/args/a"     },
        {"{\"type\":\"array\"}",                                     "\"{}\"",    "/args/a"     },
        {"{\"type\":\"number\",\"exclusiveMinimum\":0}",             "0",         "/args/a"     },
        {"{\"type\":\"number\",\"exclusiveMaximum\":1}",             "1.0",       "/args/a"     },
        {"{\"type\":\"integer\",\"multipleOf\":3}",                  "4",         "/args/a"     },
        {"{\"const\":\"x\"}",                                        "\"y\"",     "/args/a"     },
        {"{\"type\":\"array\",\"minItems\":1}",                      "[]",        "/args/a"     },
        {"{\"type\":\"array\",\"items\":{\"type\":\"integer\"}}",    "[1,\"x\"]", "/args/a/1"   },
        {"{\"type\":\"object\",\"required\":[\"b/c\"]}",             "{}",        "/args/a/b~1c"},
        {"{\"type\":\"object\",\"properties\":{\"b\":{}}}",          "{\"c\":1}", "/args/a/c"   },
        {"{\"type\":\"object\",\"additionalProperties\":false}",     "{\"c\":1}", "/args/a/c"   },
        {"{\"type\":\"object\",\"maxProperties\":0}",                "{\"c\":1}", "/args/a"     },
        {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}]}", "\"x\"",     "/args/a"     },
        {"{\"pattern\":\"^a\"}",                                     "\"a\"",     "/args/a"     },
        {"{\"type\":\"int\"}",                                       "1",         "/args/a"     },
        {"{\"minimum\":\"1\"}",                                      "1",         "/args/a"     },
        {"{\"$ref\":\"#/$defs/none\"}",                              "1",         "/args/a"     },
        {"false",                                                    "1",         "/args/a"     },
        {"5",                                                        "1",         "/args/a"     },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_findings found;
        char schema[512], given[256];
        one(schema, sizeof(schema), rows[i].schema);
        (void)snprintf(given, sizeof(given), "{\"a\":%s}", rows[i].given);
        char *text = convert(schema, given, &found);
        if (text != NULL)
            fail_msg("row %zu became %s", i, text);
        assert_int_equal(found.count, 1);
        assert_string_equal(found.list[0].pointer, rows[i].pointer);
    }
}

static void references_lead_to_definitions_and_end(void **state) {
    (void)state;
    static const char list[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/L\"}},\"$defs\":{"
        "\"L\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},"
        "\"next\":{\"$ref\":\"#/$defs/L\"}}}}}";
    static const char circle[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/L\"}},\"$defs\":{\"L\":{\"anyOf\":["
        "{\"$ref\":\"#/$defs/L\"},{\"$ref\":\"#/$defs/L\"}]}}}";
    struct pin_findings found;
    char *text = convert(list, "{\"a\":{\"v\":\"1\",\"next\":{\"v\":\"2\"}}}", &found);
    assert_string_equal(text, "{\"a\":{\"v\":1,\"next\":{\"v\":2}}}");
    free(text);
    assert_null(convert(circle, "{\"a\":1}", &found)); /* alternatives within alternatives: it takes an end */
}

static void every_fault_is_named(void **state) {
    (void)state;
    struct pin_findings found;
    assert_null(
        convert("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"minimum\":1}},"
                "\"required\":[\"a\",\"c\"]}",
                "{\"b\":0,\"d\":1}", &found));
    static const char *const pointers[] = {"/args/a", "/args/b", "/args/d", "/args/c"};
    assert_int_equal(found.count, PIN_COUNT(pointers));
    for (size_t i = 0; i < PIN_COUNT(pointers); i++)
        assert_string_equal(found.list[i].pointer, pointers[i]);
}

/* Property: what was converted fits the same schema as it is, and converting it again changes nothing. */
static void converting_twice_is_converting_once(void **state) {
    (void)state;
    static const char *const schemas[] = {
        "{\"type\":\"integer\"}",
        "{\"type\":\"number\"}",
        "{\"type\":\"boolean\"}",
        "{\"type\":\"string\"}",
        "{\"type\":\"array\",\"items\":{\"type\":[\"integer\",\"boolean\"]}}",
        "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}",
        "{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"array\",\"items\":{\"type\":\"number\"}}]}",
        "{\"type\":[\"number\",\"null\"],\"default\":3}",
    };
    static const char *const values[] = {
        "0",
        "-1",
        "2.5",
        "1e15",
        "true",
        "null",
        "\"\"",
        "\"7\"",
        "\"-0\"",
        "\"2.50\"",
        "\"true\"",
        "\"[1,2]\"",
        "[\"1\",true]",
        "[[]]",
        "{\"x\":1}",
        "{}",
        "\"{}\"",
        "9007199254740993",
        "1e-7",
    };
    size_t converted = 0;
    for (size_t s = 0; s < PIN_COUNT(schemas); s++) {
        for (size_t v = 0; v < PIN_COUNT(values); v++) {
            struct pin_findings found;
            char schema[512], given[256];
            one(schema, sizeof(schema), schemas[s]);
            (void)snprintf(given, sizeof(given), "{\"a\":%s}", values[v]);
            char *once = convert(schema, given, &found);
            if (once == NULL)
                continue;
            char *twice = convert(schema, once, &found);
            assert_non_null(twice);
            assert_string_equal(once, twice);
            converted++;
            free(once);
            free(twice);
        }
    }
    assert_true(converted > 50);
}

static void a_request_keeps_what_it_was_given(void **state) {
    (void)state;
    static const char text[] =
        "{\"language\":\"typescript\",\"source\":\"s\",\"json_schema\":{\"name\":\"g\",\"parameters\":"
        "{\"type\":\"object\",\"properties\":{\"z\":{},\"a\":{}}}},\"args\":{\"a\":1,\"z\":2},"
        "\"timeout\":1.5,\"pip_requirements\":[],\"privileged\":false,\"policy\":null}";
    static struct pin_findings found;
    struct pin_tool_request request = {0};
    assert_true(pin_tool_request_parse(&request, text, strlen(text), &found));
    assert_int_equal(request.language, PIN_TOOL_TYPESCRIPT);
    assert_string_equal(request.name, "g");
    assert_true(request.timeout_ns == 1500000000);
    char *packet = pin_tool_request_packet(&request, "key", NULL);
    assert_non_null(strstr(packet, "\"parameters\":[\"z\",\"a\"]"));
    assert_non_null(strstr(packet, "\"args\":{\"z\":2,\"a\":1}"));
    free(packet);
    pin_tool_request_free(&request);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_become_what_the_schema_wants),
        cmocka_unit_test(values_that_dont_fit_are_refused_at_their_place),
        cmocka_unit_test(references_lead_to_definitions_and_end),
        cmocka_unit_test(every_fault_is_named),
        cmocka_unit_test(converting_twice_is_converting_once),
        cmocka_unit_test(a_request_keeps_what_it_was_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
