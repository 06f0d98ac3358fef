/* Compiled programs against what their filters say; what verification lets through. */
#include "seccomp_make.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <linux/audit.h>
#include <linux/seccomp.h>

#include "policy/syscalls.h"
#include "runtime/build/seccomp/cache.h"
#include "runtime/build/seccomp/prove.h"
#include "runtime/build/seccomp/simulate.h"
#include "runtime/build/seccomp/verify.h"

#define NUMBERS 2001

static uint64_t seed = 1;
static uint64_t dice(void) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return seed >> 11 ^ seed << 23;
}

static uint32_t simulate(const struct pin_program *program, uint32_t audit_arch, uint32_t number,
                         const uint64_t *args) {
    struct seccomp_data data = {.nr = (int)number, .arch = audit_arch};
    memcpy(data.args, args, sizeof(data.args));
    return pin_bpf_run(program->code, &data).value;
}

/* By pin_filter_judge() alone, which shares no code with the verifier but the tables. */
static bool agrees(const struct made *made, enum pin_arch arch, uint32_t number, const uint64_t *args) {
    struct pin_filter_verdict verdict = pin_filter_judge(&made->filter, arch, number, args);
    return simulate(&made->program, pin_program_audit_arch(arch), number, args) ==
           pin_program_return(verdict.action, verdict.error);
}

/* Arguments that match a rule of the filter, with one bit flipped now and then. */
static void aim(const struct pin_filter_rule *rule, uint64_t *args) {
    for (size_t i = 0; i < PIN_FILTER_ARGS_MAX; i++)
        args[i] = dice() % 2 != 0 ? dice() : dice() % 32;
    for (size_t i = 0; i < rule->arg_count; i++) {
        const struct pin_filter_arg *arg = &rule->args[i];
        args[arg->index] = arg->value | (dice() & ~arg->mask);
        if (dice() % 3 == 0)
            args[arg->index] ^= UINT64_C(1) << dice() % 64;
    }
}

static size_t disagreements(const struct made *made, enum pin_arch arch, size_t rounds) {
    static const uint64_t zeros[PIN_FILTER_ARGS_MAX];
    size_t wrong = 0;
    for (uint32_t number = 0; number < NUMBERS && rounds > 0; number++)
        wrong += !agrees(made, arch, number, zeros);
    for (size_t round = 0; round < rounds; round++) {
        const struct pin_filter_rule *rule = &made->filter.rules[round % made->filter.rule_count];
        uint64_t args[PIN_FILTER_ARGS_MAX];
        aim(rule, args);
        wrong += !agrees(made, arch, (uint32_t)pin_syscall_number(arch, rule->name), args);
    }
    return wrong;
}

static void every_profile_says_the_same_as_its_filter_for_all_numbers(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(baselines); i++)
        for (int arch = 0; arch < PIN_ARCH_COUNT; arch++)
            for (int deny = 0; deny < PIN_ON_DENY_COUNT; deny++) {
                struct made made;
                struct pin_error err = {0};
                make_filter(&made, baselines[i], (enum pin_arch)arch, (enum pin_on_deny)deny);
                compile_filter(&made);
                if (!pin_program_verify(&made.program, &made.filter, PIN_VERIFY_PROOF, &err))
                    fail_msg("%s on %s: %s", baselines[i], pin_arch_name((enum pin_arch)arch), err.message);
                assert_int_equal(disagreements(&made, (enum pin_arch)arch, 4000), 0);
                release(&made);
            }
}

static size_t count_reachable(const struct made *made) {
    size_t reachable = 0;
    for (uint32_t number = 0; number < NUMBERS; number++) {
        const struct pin_syscall *call = pin_syscall_at(PIN_ARCH_X86_64, number);
        bool allowed = false;
        for (size_t i = 0; call != NULL && i < made->filter.rule_count && !allowed; i++)
            for (int tries = 0; tries < 16 && !allowed; tries++) {
                const struct pin_filter_rule *rule = &made->filter.rules[i];
                uint64_t args[PIN_FILTER_ARGS_MAX];
                if (strcmp(rule->name, call->name) != 0)
                    break;
                aim(rule, args);
                allowed = simulate(&made->program, AUDIT_ARCH_X86_64, number, args) == SECCOMP_RET_ALLOW;
            }
        reachable += allowed;
    }
    return reachable;
}

