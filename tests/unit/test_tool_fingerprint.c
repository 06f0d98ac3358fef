/* What differs in a sandbox, or in what a call brings to it, differs in the fingerprint. */
#include "bundle_fixture.h"

#include "runtime/tool/fingerprint.h"

static struct pin_bundle *bundle_of(const struct pin_request *request) {
    struct pin_policy *policy = body("\"name\": \"t\"");
    struct pin_bundle *bundle = resolved(policy, request);
    pin_policy_free(policy);
    return bundle;
}

static void print(const struct pin_bundle *bundle, const struct pin_tool_shape *shape,
                  enum pin_tool_scope scope, uint8_t digest[PIN_SHA256_SIZE]) {
    struct pin_error err = {0};
    assert_true(pin_tool_fingerprint(bundle, shape, scope, digest, &err));
}

static void every_field_of_the_shape_counts_and_none_stands_for_another(void **state) {
    (void)state;
    static const struct pin_tool_shape shapes[] = {
        {0                          },
        {.language = "a"            },
        {.organisation = "a"        },
        {.configuration = "a"       },
        {.configuration_digest = "a"},
        {.pip_lock = "a"            },
        {.npm_lock = "a"            },
        {.privileged = true         },
        {.organisation = "a",         .configuration = "b"},
        {.organisation = "ab"                          },
    };
    uint8_t digests[PIN_COUNT(shapes)][PIN_SHA256_SIZE];
    struct pin_request request = plain_request();
    struct pin_bundle *bundle = bundle_of(&request);
    for (size_t i = 0; i < PIN_COUNT(shapes); i++) {
        print(bundle, &shapes[i], PIN_TOOL_SCOPE_SANDBOX, digests[i]);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(digests[i], digests[j], PIN_SHA256_SIZE);
    }
    pin_bundle_free(bundle);
}

static void a_pool_is_shared_by_calls_that_differ_in_what_they_are_given_alone(void **state) {
    (void)state;
    static const struct pin_pair env[] =
        {
            {"X", "1"}
    },
                                 other_env[] = {{"X", "2"}}, labels[] = {{"l", "1"}};
    struct pin_request requests[] = {plain_request(), plain_request(), plain_request()};
    const struct pin_tool_shape shape = {0};
    uint8_t sandbox[PIN_COUNT(requests)][PIN_SHA256_SIZE], pool[PIN_COUNT(requests)][PIN_SHA256_SIZE];
    requests[0].env = env;
    requests[1].env = other_env;
    requests[0].env_count = requests[1].env_count = 1;
    requests[2].labels = labels;
    requests[2].label_count = 1;
    for (size_t i = 0; i < PIN_COUNT(requests); i++) {
        struct pin_bundle *bundle = bundle_of(&requests[i]);
        print(bundle, &shape, PIN_TOOL_SCOPE_SANDBOX, sandbox[i]);
        print(bundle, &shape, PIN_TOOL_SCOPE_POOL, pool[i]);
        assert_memory_not_equal(sandbox[i], pool[i], PIN_SHA256_SIZE);
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(sandbox[i], sandbox[j], PIN_SHA256_SIZE);
            assert_memory_equal(pool[i], pool[j], PIN_SHA256_SIZE);
        }
        pin_bundle_free(bundle);
    }
}

static void a_pool_is_not_shared_across_limits_or_dependencies(void **state) {
    (void)state;
    struct pin_request requests[] = {plain_request(), plain_request(), plain_request()};
    const struct pin_tool_shape shapes[] = {{0}, {0}, {.pip_lock = "sha256:1"}};
    uint8_t pool[PIN_COUNT(requests)][PIN_SHA256_SIZE];
    requests[1].has_memory = true;
    requests[1].memory_bytes = 64 * 1024 * 1024;
    for (size_t i = 0; i < PIN_COUNT(requests); i++) {
        struct pin_bundle *bundle = bundle_of(&requests[i]);
        print(bundle, &shapes[i], PIN_TOOL_SCOPE_POOL, pool[i]);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(pool[i], pool[j], PIN_SHA256_SIZE);
        pin_bundle_free(bundle);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_of_the_shape_counts_and_none_stands_for_another),
        cmocka_unit_test(a_pool_is_shared_by_calls_that_differ_in_what_they_are_given_alone),
        cmocka_unit_test(a_pool_is_not_shared_across_limits_or_dependencies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
