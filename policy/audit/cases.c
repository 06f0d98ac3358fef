#include "policy/audit/cases.h"

#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "policy/audit/arg_names.h"
#include "policy/json_source.h"

static const char *const want_names[] = {
    [PIN_CASE_ALLOW] = "allow",
    [PIN_CASE_DENY] = "deny",
    [PIN_CASE_ERRNO] = "errno",
    [PIN_CASE_KILL] = "kill",
};
_Static_assert(PIN_COUNT(want_names) == PIN_CASE_WANT_COUNT, "every wish has a name");

const char *pin_case_want_name(enum pin_case_want want) {
    return want_names[want];
}

struct reader {
    struct pin_cases *cases;
    const struct pin_json_source *source;
    struct pin_findings *found;
};

static bool read_question(const struct reader *reader, const struct pin_json *node, struct pin_case *one) {
    struct pin_error err = {0};
    if (!json_is_string(node->value)) {
        pin_json_fault(reader->source, node, reader->found, "such as \"write /workspace/x\"",
                       "expected a question, found %s", pin_json_type_name(node->value));
        return false;
    }
    if (pin_question_parse_line(&one->question, &reader->cases->arena, json_string_value(node->value), &err))
        return true;
    pin_json_fault(reader->source, node, reader->found, err.hint[0] != '\0' ? err.hint : NULL, "%s",
                   err.message);
    return false;
}

/* ["EPERM", "syscall mount"] */
static bool read_errno(const struct reader *reader, const struct pin_json *node, struct pin_case *one) {
    static const char form[] = "write [\"EPERM\", \"syscall NAME\"]";
    if (!json_is_array(node->value) || node->count != 2 || !json_is_string(node->first->value)) {
        pin_json_fault(reader->source, node, reader->found, form, "expected an errno and a question");
        return false;
    }
    one->error = pin_errno_find(json_string_value(node->first->value));
    if (one->error == 0) {
        pin_json_fault(reader->source, node->first, reader->found, NULL, "'%.40s' is no errno",
                       json_string_value(node->first->value));
        return false;
    }
    return read_question(reader, node->first->next, one);
}

static bool read_want(const struct reader *reader, const struct pin_json *node, struct pin_case *one) {
    one->want = (enum pin_case_want)pin_name_find(want_names, PIN_CASE_WANT_COUNT, node->key);
    bool read =
        one->want == PIN_CASE_ERRNO ? read_errno(reader, node, one) : read_question(reader, node, one);
    bool of_calls = one->want == PIN_CASE_ERRNO || one->want == PIN_CASE_KILL;
    if (!read || !of_calls || one->question.kind == PIN_ASK_SYSCALL)
        return read;
    pin_json_fault(reader->source, node, reader->found, "use \"deny\"", "only system calls answer with %s",
                   one->want == PIN_CASE_KILL ? "a kill" : "an errno");
    return false;
}

static bool read_name(const struct reader *reader, const struct pin_json *node, struct pin_case *one) {
    if (!json_is_string(node->value)) {
        pin_json_fault(reader->source, node, reader->found, NULL, "expected a string");
        return false;
    }
    one->name = pin_arena_strdup(&reader->cases->arena, json_string_value(node->value));
    return true;
}

static void read_case(const struct reader *reader, const struct pin_json *node) {
    struct pin_case one = {.line = node->line, .column = node->column};
    size_t wants = 0;
    bool good = json_is_object(node->value);
    for (const struct pin_json *child = good ? node->first : NULL; child != NULL; child = child->next) {
        if (child->value == NULL) {
            good = false; /* a duplicate key: a finding already */
        } else if (strcmp(child->key, "name") == 0) {
            good = read_name(reader, child, &one) && good;
        } else if (pin_name_find(want_names, PIN_CASE_WANT_COUNT, child->key) >= 0) {
            wants++;
            good = read_want(reader, child, &one) && good;
        } else {
            pin_json_fault_key(reader->source, child, reader->found, "name, allow, deny, errno or kill",
                               "unknown key '%.40s'", child->key);
            good = false;
        }
    }
    if (!json_is_object(node->value) || wants != 1) {
        pin_json_fault(reader->source, node, reader->found, "such as {\"deny\": \"connect 10.0.0.1:22\"}",
                       "an assertion is an object with one of allow, deny, errno and kill");
        return;
    }
    if (!good)
        return;
    if (one.name == NULL)
        one.name = one.question.text;
    struct pin_cases *cases = reader->cases;
    *(struct pin_case *)pin_arena_grow(&cases->arena, &cases->list, &cases->count, sizeof(one)) = one;
}

bool pin_cases_read(struct pin_cases *cases, const char *file, const char *text, size_t size,
                    struct pin_findings *found) {
    struct pin_json_source source = {0};
    const struct reader reader = {cases, &source, found};
    size_t before = found->count + found->dropped;
    cases->file = pin_arena_strdup(&cases->arena, file);
    if (pin_json_read(&source, cases->file, text, size, found)) {
        if (!json_is_array(source.root->value))
            pin_json_fault(&source, source.root, found, "write [{\"allow\": …}, …]",
                           "expected a list of assertions");
        else
            for (const struct pin_json *node = source.root->first; node != NULL; node = node->next)
                read_case(&reader, node);
    }
    pin_json_free(&source);
    return found->count + found->dropped == before;
}

void pin_cases_free(struct pin_cases *cases) {
    pin_arena_free(&cases->arena);
}

static bool holds(const struct pin_case *one) {
    enum pin_answer_verdict verdict = one->answer.verdict;
    switch (one->want) {
    case PIN_CASE_ALLOW: return verdict == PIN_ANSWER_ALLOW;
    case PIN_CASE_DENY:
        return verdict == PIN_ANSWER_DENY || verdict == PIN_ANSWER_ERRNO || verdict == PIN_ANSWER_KILL;
    case PIN_CASE_ERRNO: return verdict == PIN_ANSWER_ERRNO && one->answer.error == one->error;
    case PIN_CASE_KILL: return verdict == PIN_ANSWER_KILL;
    case PIN_CASE_WANT_COUNT: break;
    }
    return false;
}

size_t pin_cases_run(struct pin_cases *cases, const struct pin_reach *reach,
                     const struct pin_why_root *root) {
    size_t failed = 0;
    for (size_t i = 0; i < cases->count; i++) {
        struct pin_case *one = &cases->list[i];
        one->answer = pin_why(reach, &one->question, root, &cases->arena);
        one->holds = holds(one);
        failed += !one->holds;
    }
    return failed;
}

size_t pin_cases_failed(const struct pin_cases *cases) {
    size_t failed = 0;
    for (size_t i = 0; i < cases->count; i++)
        failed += !cases->list[i].holds || cases->list[i].live != NULL;
    return failed;
}
