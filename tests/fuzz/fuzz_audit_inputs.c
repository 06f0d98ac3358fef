/* Cases, weights, questions and programs from anybody: read or refused, never half, and what was read can be
 * answered and reported. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "policy/audit/bpf_text.h"
#include "policy/audit/cases.h"
#include "policy/audit/weights.h"
#include "policy/policy_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pin_reach reach; /* of the profile tool, made once */

static void set_up(void) {
    static struct pin_findings found;
    struct pin_policy *policy = pin_policy_load("tool", &found);
    if (policy == NULL || !pin_reach_make(&reach, policy, PIN_ARCH_X86_64, &found))
        abort();
}

static void try_cases(const char *text, size_t size) {
    static struct pin_findings found;
    PIN_CASES struct pin_cases cases = {0};
    PIN_BUFFER struct pin_buffer tap = {0}, junit = {0};
    memset(&found, 0, sizeof(found));
    bool good = pin_cases_read(&cases, "cases.json", text, size, &found);
    assert(good == !pin_found_any(&found));
    if (!good)
        return;
    size_t failed = pin_cases_run(&cases, &reach, NULL);
    assert(failed <= cases.count && failed == pin_cases_failed(&cases));
    pin_cases_tap(&tap, &cases, "tool");
    pin_cases_junit(&junit, &cases, "tool");
    json_t *json = pin_cases_json(&cases);
    assert(json != NULL);
    json_decref(json);
}

static void try_weights(const char *text, size_t size) {
    static struct pin_findings found;
    PIN_WEIGHTS struct pin_weights weights = {0};
    memset(&found, 0, sizeof(found));
    bool good = pin_weights_read(&weights, "weights.json", text, size, &found);
    assert(good == !pin_found_any(&found));
    for (size_t i = 0; good && i < PIN_SCORE_PART_COUNT; i++)
        assert(weights.parts[i] >= 0 && weights.parts[i] <= 10);
}

static void try_question(const char *text, size_t size) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_question question;
    struct pin_error err = {0};
    const char *line = pin_arena_strndup(&arena, text, size);
    bool good = pin_question_parse_line(&question, &arena, line, &err);
    assert(good == !pin_is_set(&err));
    if (!good)
        return;
    struct pin_answer answer = pin_why(&reach, &question, NULL, &arena);
    assert(answer.reason != NULL && (unsigned)answer.verdict < PIN_ANSWER_COUNT);
    assert(answer.edit == NULL || !pin_answer_allows(&answer));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    PIN_BUFFER struct pin_buffer text = {0};
    if (reach.policy == NULL)
        set_up();
    if (size < 1)
        return 0;
    const char *rest = (const char *)data + 1;
    switch (data[0] % 4) {
    case 0: try_cases(rest, size - 1); break;
    case 1: try_weights(rest, size - 1); break;
    case 2: try_question(rest, size - 1); break;
    default: {
        struct sock_filter code[64];
        size_t length = (size - 1) / sizeof(code[0]) < 64 ? (size - 1) / sizeof(code[0]) : 64;
        memcpy(code, rest, length * sizeof(code[0]));
        pin_bpf_text(&text, code, length);
        break;
    }
    }
    return 0;
}