static void the_programs_reach_as_few_calls_as_promised(void **state) {
    (void)state;
    static const size_t most[] = {100, 150, 300, 350};
    for (size_t i = 0; i < PIN_COUNT(baselines); i++) {
        struct made made;
        make_filter(&made, baselines[i], PIN_ARCH_X86_64, PIN_ON_DENY_ERRNO);
        compile_filter(&made);
        size_t reachable = count_reachable(&made);
        print_message("%s: %zu calls reachable, %u instructions\n", baselines[i], reachable,
                      (unsigned)made.program.length);
        assert_in_range(reachable, 60, most[i]);
        release(&made);
    }
}

#define HIGH UINT64_C(0xdeadbeef00000000)
#define ERROR(number) (SECCOMP_RET_ERRNO | (number))

static void tool_program_returns_what_each_row_says(void **state) {
    (void)state;
    static const struct {
        uint32_t audit_arch, number;
        uint64_t args[PIN_FILTER_ARGS_MAX];
        uint32_t expected;
    } rows[] = {
        {AUDIT_ARCH_X86_64,  0,              {0},                                              SECCOMP_RET_ALLOW       },
        {AUDIT_ARCH_X86_64,  437,            {UINT64_MAX},                                     ERROR(ENOSYS)           }, /* openat2 */
        {AUDIT_ARCH_X86_64,  435,            {0},                                              ERROR(ENOSYS)           }, /* clone3 */
        {AUDIT_ARCH_X86_64,  452,            {0},                                              ERROR(ENOSYS)           }, /* fchmodat2 */
        {AUDIT_ARCH_X86_64,  425,            {0},                                              ERROR(EPERM)            }, /* io_uring_setup */
        {AUDIT_ARCH_X86_64,  512,            {0},                                              ERROR(ENOSYS)           },
        {AUDIT_ARCH_X86_64,  10000,          {0},                                              ERROR(ENOSYS)           },
        {AUDIT_ARCH_X86_64,  UINT32_MAX,     {0},                                              ERROR(ENOSYS)           },
        {AUDIT_ARCH_X86_64,  0x40000000,     {0},                                              SECCOMP_RET_KILL_PROCESS},
        {AUDIT_ARCH_X86_64,  0x40000000 | 1, {0},                                              SECCOMP_RET_KILL_PROCESS},
        {AUDIT_ARCH_X86_64,  0x40000200,     {0},                                              SECCOMP_RET_KILL_PROCESS},
        {AUDIT_ARCH_X86_64,  0xfffffffe,     {0},                                              SECCOMP_RET_KILL_PROCESS},
        {AUDIT_ARCH_I386,    1,              {0},                                              SECCOMP_RET_KILL_PROCESS},
        {AUDIT_ARCH_I386,    102,            {0},                                              SECCOMP_RET_KILL_PROCESS}, /* socketcall */
        {AUDIT_ARCH_AARCH64, 63,             {0},                                              SECCOMP_RET_KILL_PROCESS},
        {0,                  0,              {0},                                              SECCOMP_RET_KILL_PROCESS},
        {AUDIT_ARCH_X86_64,  41,             {HIGH | AF_INET, HIGH | SOCK_STREAM, HIGH},       SECCOMP_RET_ALLOW       },
        {AUDIT_ARCH_X86_64,  41,             {(UINT64_C(1) << 32) + AF_VSOCK, SOCK_STREAM, 0}, ERROR(EPERM)            },
        {AUDIT_ARCH_X86_64,  16,             {0, (UINT64_C(1) << 32) | TIOCSTI},               ERROR(EPERM)            },
        {AUDIT_ARCH_X86_64,  16,             {0, HIGH | TCGETS},                               SECCOMP_RET_ALLOW       },
        {AUDIT_ARCH_X86_64,  56,             {HIGH | 0x10000000},                              ERROR(EPERM)            }, /* clone, CLONE_NEWUSER */
        {AUDIT_ARCH_X86_64,  56,             {HIGH | 0x01200011},                              SECCOMP_RET_ALLOW       },
        {AUDIT_ARCH_X86_64,  90,             {0, 04755},                                       ERROR(EPERM)            }, /* chmod */
    };
    struct made made;
    make_filter(&made, "tool", PIN_ARCH_X86_64, PIN_ON_DENY_ERRNO);
    compile_filter(&made);
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        assert_int_equal(simulate(&made.program, rows[i].audit_arch, rows[i].number, rows[i].args),
                         rows[i].expected);
    release(&made);
}

