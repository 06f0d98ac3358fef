/* simulate.h: classic BPF as seccomp(2) runs it, in user space.
 *
 * pin_bpf_check() accepts exactly the programs whose every run ends and reads nothing out of bounds, by the
 * kernel's own rules (kernel/seccomp.c seccomp_check_filter(), net/core/filter.c bpf_check_classic()); it
 * takes any bytes. pin_bpf_run() then takes at most as many steps as the program has instructions, since
 * classic BPF only jumps forward. No allocation.
 */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pin_bpf_outcome {
    uint32_t value; /* SECCOMP_RET_* and its data */
    uint32_t seen;  /* bit n: the program looked at the n-th 32-bit word of struct seccomp_data */
};

#define PIN_BPF_WORDS (sizeof(struct seccomp_data) / sizeof(uint32_t))
#define PIN_BPF_WORD_NR 0
#define PIN_BPF_WORD_ARCH 1
#define PIN_BPF_WORD_ARGS 4 /* the low half of argument 0 (little endian), then its high half */

bool pin_bpf_check(const struct sock_filter *code, size_t length);

/* Runs a program that has been checked. */
struct pin_bpf_outcome pin_bpf_run(const struct sock_filter *code, const struct seccomp_data *data);
