/* Two policies, divided by a zero byte: each is equal to itself; diff and order agree both ways, and what is
 * wider one way is narrower the other. Lint, score and explanation have no policy that they can't take. */
#include <assert.h>
#include <string.h>

#include "policy/audit/diff.h"
#include "policy/audit/explain_html.h"
#include "policy/policy_order.h"
#include "policy/policy_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pin_findings found;

static struct pin_policy *parse(const uint8_t *data, size_t size) {
    memset(&found, 0, sizeof(found));
    return pin_policy_parse("fuzz.json", (const char *)data, size, &found);
}

static bool make(struct pin_reach *reach, const struct pin_policy *policy) {
    memset(&found, 0, sizeof(found));
    return pin_reach_make(reach, policy, PIN_ARCH_X86_64, &found);
}

static bool narrower(const struct pin_policy *inner, const struct pin_policy *outer) {
    memset(&found, 0, sizeof(found));
    return pin_policy_narrower(inner, outer, &found);
}

static bool has(const struct pin_diff *diff, enum pin_change_kind kind) {
    for (size_t i = 0; i < diff->count; i++)
        if (diff->changes[i].kind == kind)
            return true;
    return false;
}

static void compare(const struct pin_reach *a, const struct pin_reach *b) {
    PIN_DIFF struct pin_diff there = {0}, back = {0}, same = {0};
    pin_diff_make(&there, a, b);
    pin_diff_make(&back, b, a);
    pin_diff_make(&same, a, a);
    assert(!same.wider && !same.narrower && same.count == 0);
    assert(there.wider == !narrower(b->policy, a->policy));
    assert(there.wider == back.narrower && there.narrower == back.wider);
    assert(there.wider == has(&there, PIN_CHANGE_WIDER));
    assert(there.narrower == has(&there, PIN_CHANGE_NARROWER));
}

static void look_at(const struct pin_reach *reach) {
    PIN_EXPLAIN struct pin_explain explain = {0};
    PIN_WEIGHTS struct pin_weights weights = {0};
    PIN_SCORE struct pin_score score = {0};
    PIN_LINT struct pin_lint lint = {0};
    PIN_BUFFER struct pin_buffer page = {0};
    memset(&found, 0, sizeof(found));
    pin_explain_make(&explain, reach);
    assert(pin_weights_builtin(&weights, &found));
    pin_score_make(&score, reach, &weights);
    pin_lint_check(&lint, reach);
    pin_explain_html(&page, &(struct pin_explain_page){reach, &explain, &score, &lint});
    assert(score.total >= 0 && score.total <= 10.000001);
    assert(strstr(page.data, "<script") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *middle = size > 0 ? memchr(data, 0, size) : NULL;
    if (middle == NULL)
        return 0;
    PIN_REACH struct pin_reach from = {0}, to = {0};
    struct pin_policy *a = parse(data, (size_t)(middle - data));
    struct pin_policy *b = a != NULL ? parse(middle + 1, size - (size_t)(middle - data) - 1) : NULL;
    if (a != NULL && b != NULL && make(&from, a) && make(&to, b)) {
        compare(&from, &to);
        look_at(&from);
    }
    pin_policy_free(a);
    pin_policy_free(b);
    return 0;
}