/* --- tampering --- */

static bool proved(const struct made *made) {
    struct pin_error err = {0};
    return pin_program_verify(&made->program, &made->filter, PIN_VERIFY_PROOF, &err);
}

static void no_flipped_byte_changes_what_a_proved_program_says(void **state) {
    (void)state;
    struct made made;
    make_filter(&made, "tool", PIN_ARCH_X86_64, PIN_ON_DENY_ERRNO);
    compile_filter(&made);
    uint8_t *bytes = (uint8_t *)made.program.code;
    size_t refused = 0, harmless = 0;
    for (size_t i = 0; i < made.program.length * sizeof(struct sock_filter); i++) {
        uint8_t flip = (uint8_t)(1U << i % 8);
        bytes[i] ^= flip;
        if (!proved(&made)) {
            refused++;
        } else { /* a jump field of a return, say */
            harmless++;
            assert_int_equal(disagreements(&made, PIN_ARCH_X86_64, 500), 0);
        }
        bytes[i] ^= flip;
    }
    print_message("%zu flips refused, %zu without effect\n", refused, harmless);
    assert_true(refused > harmless);
    assert_true(proved(&made));
    release(&made);
}

static void a_program_of_another_filter_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(baselines); i++)
        for (size_t j = 0; j < PIN_COUNT(baselines); j++) {
            struct made one, other;
            make_filter(&one, baselines[i], PIN_ARCH_X86_64, PIN_ON_DENY_ERRNO);
            make_filter(&other, baselines[j], PIN_ARCH_X86_64, PIN_ON_DENY_ERRNO);
            compile_filter(&other);
            struct made mixed = {.filter = one.filter, .program = other.program};
            assert_int_equal(proved(&mixed), i == j);
            release(&one);
            release(&other);
        }
}

static void programs_that_allow_one_thing_too_much_are_refused(void **state) {
    (void)state;
    struct made made;
    make_filter(&made, "tool", PIN_ARCH_X86_64, PIN_ON_DENY_ERRNO);
    compile_filter(&made);
    size_t length = made.program.length;
    struct sock_filter *longer = calloc(length + 4, sizeof(*longer));
    assert_non_null(longer);
    static const struct {
        uint32_t offset, is;
    } doors[] = {
        {offsetof(struct seccomp_data, nr),                  77777     }, /* no call at all */
        {offsetof(struct seccomp_data, nr),                  165       }, /* mount */
        {offsetof(struct seccomp_data, nr),                  0x40000039},
        {offsetof(struct seccomp_data, arch),                0x12345678},
        {offsetof(struct seccomp_data, args[5]) + 4,         0xbadc0de },
        {offsetof(struct seccomp_data, instruction_pointer), 0xbadc0de },
    };
    for (size_t i = 0; i < PIN_COUNT(doors); i++) {
        const struct sock_filter door[] = {
            {BPF_LD | BPF_W | BPF_ABS,  0, 0, doors[i].offset  },
            {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, doors[i].is      },
            {BPF_RET | BPF_K,           0, 0, SECCOMP_RET_ALLOW},
        };
        memcpy(longer, door, sizeof(door));
        memcpy(longer + PIN_COUNT(door), made.program.code, length * sizeof(*longer));
        struct made opened = {
            .filter = made.filter,
            .program = {.code = longer, .length = (uint16_t)(length + PIN_COUNT(door))}
        };
        assert_true(pin_bpf_check(longer, opened.program.length));
        assert_false(proved(&opened));
    }
    struct sock_filter all = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
    struct made open = {
        .filter = made.filter, .program = {.code = &all, .length = 1}
    };
    assert_false(proved(&open));
    free(longer);
    release(&made);
}

