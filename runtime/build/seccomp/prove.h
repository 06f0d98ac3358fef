/* prove.h: that a program says of one call what its rules say, whatever the arguments.
 *
 * Sound: a yes holds for all 2^384 arguments. Not complete: a filter that compares by order, or rules that
 * only together cover a path, can't be proved; pin_program_verify() then tries values.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "policy/filter.h"
#include "runtime/build/seccomp/explore.h"

#define PIN_PROVE_RULES 1024

/* What is to be shown of one number: the rules of the call, and what counts where none matches. */
struct pin_claim {
    uint32_t audit_arch, number;
    const struct pin_filter_rule *rules[PIN_PROVE_RULES];
    uint32_t returns[PIN_PROVE_RULES]; /* of each rule: SECCOMP_RET_* and its data */
    size_t rule_count;
    uint32_t otherwise;
};

/* `path` is scratch space, zeroed; it is zeroed again afterwards. The claim isn't changed. */
bool pin_prove_call(const struct sock_filter *code, struct pin_claim *claim, struct pin_bpf_path *path);

/* That the program kills the process for every architecture but the listed ones, whatever the call. */
bool pin_prove_foreign_archs_die(const struct sock_filter *code, const uint32_t *audit_archs, size_t count,
                                 struct pin_bpf_path *path);
