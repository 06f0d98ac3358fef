/* The simulator of classic BPF, and the explorer of all paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/names.h"
#include "runtime/build/seccomp/explore.h"

#define LD(word)                                                                                             \
    { BPF_LD | BPF_W | BPF_ABS, 0, 0, (word)*4 }
#define RET(k)                                                                                               \
    { BPF_RET | BPF_K, 0, 0, k }
#define RET_A                                                                                                \
    { BPF_RET | BPF_A, 0, 0, 0 }
#define OP(code, k)                                                                                          \
    { code, 0, 0, k }
#define IF(code, k, jt, jf)                                                                                  \
    { BPF_JMP | (code), jt, jf, k }

struct program {
    const char *what;
    struct sock_filter code[8];
    size_t length;
    uint32_t expected;
};

static const struct seccomp_data input = {
    .nr = 7, .arch = 5, .instruction_pointer = UINT64_C(0x1122334455667788), .args = {3, UINT64_C(9) << 32}
};

static void each_instruction_computes_what_the_kernel_does(void **state) {
    (void)state;
    static const struct program rows[] = {
        {"nr",                                  {LD(0), RET_A},                                                                    2, 7         },
        {"arch",                                {LD(1), RET_A},                                                                    2, 5         },
        {"low half of the instruction pointer", {LD(2), RET_A},                                                                    2, 0x55667788},
        {"high half of argument 1",             {LD(7), RET_A},                                                                    2, 9         },
        {"length",                              {OP(BPF_LD | BPF_W | BPF_LEN, 0), RET_A},                                          2, 64        },
        {"add",                                 {LD(0), OP(BPF_ALU | BPF_ADD | BPF_K, UINT32_MAX), RET_A},                         3, 6         },
        {"sub",                                 {LD(0), OP(BPF_ALU | BPF_SUB | BPF_K, 8), RET_A},                                  3, UINT32_MAX},
        {"mul",                                 {LD(0), OP(BPF_ALU | BPF_MUL | BPF_K, 6), RET_A},                                  3, 42        },
        {"div",                                 {LD(0), OP(BPF_ALU | BPF_DIV | BPF_K, 2), RET_A},                                  3, 3         },
        {"and",                                 {LD(0), OP(BPF_ALU | BPF_AND | BPF_K, 5), RET_A},                                  3, 5         },
        {"or",                                  {LD(0), OP(BPF_ALU | BPF_OR | BPF_K, 8), RET_A},                                   3, 15        },
        {"xor",                                 {LD(0), OP(BPF_ALU | BPF_XOR | BPF_K, 2), RET_A},                                  3, 5         },
        {"lsh",                                 {LD(0), OP(BPF_ALU | BPF_LSH | BPF_K, 31), RET_A},                                 3, 0x80000000},
        {"rsh",                                 {LD(0), OP(BPF_ALU | BPF_RSH | BPF_K, 1), RET_A},                                  3, 3         },
        {"neg",                                 {LD(0), OP(BPF_ALU | BPF_NEG, 0), RET_A},                                          3, 0xfffffff9},
        {"x and back",
         {LD(0), OP(BPF_MISC | BPF_TAX, 0), OP(BPF_LD | BPF_IMM, 1), OP(BPF_ALU | BPF_ADD | BPF_X, 0), RET_A},
         5,                                                                                                                           8         },
        {"division by x of zero kills",
         {LD(0), OP(BPF_LDX | BPF_IMM, 0), OP(BPF_ALU | BPF_DIV | BPF_X, 0), RET(9)},
         4,                                                                                                                           0         },
        {"memory",                              {LD(0), OP(BPF_ST, 15), OP(BPF_LD | BPF_IMM, 1), OP(BPF_LD | BPF_MEM, 15), RET_A}, 5, 7         },
        {"x through memory",
         {OP(BPF_LDX | BPF_IMM, 4), OP(BPF_STX, 0), OP(BPF_LDX | BPF_MEM, 0), OP(BPF_MISC | BPF_TXA, 0),
          RET_A},
         5,                                                                                                                           4         },
        {"jeq taken",                           {LD(0), IF(BPF_JEQ, 7, 0, 1), RET(1), RET(2)},                                     4, 1         },
        {"jeq not taken",                       {LD(0), IF(BPF_JEQ, 8, 0, 1), RET(1), RET(2)},                                     4, 2         },
        {"jgt is strict",                       {LD(0), IF(BPF_JGT, 7, 0, 1), RET(1), RET(2)},                                     4, 2         },
        {"jge is not",                          {LD(0), IF(BPF_JGE, 7, 0, 1), RET(1), RET(2)},                                     4, 1         },
        {"jset",                                {LD(0), IF(BPF_JSET, 4, 0, 1), RET(1), RET(2)},                                    4, 1         },
        {"jeq with x",                          {LD(0), OP(BPF_LDX | BPF_IMM, 7), IF(BPF_JEQ | BPF_X, 0, 0, 1), RET(1), RET(2)},   5, 1         },
        {"ja",                                  {OP(BPF_JMP | BPF_JA, 1), RET(1), RET(2)},                                         3, 2         },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        if (!pin_bpf_check(rows[i].code, rows[i].length))
            fail_msg("'%s' is refused", rows[i].what);
        uint32_t value = pin_bpf_run(rows[i].code, &input).value;
        if (value != rows[i].expected)
            fail_msg("'%s' gives %#x", rows[i].what, value);
    }
}

static void malformed_programs_are_refused(void **state) {
    (void)state;
    static const struct program rows[] = {
        {"empty",                             {RET(0)},                                           0, 0},
        {"no return at the end",              {LD(0)},                                            1, 0},
        {"a jump past the end",               {LD(0), IF(BPF_JEQ, 0, 1, 0), RET(0)},              3, 0},
        {"the other way past the end",        {LD(0), IF(BPF_JEQ, 0, 0, 255), RET(0)},            3, 0},
        {"ja past the end",                   {OP(BPF_JMP | BPF_JA, 1), RET(0)},                  2, 0},
        {"ja far past the end",               {OP(BPF_JMP | BPF_JA, UINT32_MAX), RET(0)},         2, 0},
        {"load past the data",                {OP(BPF_LD | BPF_W | BPF_ABS, 64), RET(0)},         2, 0},
        {"load that is not aligned",          {OP(BPF_LD | BPF_W | BPF_ABS, 2), RET(0)},          2, 0},
        {"load of half a word",               {OP(BPF_LD | BPF_H | BPF_ABS, 0), RET(0)},          2, 0},
        {"load of packet bytes",              {OP(BPF_LD | BPF_W | BPF_IND, 0), RET(0)},          2, 0},
        {"division by zero",                  {LD(0), OP(BPF_ALU | BPF_DIV | BPF_K, 0), RET(0)},  3, 0},
        {"modulo",                            {LD(0), OP(BPF_ALU | BPF_MOD | BPF_K, 3), RET(0)},  3, 0},
        {"shift by 32",                       {LD(0), OP(BPF_ALU | BPF_LSH | BPF_K, 32), RET(0)}, 3, 0},
        {"memory that doesn't exist",         {LD(0), OP(BPF_ST, 16), RET(0)},                    3, 0},
        {"memory that wasn't written",        {OP(BPF_LD | BPF_MEM, 0), RET_A},                   2, 0},
        {"memory that one way doesn't write",
         {LD(0), IF(BPF_JEQ, 1, 1, 0), OP(BPF_ST, 3), OP(BPF_LD | BPF_MEM, 3), RET_A},
         5,                                                                                          0},
        {"return of x",                       {OP(BPF_RET | BPF_X, 0)},                           1, 0},
        {"no instruction",                    {OP(0xffff, 0), RET(0)},                            2, 0},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (pin_bpf_check(rows[i].code, rows[i].length))
            fail_msg("'%s' is let through", rows[i].what);
    static struct sock_filter longest[BPF_MAXINSNS + 1];
    for (size_t i = 0; i < PIN_COUNT(longest); i++)
        longest[i] = (struct sock_filter)RET(0);
    assert_true(pin_bpf_check(longest, BPF_MAXINSNS));
    assert_false(pin_bpf_check(longest, BPF_MAXINSNS + 1));
}

static void a_run_tells_what_it_looked_at(void **state) {
    (void)state;
    static const struct sock_filter code[] = {LD(0), IF(BPF_JEQ, 7, 0, 1), LD(4), RET(1)};
    struct seccomp_data other = {.nr = 8};
    assert_int_equal(pin_bpf_run(code, &input).seen, 1U << 0 | 1U << 4);
    assert_int_equal(pin_bpf_run(code, &other).seen, 1U << 0);
}

struct leaves {
    size_t count;
    uint32_t returned[16];
};

static bool collect(void *self, uint32_t returned, const struct pin_bpf_path *path) {
    struct leaves *leaves = self;
    (void)path;
    leaves->returned[leaves->count++ % PIN_COUNT(leaves->returned)] = returned;
    return true;
}

static void exploring_takes_every_way_that_is_open_and_no_other(void **state) {
    (void)state;
    static const struct sock_filter code[] = {
        LD(4),  IF(BPF_JEQ, 1, 0, 1), RET(1), IF(BPF_JEQ, 2, 0, 1),
        RET(2), IF(BPF_JEQ, 1, 0, 1), RET(3), RET(4),
    };
    struct pin_bpf_path path = {.fact_count = 0};
    struct leaves leaves = {0};
    assert_true(pin_bpf_explore(code, &path, collect, &leaves));
    assert_int_equal(leaves.count, 3); /* the second "is it 1" is settled */
    assert_int_equal(leaves.returned[0], 1);
    assert_int_equal(leaves.returned[1], 2);
    assert_int_equal(leaves.returned[2], 4);
    assert_int_equal(path.fact_count, 0);
    assert_int_equal(path.known[4], 0);
    leaves = (struct leaves){0};
    pin_bpf_path_know(&path, 4, 2);
    assert_true(pin_bpf_explore(code, &path, collect, &leaves));
    assert_int_equal(leaves.count, 1);
    assert_int_equal(leaves.returned[0], 2);
}