/* --- filters as engines bring them --- */

static struct pin_filter_rule rule(const char *name, enum pin_filter_action action, uint16_t error) {
    return (struct pin_filter_rule){.name = name, .action = action, .error = error};
}

static struct pin_filter_rule where(struct pin_filter_rule rule, uint8_t index, enum pin_filter_op op,
                                    uint64_t value) {
    rule.args[rule.arg_count++] = (struct pin_filter_arg){.index = index, .op = op, .value = value};
    return rule;
}

static struct pin_filter filter_of(enum pin_filter_action action, uint16_t error,
                                   struct pin_filter_rule *rules, size_t count) {
    return (struct pin_filter){.present = true,
                               .default_action = action,
                               .default_error = error,
                               .rules = rules,
                               .rule_count = count};
}

static void assert_makes(const struct pin_filter *filter, bool provable) {
    struct made made = {.filter = *filter};
    struct pin_error err = {0};
    if (!pin_program_get(filter, -1, &made.program, &err))
        fail_msg("%s", err.message);
    assert_int_equal(proved(&made), provable);
    assert_int_equal(disagreements(&made, PIN_ARCH_X86_64, 3000), 0);
    release(&made);
}

static void allowlists_of_engines_compile_and_are_proved(void **state) {
    (void)state;
    struct pin_filter_rule rules[6];
    rules[0] = rule("read", PIN_FILTER_ALLOW, 0);
    rules[1] = rule("mseal", PIN_FILTER_ALLOW, 0); /* younger than libseccomp 2.5 */
    rules[2] = where(rule("personality", PIN_FILTER_ALLOW, 0), 0, PIN_FILTER_EQ, 8);
    rules[3] = where(rule("socket", PIN_FILTER_ERRNO, EINVAL), 0, PIN_FILTER_EQ, 16);
    rules[3] = where(rules[3], 2, PIN_FILTER_EQ, 9);
    rules[4] = where(rule("socket", PIN_FILTER_ALLOW, 0), 2, PIN_FILTER_NE, 9);
    rules[5] = rule("_llseek", PIN_FILTER_ALLOW, 0); /* no call of ours */
    struct pin_filter filter = filter_of(PIN_FILTER_ERRNO, ENOSYS, rules, PIN_COUNT(rules));
    assert_makes(&filter, true);
    filter.default_action = PIN_FILTER_KILL_THREAD;
    assert_makes(&filter, true);
    filter.default_action = PIN_FILTER_TRAP;
    assert_makes(&filter, true);
}

static void denylists_of_engines_compile_and_are_proved(void **state) {
    (void)state;
    struct pin_filter_rule rules[4];
    rules[0] = rule("ptrace", PIN_FILTER_ERRNO, EPERM);
    rules[1] = rule("mount", PIN_FILTER_KILL_PROCESS, 0);
    rules[2] = rule("bpf", PIN_FILTER_TRAP, 0);
    rules[3] = where(rule("kill", PIN_FILTER_LOG, 0), 1, PIN_FILTER_EQ, 9);
    struct pin_filter filter = filter_of(PIN_FILTER_ALLOW, 0, rules, PIN_COUNT(rules));
    assert_makes(&filter, true);
}

static void comparisons_by_order_are_tried_and_never_taken_from_a_cache(void **state) {
    (void)state;
    struct pin_filter_rule rules[2];
    rules[0] = where(rule("kill", PIN_FILTER_ALLOW, 0), 1, PIN_FILTER_LT, UINT64_C(1) << 33);
    rules[1] = where(rule("read", PIN_FILTER_ALLOW, 0), 2, PIN_FILTER_GE, 12);
    struct pin_filter filter = filter_of(PIN_FILTER_ERRNO, EPERM, rules, PIN_COUNT(rules));
    assert_makes(&filter, false);
}

static bool get_fails(const struct pin_filter *filter, const char *message) {
    struct pin_program program = {0};
    struct pin_error err = {0};
    if (pin_program_get(filter, -1, &program, &err)) {
        pin_program_free(&program);
        return false;
    }
    assert_null(program.code);
    return strstr(err.message, message) != NULL;
}

