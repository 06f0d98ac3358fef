/* Programs before and after they are shortened. */
#include "runtime/build/seccomp/shorten.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <linux/audit.h>
#include <linux/seccomp.h>

#include "runtime/build/seccomp/simulate.h"

#define ARCH AUDIT_ARCH_X86_64
#define NUMBERS 700
#define LENGTH_MAX 2048

static uint64_t seed = 1;
static uint32_t dice(uint32_t sides) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % sides;
}

struct text {
    struct sock_filter code[LENGTH_MAX];
    size_t count;
};

static void put(struct text *text, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k) {
    text->code[text->count++] = (struct sock_filter){code, jt, jf, k};
}

static void put_start(struct text *text) {
    text->count = 0;
    put(text, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
    put(text, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCH);
    put(text, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
    put(text, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
}

static void put_return(struct text *text, uint32_t value) {
    put(text, BPF_RET | BPF_K, 0, 0, value);
}

static struct pin_program program_of(const struct text *text) {
    struct sock_filter *code = calloc(text->count, sizeof(*code));
    assert_non_null(code);
    memcpy(code, text->code, text->count * sizeof(*code));
    assert_true(pin_bpf_check(code, text->count));
    return (struct pin_program){.code = code, .length = (uint16_t)text->count};
}

static uint32_t run(const struct sock_filter *code, uint32_t arch, uint32_t number, uint64_t first,
                    uint64_t third) {
    struct seccomp_data data = {
        .nr = (int)number, .arch = arch, .args = {first, 0, third}
    };
    return pin_bpf_run(code, &data).value;
}

static void assert_same_verdicts(const struct text *text, const struct pin_program *program) {
    static const uint32_t far[] = {NUMBERS,    1000,       0x3fffffff, 0x40000000,
                                   0x40000001, 0x7fffffff, 0xfffffffe, UINT32_MAX};
    assert_true(pin_bpf_check(program->code, program->length));
    for (size_t i = 0; i < NUMBERS + sizeof(far) / sizeof(far[0]); i++)
        for (int round = 0; round < 6; round++) {
            uint32_t number = i < NUMBERS ? (uint32_t)i : far[i - NUMBERS];
            uint64_t first = (uint64_t)dice(2) << 32 | dice(8), third = dice(4);
            assert_int_equal(run(text->code, ARCH, number, first, third),
                             run(program->code, ARCH, number, first, third));
        }
    assert_int_equal(run(program->code, AUDIT_ARCH_I386, 1, 0, 0), SECCOMP_RET_KILL_PROCESS);
}

static void a_row_of_comparisons_becomes_a_search_by_halves(void **state) {
    (void)state;
    static struct text text;
    put_start(&text);
    for (uint32_t i = 0; i < 100; i++) { /* 0 to 49, and each second one from 200 on */
        put(&text, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, i < 50 ? i : 100 + 2 * i);
        put_return(&text, SECCOMP_RET_ALLOW);
    }
    put_return(&text, SECCOMP_RET_ERRNO | 1);
    struct pin_program program = program_of(&text);
    pin_program_shorten(&program, ARCH);
    assert_same_verdicts(&text, &program);
    assert_in_range(program.length, 10, 80);
    pin_program_free(&program);
}

/* One call: by its number alone, or by one or two of its arguments. */
static void put_call(struct text *text, uint32_t number) {
    uint32_t verdict = dice(3) == 0 ? SECCOMP_RET_ERRNO | dice(3) : SECCOMP_RET_ALLOW;
    if (dice(8) != 0) {
        put(text, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number);
        put_return(text, verdict);
        return;
    }
    put(text, BPF_JMP | BPF_JEQ | BPF_K, 0, 10, number);
    put(text, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args) + 4);
    put(text, BPF_ALU | BPF_AND | BPF_K, 0, 0, dice(2));
    put(text, BPF_JMP | BPF_JEQ | BPF_K, dice(8) == 0, 5, dice(2)); /* 1: what was loaded is masked again */
    put(text, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args));
    put(text, BPF_ALU | BPF_AND | BPF_K, 0, 0, 1 + dice(7));
    put(text, BPF_JMP | BPF_JGE | BPF_K, 2, 0, dice(6));
    put(text, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args) + 16);
    put(text, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, dice(4));
    put_return(text, SECCOMP_RET_ERRNO | 1);
    put_return(text, verdict);
}

