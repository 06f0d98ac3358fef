/* seccomp_make.h: filters of the built-in baselines, for the tests of programs. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/names.h"
#include "policy/policy_read.h"
#include "runtime/build/seccomp/compile.h"

static const char *const baselines[] = {"strict", "tool", "build", "oci"};

struct made {
    struct pin_arena arena;
    struct pin_filter filter;
    struct pin_program program;
};

static inline void make_filter(struct made *made, const char *baseline, enum pin_arch arch,
                               enum pin_on_deny on_deny) {
    struct pin_policy policy = {
        .syscalls = {.baseline = baseline, .on_deny = on_deny}
    };
    struct pin_findings found = {0};
    *made = (struct made){.arena = {NULL}};
    assert_true(pin_policy_filter(&policy, arch, &made->arena, &made->filter, &found));
}

static inline void compile_filter(struct made *made) {
    struct pin_error err = {0};
    if (!pin_program_compile(&made->filter, &made->program, &err))
        fail_msg("%s", err.message);
}

static inline void release(struct made *made) {
    pin_program_free(&made->program);
    pin_arena_free(&made->arena);
}
