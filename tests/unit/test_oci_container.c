#include "tests/unit/test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/oci/container.h"
#include "runtime/oci/settle.h"
#include "runtime/state/tree.h"

static char root_path[] = "/tmp/pin-oci-XXXXXX";

static int make_root(void **state) {
    struct pin_error err = {0};
    static int root;
    assert_non_null(mkdtemp(root_path));
    root = pin_containers_open(root_path, &err);
    *state = &root;
    return root >= 0 ? 0 : -1;
}

static int remove_root(void **state) {
    struct pin_error err = {0};
    int parent = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)close(*(int *)*state);
    bool ok = pin_tree_remove(parent, root_path + strlen("/tmp/"), &err);
    (void)close(parent);
    return ok ? 0 : -1;
}

static void an_id_that_leads_out_of_the_root_is_refused(void **state) {
    static const char *const ids[] = {"", ".", "..", "a/b", "../x", "a b", "a\nb"};
    for (size_t i = 0; i < PIN_COUNT(ids); i++) {
        struct pin_container container;
        struct pin_error err = {0};
        assert_false(pin_container_make(*(int *)*state, ids[i], &container, &err));
        assert_int_equal(err.kind, PIN_ERROR_INVALID);
        pin_container_close(&container);
    }
}

static void a_state_that_was_written_is_read_again(void **state) {
    struct pin_container made, again, third;
    struct pin_error err = {0};
    assert_true(pin_container_make(*(int *)*state, "one", &made, &err));
    made.bundle = "/b";
    made.cgroup = "a/one";
    assert_true(pin_container_set_process(&made, getpid(), &err));
    assert_true(pin_container_write(&made, &err));
    assert_false(pin_container_make(*(int *)*state, "one", &third, &err));
    assert_int_equal(err.kind, PIN_ERROR_EXISTS);
    pin_error_clear(&err);
    assert_true(pin_container_open(*(int *)*state, "one", true, &again, &err));
    assert_string_equal(again.bundle, "/b");
    assert_string_equal(again.cgroup, "a/one");
    assert_int_equal(again.pid, getpid());
    assert_int_equal(again.start_time, made.start_time);
    pin_container_close(&again);
    pin_container_close(&made);
    pin_container_close(&third);
}

static void a_number_that_is_used_again_is_not_the_container_s_process(void **state) {
    struct pin_container container;
    struct pin_error err = {0};
    struct pin_cgroup_facts none = {.unified = -1};
    assert_true(pin_container_make(*(int *)*state, "two", &container, &err));
    assert_true(pin_container_set_process(&container, getpid(), &err));
    int pidfd = pin_container_process(&container);
    assert_true(pidfd >= 0);
    (void)close(pidfd);
    container.start_time++;
    assert_int_equal(pin_container_process(&container), -1);
    assert_int_equal(pin_container_status(&container, &none), PIN_STATUS_STOPPED);
    container.start_time--;
    container.boot = "another";
    assert_int_equal(pin_container_process(&container), -1);
    pin_container_close(&container);
}

static void what_is_not_there_does_not_exist(void **state) {
    struct pin_container container;
    struct pin_error err = {0};
    assert_false(pin_container_open(*(int *)*state, "nobody", true, &container, &err));
    assert_int_equal(err.kind, PIN_ERROR_NOT_FOUND);
    assert_non_null(strstr(err.message, "does not exist"));
    pin_container_close(&container);
}

/* Enters and leaves a container that comes and goes; a lock that was had is of one that is there. */
static int be_a_visitor(int root, int end) {
    struct pollfd ended = {.fd = end, .events = POLLIN};
    while (poll(&ended, 1, 0) == 0) {
        struct pin_container container;
        struct pin_error err = {0};
        struct stat st;
        bool open = pin_container_open(root, "busy", true, &container, &err);
        bool there = fstatat(root, "busy", &st, 0) == 0;
        pin_container_close(&container);
        if (open ? !there : err.kind != PIN_ERROR_NOT_FOUND)
            return 1;
    }
    return 0;
}

static void whoever_has_the_lock_has_a_container_that_is_there(void **state) {
    const char *asked = getenv("PINFOLD_RACE_ROUNDS");
    unsigned rounds = asked != NULL ? (unsigned)strtoul(asked, NULL, 10) : 500;
    int root = *(int *)*state, ends[2];
    pid_t visitors[3];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    for (size_t i = 0; i < PIN_COUNT(visitors); i++)
        if ((visitors[i] = fork()) == 0) {
            (void)close(ends[1]);
            _exit(be_a_visitor(root, ends[0]));
        }
    for (unsigned i = 0; i < rounds; i++) {
        struct pin_container made, removed;
        struct pin_error err = {0};
        if (!pin_container_make(root, "busy", &made, &err))
            fail_msg("%s", err.message);
        if (!pin_container_open(root, "busy", true, &removed, &err) ||
            !pin_container_remove(root, &removed, &err))
            fail_msg("%s", err.message);
        pin_container_close(&removed);
        pin_container_close(&made);
    }
    (void)close(ends[1]);
    for (size_t i = 0; i < PIN_COUNT(visitors); i++) {
        int status;
        assert_int_equal(waitpid(visitors[i], &status, 0), visitors[i]);
        assert_int_equal(status, 0);
    }
    (void)close(ends[0]);
    struct stat st;
    assert_int_equal(fstatat(root, "busy", &st, 0), -1);
}

