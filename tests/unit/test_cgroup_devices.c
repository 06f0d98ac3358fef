/* The program for v2 and the list for v1 against a plain reading of the rules, over every request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/names.h"
#include "runtime/build/cgroup/device_filter.h"
#include "runtime/build/cgroup/device_list.h"

enum { READ = BPF_DEVCG_ACC_READ, WRITE = BPF_DEVCG_ACC_WRITE, MKNOD = BPF_DEVCG_ACC_MKNOD };

struct request {
    char type;
    uint32_t major, minor;
    unsigned access;
};

static bool rule_matches(const struct pin_bundle_device_rule *rule, const struct request *request) {
    return (rule->type == 'a' || rule->type == request->type) &&
           (rule->major < 0 || (uint64_t)rule->major == request->major) &&
           (rule->minor < 0 || (uint64_t)rule->minor == request->minor);
}

/* The last rule that names an access decides it. */
static bool plain_reading(const struct pin_bundle_device_rule *rules, size_t count,
                          const struct request *request) {
    for (unsigned bit = 1; bit <= 4; bit <<= 1) {
        bool allowed = false;
        for (size_t i = 0; i < count; i++)
            if (rule_matches(&rules[i], request) &&
                (rules[i].access == NULL || (pin_device_access(rules[i].access) & bit) != 0))
                allowed = rules[i].allow;
        if ((request->access & bit) != 0 && !allowed)
            return false;
    }
    return true;
}

/* As much of the machine as the program uses; anything else fails the test, and so does a jump backwards. */
static bool interpret(const struct pin_device_program *program, const struct request *request) {
    const uint32_t context[] = {
        request->access << 16 | (request->type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR),
        request->major,
        request->minor,
    };
    uint64_t r[11] = {0};
    for (size_t at = 0; at < program->count; at++) {
        const struct bpf_insn *one = &program->code[at];
        uint64_t *to = &r[one->dst_reg];
        uint32_t with = BPF_SRC(one->code) == BPF_X ? (uint32_t)r[one->src_reg] : (uint32_t)one->imm;
        bool jump = false;
        assert_true(one->off >= 0);
        switch (one->code) {
        case BPF_LDX | BPF_MEM | BPF_W: *to = context[one->off / 4]; continue;
        case BPF_ALU | BPF_MOV | BPF_X: *to = with; continue;
        case BPF_ALU | BPF_AND | BPF_K: *to = (uint32_t)*to & with; continue;
        case BPF_ALU | BPF_RSH | BPF_K: *to = (uint32_t)*to >> with; continue;
        case BPF_ALU64 | BPF_MOV | BPF_K: *to = (uint64_t)one->imm; continue;
        case BPF_JMP | BPF_EXIT: return r[0] != 0;
        case BPF_JMP | BPF_JNE | BPF_K: jump = *to != (uint64_t)(int64_t)one->imm; break;
        case BPF_JMP | BPF_JEQ | BPF_K: jump = *to == (uint64_t)(int64_t)one->imm; break;
        default: fail_msg("instruction %#x", one->code);
        }
        at += jump ? (size_t)one->off : 0;
    }
    fail_msg("the program has no end");
    return false;
}

static bool list_allows(const struct pin_device_list *list, const struct request *request) {
    for (size_t i = 0; i < list->count; i++) {
        const struct pin_device_exception *one = &list->items[i];
        if (one->type == request->type && (one->major < 0 || (uint64_t)one->major == request->major) &&
            (one->minor < 0 || (uint64_t)one->minor == request->minor) &&
            (request->access & ~one->access) == 0)
            return true;
    }
    return false;
}

static void check_all_requests(const struct pin_bundle_device_rule *rules, size_t count) {
    static struct pin_device_program program;
    static struct pin_device_list list;
    struct pin_error err = {0}, other = {0};
    assert_true(pin_device_filter_build(rules, count, &program, &err));
    bool listed = pin_device_list_build(rules, count, &list, &other);
    for (unsigned n = 0; n < 2 * 3 * 3 * 7; n++) {
        struct request request = {n % 2 ? 'b' : 'c', n / 2 % 3, n / 6 % 3, n / 18 + 1};
        bool expected = plain_reading(rules, count, &request);
        assert_int_equal(interpret(&program, &request), expected);
        bool single = (request.access & (request.access - 1)) == 0;
        if (listed && single)
            assert_int_equal(list_allows(&list, &request), expected);
        if (listed && !expected)
            assert_false(list_allows(&list, &request));
    }
}

static void no_rule_allows_nothing(void **state) {
    (void)state;
    check_all_requests(NULL, 0);
}