static void masks_and_single_bits_are_understood(void **state) {
    (void)state;
    static const struct sock_filter code[] = {
        LD(4),  OP(BPF_ALU | BPF_AND | BPF_K, 6), IF(BPF_JEQ, 6, 0, 1), RET(1), IF(BPF_JSET, 2, 0, 1), RET(2),
        RET(3),
    };
    static const struct {
        uint32_t word, expected;
    } rows[] = {
        {0xfffffffe, 1},
        {2,          2},
        {4,          3},
        {0,          3},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_bpf_path path = {.fact_count = 0};
        struct leaves leaves = {0};
        pin_bpf_path_know(&path, 4, rows[i].word);
        assert_true(pin_bpf_explore(code, &path, collect, &leaves));
        assert_int_equal(leaves.count, 1);
        assert_int_equal(leaves.returned[0], rows[i].expected);
    }
    struct pin_bpf_path any = {.fact_count = 0};
    struct leaves leaves = {0};
    assert_true(pin_bpf_explore(code, &any, collect, &leaves));
    assert_int_equal(leaves.count, 3);
}

static void what_cannot_be_explored_is_said_to_be_so(void **state) {
    (void)state;
    static const struct sock_filter by_x[] = {LD(4), OP(BPF_MISC | BPF_TAX, 0), RET(1)};
    static const struct sock_filter by_a[] = {LD(4), RET_A};
    static struct sock_filter deep[BPF_MAXINSNS]; /* 2^1000 ways */
    for (size_t i = 0; i + 2 < PIN_COUNT(deep); i += 2) {
        deep[i] = (struct sock_filter)LD(4 + (uint32_t)i / 2 % 12);
        deep[i + 1] = (struct sock_filter)IF(BPF_JGT, (uint32_t)i, 0, 0);
    }
    deep[BPF_MAXINSNS - 2] = deep[BPF_MAXINSNS - 1] = (struct sock_filter)RET(0);
    assert_true(pin_bpf_check(deep, BPF_MAXINSNS));
    struct pin_bpf_path path = {.fact_count = 0};
    struct leaves leaves = {0};
    assert_false(pin_bpf_explore(by_x, &path, collect, &leaves));
    assert_false(pin_bpf_explore(by_a, &path, collect, &leaves));
    assert_false(pin_bpf_explore(deep, &path, collect, &leaves));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_instruction_computes_what_the_kernel_does),
        cmocka_unit_test(malformed_programs_are_refused),
        cmocka_unit_test(a_run_tells_what_it_looked_at),
        cmocka_unit_test(exploring_takes_every_way_that_is_open_and_no_other),
        cmocka_unit_test(masks_and_single_bits_are_understood),
        cmocka_unit_test(what_cannot_be_explored_is_said_to_be_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
