/* filter.h: a system call filter as data.
 *
 * The same form for what a policy resolves to, for `linux.seccomp` of an OCI bundle, for the compiler and for
 * the auditor. Rules for one call with the same action are alternatives (any of them matches); the
 * comparisons of one rule must all hold, and no two of them look at the same argument. Where no rule of a
 * call matches, the default counts, with one exception: where the default denies (an errno other than ENOSYS,
 * trap, kill), a number that pin_filter_knows() not answers ENOSYS, so that a program that tries a newer call
 * falls back to an older one; runc does the same. The first match in the order of severity kill > trap >
 * errno > trace > log > allow would be seccomp(2)'s; rules of one call must therefore not overlap with
 * different actions, and pin_filter_check() refuses a filter in which they do. Names are libseccomp's.
 * Source: OCI runtime-spec 1.2 config-linux.md "Seccomp"; seccomp(2).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/findings.h"

enum pin_arch { PIN_ARCH_X86_64, PIN_ARCH_AARCH64, PIN_ARCH_COUNT };

/* The architecture this program was built for. */
enum pin_arch pin_arch_native(void);

enum pin_filter_action {
    PIN_FILTER_ALLOW,
    PIN_FILTER_ERRNO,
    PIN_FILTER_KILL_PROCESS,
    PIN_FILTER_KILL_THREAD,
    PIN_FILTER_TRAP,
    PIN_FILTER_TRACE,
    PIN_FILTER_LOG,
    PIN_FILTER_NOTIFY,
    PIN_FILTER_ACTION_COUNT
};

enum pin_filter_op {
    PIN_FILTER_EQ, /* all 64 bits, as the kernel hands them over: prefer MASKED_EQ with 32 bits for an int */
    PIN_FILTER_MASKED_EQ, /* (argument & mask) == value */
    PIN_FILTER_NE,
    PIN_FILTER_LT,
    PIN_FILTER_LE,
    PIN_FILTER_GE,
    PIN_FILTER_GT,
    PIN_FILTER_OP_COUNT
};

struct pin_filter_arg {
    uint8_t index; /* 0 to 5 */
    enum pin_filter_op op;
    uint64_t mask; /* of MASKED_EQ, else 0 */
    uint64_t value;
};

#define PIN_FILTER_ARGS_MAX 6

struct pin_filter_rule {
    const char *name; /* of the call */
    enum pin_filter_action action;
    uint16_t error; /* of ERRNO and TRACE */
    uint8_t arg_count;
    struct pin_filter_arg args[PIN_FILTER_ARGS_MAX];
};

struct pin_filter {
    bool present; /* false: no filter at all (only an engine's bundle may ask for that) */
    enum pin_filter_action default_action;
    uint16_t default_error;
    bool has_default_error;     /* a bundle gave it */
    bool archs[PIN_ARCH_COUNT]; /* calls of any other architecture kill the process */
    bool compat;    /* i386 and x32 (or 32-bit arm) too: only for bundles that name them and a policy
                       that lets them */
    uint32_t flags; /* SECCOMP_FILTER_FLAG_* */
    const char *listener_path, *listener_metadata; /* of NOTIFY; NULL is none */
    struct pin_filter_rule *rules;
    size_t rule_count;
};

/* Names as OCI has them ("SCMP_ACT_ALLOW", "SCMP_CMP_EQ", "SCMP_ARCH_X86_64"). */
const char *pin_filter_action_name(enum pin_filter_action action);
bool pin_filter_gives_errno(enum pin_filter_action action); /* it carries an errno; 0 is one */
const char *pin_filter_op_name(enum pin_filter_op op);
const char *pin_arch_name(enum pin_arch arch);

/* Findings for rules that contradict each other, repeat the default, compare an argument that doesn't exist
 * or the same one twice, can never match, or give an errno that the kernel would cut. */
void pin_filter_check(const struct pin_filter *filter, struct pin_findings *found);

/* One order for all filters that mean the same: by name, then arguments, without repeated rules. */
void pin_filter_sort(struct pin_filter *filter);

/* Whether unknown numbers answer ENOSYS (see above) rather than the default. */
bool pin_filter_hides_unknown(const struct pin_filter *filter);

struct pin_filter_verdict {
    enum pin_filter_action action;
    uint16_t error;
    const struct pin_filter_rule *rule; /* that gave it; NULL: the default, or an unknown number */
};

/* What the filter says of a call of an architecture that it lists. Pure and total: enforcement is verified
 * against it, and `policy why` and `policy test` answer by it. */
struct pin_filter_verdict pin_filter_judge(const struct pin_filter *filter, enum pin_arch arch,
                                           uint32_t number, const uint64_t args[PIN_FILTER_ARGS_MAX]);

/* Whether all comparisons of the rule hold. */
bool pin_filter_rule_matches(const struct pin_filter_rule *rule, const uint64_t args[PIN_FILTER_ARGS_MAX]);
