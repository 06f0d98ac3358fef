#include <string.h>

#include "base/text.h"
#include "policy/audit/arg_names.h"
#include "policy/audit/cases.h"
#include "policy/policy_write.h"

static const char *want_text(struct pin_arena *arena, const struct pin_case *one) {
    const char *error = one->want == PIN_CASE_ERRNO ? pin_errno_name(one->error) : NULL;
    return pin_arena_printf(arena, "%s%s%s", pin_case_want_name(one->want), error != NULL ? " " : "",
                            error != NULL ? error : "");
}

static const char *got_text(struct pin_arena *arena, const struct pin_answer *answer) {
    const char *error = answer->verdict == PIN_ANSWER_ERRNO ? pin_errno_name(answer->error) : NULL;
    return pin_arena_printf(arena, "%s%s%s", pin_answer_verdict_name(answer->verdict),
                            error != NULL ? " " : "", error != NULL ? error : "");
}

/* In one line, without what TAP takes for a directive. */
static void add_description(struct pin_buffer *to, const char *text) {
    char shown[512];
    (void)pin_escape(shown, sizeof(shown), text, strlen(text));
    for (const char *at = shown; *at != '\0'; at++)
        pin_buffer_printf(to, *at == '#' ? "\\%c" : "%c", *at);
}

/* A double-quoted scalar of YAML is a JSON string. */
static void add_yaml(struct pin_buffer *to, const char *key, const char *value) {
    if (value == NULL)
        return;
    pin_buffer_printf(to, "  %s: ", key);
    pin_buffer_json(to, value);
    pin_buffer_add(to, "\n");
}

void pin_cases_tap(struct pin_buffer *to, const struct pin_cases *cases, const char *policy) {
    PIN_ARENA struct pin_arena scratch = {0};
    pin_buffer_printf(to, "TAP version 14\n# policy ");
    add_description(to, policy);
    pin_buffer_printf(to, "\n1..%zu\n", cases->count);
    for (size_t i = 0; i < cases->count; i++) {
        const struct pin_case *one = &cases->list[i];
        char place[PIN_PLACE_TEXT];
        bool good = one->holds && one->live == NULL;
        pin_buffer_printf(to, "%s %zu - ", good ? "ok" : "not ok", i + 1);
        add_description(to, pin_arena_printf(&scratch, "%s: %s", want_text(&scratch, one), one->name));
        pin_buffer_add(to, "\n");
        if (good)
            continue;
        pin_buffer_add(to, "  ---\n");
        add_yaml(to, "wanted", want_text(&scratch, one));
        add_yaml(to, "got", got_text(&scratch, &one->answer));
        add_yaml(to, "seen", one->live);
        add_yaml(to, "question", one->question.text);
        add_yaml(to, "because", one->answer.reason);
        add_yaml(to, "rule", one->answer.rule);
        add_yaml(to, "at", one->answer.rule != NULL ? pin_place_print(place, &one->answer.place) : NULL);
        add_yaml(to, "case", pin_arena_printf(&scratch, "%s:%u", cases->file, one->line));
        pin_buffer_add(to, "  ...\n");
    }
}

static void add_xml(struct pin_buffer *to, const char *text) {
    char shown[1024];
    (void)pin_escape(shown, sizeof(shown), text, strlen(text));
    for (const char *at = shown; *at != '\0'; at++) {
        switch (*at) {
        case '&': pin_buffer_add(to, "&amp;"); break;
        case '<': pin_buffer_add(to, "&lt;"); break;
        case '>': pin_buffer_add(to, "&gt;"); break;
        case '"': pin_buffer_add(to, "&quot;"); break;
        default: pin_buffer_add_bytes(to, at, 1); break;
        }
    }
}

static void add_attribute(struct pin_buffer *to, const char *name, const char *value) {
    pin_buffer_printf(to, " %s=\"", name);
    add_xml(to, value);
    pin_buffer_add(to, "\"");
}

void pin_cases_junit(struct pin_buffer *to, const struct pin_cases *cases, const char *policy) {
    PIN_ARENA struct pin_arena scratch = {0};
    pin_buffer_add(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites><testsuite");
    add_attribute(to, "name", policy);
    pin_buffer_printf(to, " tests=\"%zu\" failures=\"%zu\">\n", cases->count, pin_cases_failed(cases));
    for (size_t i = 0; i < cases->count; i++) {
        const struct pin_case *one = &cases->list[i];
        pin_buffer_add(to, "<testcase");
        add_attribute(to, "classname", policy);
        add_attribute(to, "name", pin_arena_printf(&scratch, "%s: %s", want_text(&scratch, one), one->name));
        add_attribute(to, "file", cases->file);
        pin_buffer_printf(to, " line=\"%u\"", one->line);
        if (one->holds && one->live == NULL) {
            pin_buffer_add(to, "/>\n");
            continue;
        }
        pin_buffer_add(to, "><failure");
        add_attribute(to, "message",
                      pin_arena_printf(&scratch, "wanted %s, got %s%s%s", want_text(&scratch, one),
                                       got_text(&scratch, &one->answer), one->live != NULL ? ", seen: " : "",
                                       one->live != NULL ? one->live : ""));
        pin_buffer_add(to, ">");
        add_xml(to, one->answer.reason);
        pin_buffer_add(to, "</failure></testcase>\n");
    }
    pin_buffer_add(to, "</testsuite></testsuites>\n");
}

json_t *pin_cases_json(const struct pin_cases *cases) {
    PIN_ARENA struct pin_arena scratch = {0};
    json_t *list = json_array();
    for (size_t i = 0; i < cases->count; i++) {
        const struct pin_case *one = &cases->list[i];
        json_t *object = pin_answer_json(&one->question, &one->answer);
        json_object_set_new(object, "name", json_string(one->name));
        json_object_set_new(object, "wanted", json_string(want_text(&scratch, one)));
        json_object_set_new(object, "holds", json_boolean(one->holds && one->live == NULL));
        json_object_set_new(object, "seen", one->live != NULL ? json_string(one->live) : json_null());
        json_object_set_new(object, "line", json_integer(one->line));
        json_array_append_new(list, object);
    }
    size_t failed = pin_cases_failed(cases);
    return json_pack("{s:I, s:I, s:o}", "passed", (json_int_t)(cases->count - failed), "failed",
                     (json_int_t)failed, "cases", list);
}
