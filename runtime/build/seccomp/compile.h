/* compile.h: from a filter as data to the program that the kernel runs.
 *
 * libseccomp makes the program; what it can't express stands in front of it (prologue.h), and then it is
 * shortened (shorten.h). A compiled program
 * is not trusted before pin_program_verify() has said yes; pin_program_get() in cache.h does both.
 */
#pragma once

#include <linux/filter.h>

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"
#include "policy/filter.h"

#define PIN_PROGRAM_MAX BPF_MAXINSNS
#define PIN_PROGRAM_RULES_MAX PIN_PROGRAM_MAX /* each needs an instruction at least */

struct pin_program {
    struct sock_filter *code;             /* from malloc; the owner of the program frees it */
    uint16_t length;                      /* instructions */
    uint32_t flags;                       /* SECCOMP_FILTER_FLAG_*, of the filter */
    uint8_t spec_digest[PIN_SHA256_SIZE]; /* which filter it is: spec.h */
};

/* Compiles. A call that is allowed but unknown to libseccomp and to our tables is an error that names it; one
 * that is only denied is covered by the answer to unknown numbers. */
bool pin_program_compile(const struct pin_filter *filter, struct pin_program *program, struct pin_error *err);

/* Whether libseccomp or our tables have the call, for any architecture. */
bool pin_program_knows(const char *name);

/* Frees the code; NULL and a zeroed program are fine. */
void pin_program_free(struct pin_program *program);

/* The one architecture that a program for this filter judges: the native one where the filter lists it or
 * lists none; else the first that it lists (such a program is simulated, not run). */
enum pin_arch pin_program_arch(const struct pin_filter *filter);

/* AUDIT_ARCH_*, as the kernel hands it to the program. */
uint32_t pin_program_audit_arch(enum pin_arch arch);

/* The action in the kernel's form: SECCOMP_RET_* and its data. */
uint32_t pin_program_return(enum pin_filter_action action, uint16_t error);