static void engines_rules_mean_what_they_say(void **state) {
    (void)state;
    static const struct pin_bundle_device_rule rules[] = {
        {false, 'a', -1, -1, "rwm"},
        {true,  'c', -1, -1, "m"  },
        {true,  'b', -1, -1, "m"  },
        {true,  'c', 1,  2,  "rwm"},
        {true,  'c', 2,  0,  "rw" },
    };
    check_all_requests(rules, PIN_COUNT(rules));
}

static void a_later_denial_takes_back_what_was_allowed(void **state) {
    (void)state;
    static const struct pin_bundle_device_rule rules[] = {
        {true,  'c', 1, 1,  "rwm"},
        {true,  'b', 1, -1, "rw" },
        {false, 'a', 1, -1, "w"  },
    };
    check_all_requests(rules, PIN_COUNT(rules));
}

/* Whatever the rules are: a fixed seed, so that a failure is the same everywhere. */
static void any_rules_mean_what_they_say(void **state) {
    (void)state;
    static const char types[] = {'a', 'b', 'c'};
    static const char *const accesses[] = {"r", "w", "m", "rw", "rm", "wm", "rwm", NULL};
    uint32_t seed = 1;
    for (int round = 0; round < 3000; round++) {
        struct pin_bundle_device_rule rules[6];
        for (size_t i = 0; i < PIN_COUNT(rules); i++) {
            seed = seed * 1664525 + 1013904223;
            uint32_t bits = seed >> 8;
            rules[i] =
                (struct pin_bundle_device_rule){(bits & 1) != 0, types[bits / 2 % 3], (int)(bits / 8 % 4) - 1,
                                                (int)(bits / 32 % 4) - 1, accesses[bits / 128 % 8]};
        }
        check_all_requests(rules, (size_t)(round % 6) + 1);
    }
}

static void a_hole_in_a_range_is_refused_for_v1(void **state) {
    (void)state;
    static const struct pin_bundle_device_rule rules[] = {
        {true,  'c', 1, -1, "rw"},
        {false, 'c', 1, 5,  "w" }
    };
    struct pin_device_list list;
    struct pin_error err = {0};
    assert_false(pin_device_list_build(rules, PIN_COUNT(rules), &list, &err));
    assert_int_equal(err.kind, PIN_ERROR_UNSUPPORTED);
    assert_string_equal(err.pointer, "/linux/resources/devices/1");
}

static void lines_are_written_as_the_kernel_reads_them(void **state) {
    (void)state;
    char line[PIN_DEVICE_LINE];
    struct pin_device_exception any = {'c', -1, -1, MKNOD}, one = {'b', 8, 16, READ | WRITE | MKNOD};
    assert_string_equal(pin_device_list_line(&any, line), "c *:* m");
    assert_string_equal(pin_device_list_line(&one, line), "b 8:16 rwm");
}

static void rules_without_sense_are_refused(void **state) {
    (void)state;
    static const struct pin_bundle_device_rule rules[] = {
        {true, 'p', 1,  1,                "rwm"},
        {true, 'c', -2, 1,                "rwm"},
        {true, 'c', 1,  INT64_C(1) << 32, "rwm"},
        {true, 'c', 1,  1,                "rwx"},
        {true, 'c', 1,  1,                ""   },
    };
    for (size_t i = 0; i < PIN_COUNT(rules); i++) {
        static struct pin_device_program program;
        struct pin_error err = {0};
        assert_false(pin_device_filter_build(&rules[i], 1, &program, &err));
        assert_int_equal(err.kind, PIN_ERROR_INVALID);
    }
}

static void as_many_rules_as_are_promised_fit(void **state) {
    (void)state;
    static struct pin_bundle_device_rule rules[PIN_DEVICE_RULES_MAX + 1];
    static struct pin_device_program program;
    struct pin_error err = {0};
    for (size_t i = 0; i < PIN_COUNT(rules); i++)
        rules[i] = (struct pin_bundle_device_rule){i % 2 == 0, 'c', (int64_t)i, 1, "rw"};
    assert_true(pin_device_filter_build(rules, PIN_DEVICE_RULES_MAX, &program, &err));
    assert_true(program.count <= PIN_DEVICE_PROGRAM_MAX);
    assert_false(pin_device_filter_build(rules, PIN_DEVICE_RULES_MAX + 1, &program, &err));
    assert_int_equal(err.kind, PIN_ERROR_EXHAUSTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rule_allows_nothing),
        cmocka_unit_test(engines_rules_mean_what_they_say),
        cmocka_unit_test(a_later_denial_takes_back_what_was_allowed),
        cmocka_unit_test(any_rules_mean_what_they_say),
        cmocka_unit_test(a_hole_in_a_range_is_refused_for_v1),
        cmocka_unit_test(lines_are_written_as_the_kernel_reads_them),
        cmocka_unit_test(rules_without_sense_are_refused),
        cmocka_unit_test(as_many_rules_as_are_promised_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
