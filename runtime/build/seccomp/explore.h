/* explore.h: every path through a program at once, for inputs that are only partly known.
 *
 * Where pin_bpf_run() follows one input, this follows all: at a comparison of an unknown word it takes both
 * ways and remembers what each of them means. It understands the instructions that libseccomp emits (load a
 * word, and with a constant, compare with a constant, jump, return a constant); a program with others can't
 * be explored. Bounded by PIN_EXPLORE_STEPS; no allocation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/build/seccomp/simulate.h"

#define PIN_EXPLORE_FACTS 512
#define PIN_EXPLORE_STEPS 65536

/* "(word & mask) is not value": what a path knows beside the known bits. Comparisons by order leave no fact.
 */
struct pin_bpf_fact {
    uint32_t word, mask, value;
};

struct pin_bpf_path {
    uint32_t known[PIN_BPF_WORDS],
        value[PIN_BPF_WORDS]; /* which bits of each word are known, and what they are */
    struct pin_bpf_fact facts[PIN_EXPLORE_FACTS];
    size_t fact_count;
};

/* What a path says of (word & mask) == value. */
bool pin_bpf_path_implies(const struct pin_bpf_path *path, uint32_t word, uint32_t mask, uint32_t value);
bool pin_bpf_path_refutes(const struct pin_bpf_path *path, uint32_t word, uint32_t mask, uint32_t value);

/* Adds to what is known before the program starts. */
void pin_bpf_path_know(struct pin_bpf_path *path, uint32_t word, uint32_t value);
bool pin_bpf_path_exclude(struct pin_bpf_path *path, uint32_t word, uint32_t mask, uint32_t value);

/* Called at the end of each path with what the program returns there; false ends the exploration. */
typedef bool pin_bpf_leaf(void *self, uint32_t returned, const struct pin_bpf_path *path);

/* Explores a checked program from what `path` knows; `path` is as before when it returns. False if a leaf
 * said so, or if the program can't be explored. */
bool pin_bpf_explore(const struct sock_filter *code, struct pin_bpf_path *path, pin_bpf_leaf *leaf,
                     void *self);