static void who_waited_for_the_lock_while_it_went_is_told(void **state) {
    int root = *(int *)*state;
    struct pin_container made, late;
    struct pin_error err = {0};
    assert_true(pin_container_make(root, "gone", &made, &err));
    assert_true(pin_container_open(root, "gone", false, &late, &err));
    assert_true(pin_container_remove(root, &made, &err));
    pin_container_close(&made);
    assert_false(pin_container_lock(root, &late, &err));
    assert_int_equal(err.kind, PIN_ERROR_NOT_FOUND);
    pin_error_clear(&err);
    assert_true(pin_container_make(root, "gone", &made, &err)); /* another of the same name */
    assert_false(pin_container_lock(root, &late, &err));
    assert_int_equal(err.kind, PIN_ERROR_NOT_FOUND);
    assert_true(pin_container_remove(root, &late, &err)); /* its own: the other stays */
    struct stat st;
    assert_int_equal(fstatat(root, "gone/creator", &st, 0), 0);
    pin_container_close(&late);
    pin_container_close(&made);
}

static void of_two_rules_for_a_whole_call_the_stricter_counts(void **state) {
    struct pin_filter_rule rules[] = {
        {.name = "setns", .action = PIN_FILTER_ALLOW, .error = 0,  .arg_count = 0},
        {.name = "setns", .action = PIN_FILTER_ERRNO, .error = 1,  .arg_count = 0},
        {.name = "read",  .action = PIN_FILTER_ALLOW, .error = 0,  .arg_count = 0},
        {.name = "read",  .action = PIN_FILTER_ALLOW, .error = 0,  .arg_count = 0},
        {.name = "read",  .action = PIN_FILTER_ALLOW, .error = 0,  .arg_count = 1},
        {.name = "bpf",   .action = PIN_FILTER_ERRNO, .error = 38, .arg_count = 0},
    };
    char left_out[PIN_OCI_LEFT_OUT];
    struct pin_filter filter = {.present = true,
                                .default_action = PIN_FILTER_ERRNO,
                                .default_error = 38,
                                .rules = rules,
                                .rule_count = PIN_COUNT(rules)};
    (void)state;
    pin_oci_settle_filter(&filter, left_out);
    assert_string_equal(left_out, "");
    assert_int_equal(filter.rule_count, 2);
    assert_string_equal(filter.rules[0].name, "setns");
    assert_int_equal(filter.rules[0].action, PIN_FILTER_ERRNO);
    assert_string_equal(filter.rules[1].name, "read");
}

static void a_rule_that_repeats_the_default_still_beats_a_laxer_one(void **state) {
    struct pin_filter_rule rules[] = {
        {.name = "bpf", .action = PIN_FILTER_ALLOW, .error = 0 },
        {.name = "bpf", .action = PIN_FILTER_ERRNO, .error = 38},
    };
    char left_out[PIN_OCI_LEFT_OUT];
    struct pin_filter filter = {.present = true,
                                .default_action = PIN_FILTER_ERRNO,
                                .default_error = 38,
                                .rules = rules,
                                .rule_count = 2};
    (void)state;
    pin_oci_settle_filter(&filter, left_out);
    assert_string_equal(left_out, "");
    assert_int_equal(filter.rule_count, 0);
}

static void a_rule_for_an_unknown_call_is_left_out_where_the_default_is_as_strict(void **state) {
    static const struct {
        enum pin_filter_action default_action, action;
        size_t kept;
    } rows[] = {
        {PIN_FILTER_ERRNO, PIN_FILTER_ALLOW,        0},
        {PIN_FILTER_ALLOW, PIN_FILTER_ERRNO,        1},
        {PIN_FILTER_ERRNO, PIN_FILTER_KILL_PROCESS, 1},
        {PIN_FILTER_TRAP,  PIN_FILTER_ERRNO,        0},
    };
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        char left_out[PIN_OCI_LEFT_OUT];
        struct pin_filter_rule rules[] = {
            {.name = "of_a_kernel_to_come", .action = rows[i].action}
        };
        struct pin_filter filter = {
            .present = true, .default_action = rows[i].default_action, .rules = rules, .rule_count = 1};
        pin_oci_settle_filter(&filter, left_out);
        assert_int_equal(filter.rule_count, rows[i].kept);
        assert_string_equal(left_out, rows[i].kept > 0 ? "" : "of_a_kernel_to_come");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_that_leads_out_of_the_root_is_refused),
        cmocka_unit_test(a_state_that_was_written_is_read_again),
        cmocka_unit_test(a_number_that_is_used_again_is_not_the_container_s_process),
        cmocka_unit_test(what_is_not_there_does_not_exist),
        cmocka_unit_test(whoever_has_the_lock_has_a_container_that_is_there),
        cmocka_unit_test(who_waited_for_the_lock_while_it_went_is_told),
        cmocka_unit_test(of_two_rules_for_a_whole_call_the_stricter_counts),
        cmocka_unit_test(a_rule_that_repeats_the_default_still_beats_a_laxer_one),
        cmocka_unit_test(a_rule_for_an_unknown_call_is_left_out_where_the_default_is_as_strict),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
