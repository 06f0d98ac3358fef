#include "tests/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "runtime/bundle/bundle_read.h"
#include "runtime/plan/plan.h"

static const struct pin_host host = {
    .uid = 0, .privileged = true, .landlock_abi = 7, .raises_limits = true, .time_namespaces = true};

/* The plan of a process that joins a container and has these members; NULL with findings. */
static struct pin_plan *plan_process(const char *members, struct pin_bundle **bundle,
                                     struct pin_findings *found) {
    static const struct pin_engine_request request = {.joins_container = true};
    char text[1024];
    (void)snprintf(text, sizeof(text),
                   "{\"ociVersion\":\"1.2.0\",\"process\":{\"user\":{\"uid\":0,\"gid\":0},\"cwd\":\"/\","
                   "\"args\":[\"true\"],%s},\"root\":{\"path\":\"rootfs\"}}",
                   members);
    *bundle = pin_bundle_parse("config.json", text, strlen(text), found);
    assert_non_null(*bundle);
    return pin_plan_make_for_engine(*bundle, &host, &request, found);
}

static void a_known_class_and_policy_are_planned(void **state) {
    (void)state;
    struct pin_findings found = {0};
    struct pin_bundle *bundle;
    struct pin_plan *plan = plan_process("\"ioPriority\":{\"class\":\"IOPRIO_CLASS_IDLE\",\"priority\":4},"
                                         "\"scheduler\":{\"policy\":\"SCHED_BATCH\"}",
                                         &bundle, &found);
    assert_non_null(plan);
    assert_true(plan->engine.has_io_priority);
    assert_int_equal(plan->engine.io_priority, 3 << 13 | 4); /* ioprio_set(2): the class above the level */
    assert_true(plan->engine.has_scheduler);
    assert_int_equal(plan->engine.scheduler_policy, 3); /* sched(7): SCHED_BATCH */
    pin_plan_free(plan);
    pin_bundle_free(bundle);
}

static void an_unknown_class_or_policy_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *members, *pointer;
    } rows[] = {
        {"\"ioPriority\":{\"class\":\"IOPRIO_CLASS_X\",\"priority\":4}", "/process/ioPriority/class"},
        {"\"scheduler\":{\"policy\":\"SCHED_X\"}",                       "/process/scheduler/policy"},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_findings found = {0};
        struct pin_bundle *bundle;
        assert_null(plan_process(rows[i].members, &bundle, &found));
        assert_int_equal(found.count, 1);
        assert_string_equal(found.list[0].pointer, rows[i].pointer);
        pin_bundle_free(bundle);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_class_and_policy_are_planned),
        cmocka_unit_test(an_unknown_class_or_policy_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