static void unknown_names_fail_by_name_unless_they_only_deny(void **state) {
    (void)state;
    struct pin_filter_rule unknown = rule("frobnicate", PIN_FILTER_ALLOW, 0);
    struct pin_filter filter = filter_of(PIN_FILTER_ERRNO, EPERM, &unknown, 1);
    assert_true(get_fails(&filter, "'frobnicate'"));
    unknown.action = PIN_FILTER_KILL_PROCESS;
    assert_false(get_fails(&filter, "")); /* the answer to unknown numbers covers it */
    filter.default_action = PIN_FILTER_ALLOW;
    assert_true(get_fails(&filter, "'frobnicate'")); /* nothing covers it */
}

static void contradicting_rules_are_refused_before_they_compile(void **state) {
    (void)state;
    struct pin_filter_rule rules[2];
    rules[0] = rule("kill", PIN_FILTER_ALLOW, 0);
    rules[1] = where(rule("kill", PIN_FILTER_KILL_PROCESS, 0), 1, PIN_FILTER_EQ, 9);
    struct pin_filter filter = filter_of(PIN_FILTER_ERRNO, EPERM, rules, PIN_COUNT(rules));
    assert_true(get_fails(&filter, "say different things"));
}

/* It took minutes, and more with each rule, before it turned out to be too long. */
static void a_filter_of_more_rules_than_instructions_is_refused_before_it_compiles(void **state) {
    (void)state;
    static struct pin_filter_rule rules[PIN_PROGRAM_RULES_MAX + 1];
    for (size_t i = 0; i < PIN_COUNT(rules); i++)
        rules[i] = where(rule("kill", PIN_FILTER_ERRNO, EPERM), 1, PIN_FILTER_EQ, i);
    struct pin_filter filter = filter_of(PIN_FILTER_ALLOW, 0, rules, PIN_COUNT(rules));
    assert_true(get_fails(&filter, "4097 rules"));
    filter.rule_count = PIN_PROVE_RULES + 1;
    assert_true(get_fails(&filter, "(kill) has more than"));
    filter.rule_count = PIN_PROVE_RULES;
    assert_false(get_fails(&filter, ""));
}

static void compat_filters_let_i386_live(void **state) {
    (void)state;
    static const uint64_t zeros[PIN_FILTER_ARGS_MAX];
    struct pin_filter_rule allowed = rule("exit", PIN_FILTER_ALLOW, 0);
    struct pin_filter filter = filter_of(PIN_FILTER_ERRNO, EPERM, &allowed, 1);
    struct pin_program program = {0};
    struct pin_error err = {0};
    filter.compat = true;
    assert_true(pin_program_get(&filter, -1, &program, &err));
    assert_int_equal(simulate(&program, AUDIT_ARCH_I386, 1, zeros), SECCOMP_RET_ALLOW);
    assert_int_equal(simulate(&program, AUDIT_ARCH_I386, 2, zeros), ERROR(EPERM));
    assert_int_equal(simulate(&program, AUDIT_ARCH_AARCH64, 93, zeros), SECCOMP_RET_KILL_PROCESS);
    pin_program_free(&program);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_profile_says_the_same_as_its_filter_for_all_numbers),
        cmocka_unit_test(the_programs_reach_as_few_calls_as_promised),
        cmocka_unit_test(tool_program_returns_what_each_row_says),
        cmocka_unit_test(no_flipped_byte_changes_what_a_proved_program_says),
        cmocka_unit_test(a_program_of_another_filter_is_refused),
        cmocka_unit_test(programs_that_allow_one_thing_too_much_are_refused),
        cmocka_unit_test(allowlists_of_engines_compile_and_are_proved),
        cmocka_unit_test(denylists_of_engines_compile_and_are_proved),
        cmocka_unit_test(comparisons_by_order_are_tried_and_never_taken_from_a_cache),
        cmocka_unit_test(unknown_names_fail_by_name_unless_they_only_deny),
        cmocka_unit_test(contradicting_rules_are_refused_before_they_compile),
        cmocka_unit_test(a_filter_of_more_rules_than_instructions_is_refused_before_it_compiles),
        cmocka_unit_test(compat_filters_let_i386_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
