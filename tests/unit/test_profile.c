#include "policy/buffer.h"
#include "policy/grants.h"
#include "policy/policy_write.h"
#include "policy/profile.h"
#include "policy_fixture.h"

static const char *const names[] = {"strict", "tool", "build", "oci"};

static void write_grant(void *context, const char *pointer, const char *value,
                        const struct pin_place *place) {
    char text[PIN_PLACE_TEXT];
    pin_buffer_printf(context, "%s %s %s\n", pointer, value, pin_place_print(text, place));
}

/* All that can be said of a policy: its fields, what it grants, and where each stands. */
static void write_all(const struct pin_policy *policy, struct pin_buffer *to) {
    char text[PIN_PLACE_TEXT];
    pin_buffer_printf(to, "%s: %s\n", policy->name, policy->description);
    for (int i = 0; i < PIN_FIELD_COUNT; i++)
        pin_buffer_printf(to, "%s %s\n", pin_field_pointer((enum pin_field)i),
                          pin_place_print(text, &policy->places[i]));
    for (unsigned i = 0; i < PIN_CAPABILITY_COUNT; i++)
        pin_buffer_printf(to, "%u %s\n", i, pin_place_print(text, &policy->capability_places[i]));
    pin_policy_each_grant(policy, write_grant, to);
    pin_policy_write(policy, to);
}

static void assert_same(const struct pin_policy *one, const struct pin_policy *other) {
    PIN_BUFFER struct pin_buffer first = {0}, second = {0};
    write_all(one, &first);
    write_all(other, &second);
    assert_string_equal(first.data, second.data);
    assert_memory_equal(one->digest, other->digest, sizeof(one->digest));
}

static void each_profile_is_what_its_text_says(void **state) {
    (void)state;
    static struct pin_findings found;
    assert_int_equal(pin_profile_image_count, sizeof(names) / sizeof(names[0]));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct pin_policy *read = pin_policy_load(names[i], &found);
        struct pin_policy *ready = pin_profile_load(names[i]);
        assert_non_null(read);
        assert_non_null(ready);
        assert_same(read, ready);
        assert_null(ready->site);
        pin_policy_free(read);
        pin_policy_free(ready);
    }
}

static void each_call_gives_a_policy_of_its_own(void **state) {
    (void)state;
    struct pin_policy *first = pin_profile_load("tool"), *second = pin_profile_load("tool");
    struct pin_policy *copy = pin_policy_copy(second);
    first->filesystem.write.items[0].text = "/changed";
    first->resources.memory_bytes++;
    pin_policy_free(first);
    assert_same(second, copy);
    pin_policy_free(second);
    assert_string_equal(copy->filesystem.write.items[0].text, "/workspace");
    pin_policy_free(copy);
}

static void nothing_but_a_profile_s_name_is_one(void **state) {
    (void)state;
    static const char *const others[] = {"", "too", "tools", "Tool", "tool.json", "./tool", "built-in:tool"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_null(pin_profile_load(others[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_profile_is_what_its_text_says),
        cmocka_unit_test(each_call_gives_a_policy_of_its_own),
        cmocka_unit_test(nothing_but_a_profile_s_name_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
