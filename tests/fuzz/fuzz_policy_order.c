/* Two policies, divided by a zero byte: each is narrower than itself; two that are narrower than each other
 * have the same digest, calls and variables aside; and a policy that has taken on the refusals of another is
 * narrower than it was. */
#include <assert.h>
#include <string.h>

#include "policy/policy_order.h"
#include "policy/policy_read.h"
#include "policy/site.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct pin_findings found;

static struct pin_policy *parse(const uint8_t *data, size_t size) {
    memset(&found, 0, sizeof(found));
    return pin_policy_parse("fuzz.json", (const char *)data, size, &found);
}

static bool narrower(const struct pin_policy *inner, const struct pin_policy *outer) {
    memset(&found, 0, sizeof(found));
    bool result = pin_policy_narrower(inner, outer, &found);
    assert(result == !pin_found_any(&found));
    return result;
}

static bool aside(const struct pin_policy *policy) {
    return policy->syscalls.allow_count + policy->syscalls.deny_count > 0;
}

static void forget_variables(struct pin_policy *policy) {
    policy->environment.set_count = 0;
    pin_policy_seal(policy);
}

static void compare(struct pin_policy *a, struct pin_policy *b) {
    assert(narrower(a, a) && narrower(b, b));
    forget_variables(a);
    forget_variables(b);
    if (narrower(a, b) && narrower(b, a) && !aside(a) && !aside(b))
        assert(memcmp(a->digest, b->digest, PIN_SHA256_SIZE) == 0);
    struct pin_policy *floored = pin_policy_copy(a);
    memset(&found, 0, sizeof(found));
    bool granted = pin_site_apply(floored, b, &found);
    if (!aside(a) && !aside(b))
        assert(narrower(floored, a));
    if (granted)
        assert(narrower(floored, b));
    pin_policy_free(floored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *middle = size > 0 ? memchr(data, 0, size) : NULL;
    if (middle == NULL)
        return 0;
    struct pin_policy *a = parse(data, (size_t)(middle - data));
    struct pin_policy *b = a != NULL ? parse(middle + 1, size - (size_t)(middle - data) - 1) : NULL;
    if (a != NULL && b != NULL)
        compare(a, b);
    pin_policy_free(a);
    pin_policy_free(b);
    return 0;
}