static void whatever_becomes_shorter_says_the_same(void **state) {
    (void)state;
    static struct text text;
    size_t shorter = 0;
    for (int round = 0; round < 60; round++) {
        put_start(&text);
        uint32_t step = 1 + dice(6);
        for (uint32_t number = dice(20); number < 560 && text.count < LENGTH_MAX - 32;
             number += 1 + dice(step))
            put_call(&text, number);
        put_return(&text, dice(2) != 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | 38);
        struct pin_program program = program_of(&text);
        pin_program_shorten(&program, ARCH);
        assert_same_verdicts(&text, &program);
        assert_true(program.length <= text.count);
        shorter += program.length < text.count;
        pin_program_free(&program);
    }
    assert_true(shorter > 20);
}

/* As libseccomp looks at the bits of an argument. */
static void put_bits(struct text *text, uint64_t mask, uint64_t bits) {
    for (int half = 1; half >= 0; half--) {
        put(text, BPF_LD | BPF_W | BPF_ABS, 0, 0,
            (uint32_t)(offsetof(struct seccomp_data, args) + 4u * (unsigned)half));
        put(text, BPF_ALU | BPF_AND | BPF_K, 0, 0, (uint32_t)(mask >> 32 * half));
        put(text, BPF_JMP | BPF_JEQ | BPF_K, 0, half != 0 ? 4 : 1, (uint32_t)(bits >> 32 * half));
    }
    put_return(text, SECCOMP_RET_ALLOW);
    put_return(text, SECCOMP_RET_ERRNO | 1);
}

static size_t count_masks(const struct pin_program *program) {
    size_t count = 0;
    for (size_t i = 0; i < program->length; i++)
        count += program->code[i].code == (BPF_ALU | BPF_AND | BPF_K);
    return count;
}

static void a_half_without_bits_is_not_looked_at(void **state) {
    (void)state;
    static const struct {
        uint64_t mask, bits;
        size_t masks;
    } rows[] = {
        {0x7,         0x3,         1},
        {0x100000000, 0x100000000, 1},
        {0x100000007, 0x3,         2},
        {0,           0,           0}, /* whatever it is */
        {0x7,         0x100000003, 2}, /* never: stays as it is */
    };
    static struct text text;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put_start(&text);
        for (uint32_t number = 0; number < 60; number += 2) {
            put(&text, BPF_JMP | BPF_JEQ | BPF_K, 0, number == 20 ? 8 : 1, number);
            if (number == 20)
                put_bits(&text, rows[i].mask, rows[i].bits);
            else
                put_return(&text, SECCOMP_RET_ALLOW);
        }
        put_return(&text, SECCOMP_RET_ERRNO | 1);
        struct pin_program program = program_of(&text);
        pin_program_shorten(&program, ARCH);
        assert_same_verdicts(&text, &program);
        assert_int_equal(count_masks(&program), rows[i].masks);
        pin_program_free(&program);
    }
}

static void what_is_not_understood_stays_as_it_is(void **state) {
    (void)state;
    static const struct sock_filter odd[] = {
        {BPF_MISC | BPF_TAX,         0, 0, 0},
        {BPF_ALU | BPF_AND | BPF_K,  0, 0, 7},
        {BPF_ST,                     0, 0, 0},
        {BPF_JMP | BPF_JSET | BPF_K, 0, 0, 1},
    };
    static struct text text;
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        put_start(&text);
        put(&text, odd[i].code, odd[i].jt, odd[i].jf, odd[i].k);
        for (uint32_t number = 0; number < 40; number++)
            put(&text, BPF_JMP | BPF_JEQ | BPF_K, (uint8_t)(40 - number), 0, number);
        put_return(&text, SECCOMP_RET_KILL_PROCESS);
        put_return(&text, SECCOMP_RET_ALLOW);
        struct pin_program program = program_of(&text);
        pin_program_shorten(&program, ARCH);
        assert_int_equal(program.length, text.count);
        assert_memory_equal(program.code, text.code, text.count * sizeof(text.code[0]));
        pin_program_free(&program);
    }
}

static void one_verdict_for_all_stays_as_it_is(void **state) {
    (void)state;
    static struct text text;
    put_start(&text);
    put_return(&text, SECCOMP_RET_ALLOW);
    struct pin_program program = program_of(&text);
    pin_program_shorten(&program, ARCH);
    assert_int_equal(program.length, text.count);
    pin_program_free(&program);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_of_comparisons_becomes_a_search_by_halves),
        cmocka_unit_test(whatever_becomes_shorter_says_the_same),
        cmocka_unit_test(a_half_without_bits_is_not_looked_at),
        cmocka_unit_test(what_is_not_understood_stays_as_it_is),
        cmocka_unit_test(one_verdict_for_all_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
