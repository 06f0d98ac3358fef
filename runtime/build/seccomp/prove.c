#include "runtime/build/seccomp/prove.h"

struct halves {
    uint32_t word, mask[2], value[2]; /* low, high */
};

/* EQ and MASKED_EQ, and NE as the opposite of EQ, in terms of words. False for comparisons by order. */
static bool split(const struct pin_filter_arg *arg, struct halves *out) {
    uint64_t mask = arg->op == PIN_FILTER_MASKED_EQ ? arg->mask : UINT64_MAX;
    *out = (struct halves){
        .word = PIN_BPF_WORD_ARGS + 2U * arg->index,
        .mask = {(uint32_t)mask,       (uint32_t)(mask >> 32)      },
        .value = {(uint32_t)arg->value, (uint32_t)(arg->value >> 32)}
    };
    return arg->op == PIN_FILTER_EQ || arg->op == PIN_FILTER_MASKED_EQ || arg->op == PIN_FILTER_NE;
}

static bool both_implied(const struct pin_bpf_path *path, const struct halves *h) {
    return pin_bpf_path_implies(path, h->word, h->mask[0], h->value[0]) &&
           pin_bpf_path_implies(path, h->word + 1, h->mask[1], h->value[1]);
}

static bool either_refuted(const struct pin_bpf_path *path, const struct halves *h) {
    return pin_bpf_path_refutes(path, h->word, h->mask[0], h->value[0]) ||
           pin_bpf_path_refutes(path, h->word + 1, h->mask[1], h->value[1]);
}

static bool arg_holds(const struct pin_bpf_path *path, const struct pin_filter_arg *arg) {
    struct halves h;
    return split(arg, &h) && (arg->op == PIN_FILTER_NE ? either_refuted(path, &h) : both_implied(path, &h));
}

static bool arg_fails(const struct pin_bpf_path *path, const struct pin_filter_arg *arg) {
    struct halves h;
    return split(arg, &h) && (arg->op == PIN_FILTER_NE ? both_implied(path, &h) : either_refuted(path, &h));
}

static bool rule_holds(const struct pin_bpf_path *path, const struct pin_filter_rule *rule) {
    for (size_t i = 0; i < rule->arg_count; i++)
        if (!arg_holds(path, &rule->args[i]))
            return false;
    return true;
}

static bool rule_fails(const struct pin_bpf_path *path, const struct pin_filter_rule *rule) {
    for (size_t i = 0; i < rule->arg_count; i++)
        if (arg_fails(path, &rule->args[i]))
            return true;
    return false;
}

/* At the end of a path: some rule that holds says what is returned, or none can hold and the default does;
 * and no rule that could hold says anything else. */
static bool leaf_is_right(void *self, uint32_t returned, const struct pin_bpf_path *path) {
    const struct pin_claim *claim = self;
    bool said = false;
    for (size_t i = 0; i < claim->rule_count; i++) {
        const struct pin_filter_rule *rule = claim->rules[i];
        if (claim->returns[i] != returned) {
            if (!rule_fails(path, rule))
                return false;
        } else if (!said) {
            said = rule_holds(path, rule);
        }
    }
    return said || returned == claim->otherwise;
}

bool pin_prove_call(const struct sock_filter *code, struct pin_claim *claim, struct pin_bpf_path *path) {
    pin_bpf_path_know(path, PIN_BPF_WORD_NR, claim->number);
    pin_bpf_path_know(path, PIN_BPF_WORD_ARCH, claim->audit_arch);
    bool proved = pin_bpf_explore(code, path, leaf_is_right, claim);
    path->known[PIN_BPF_WORD_NR] = path->value[PIN_BPF_WORD_NR] = 0;
    path->known[PIN_BPF_WORD_ARCH] = path->value[PIN_BPF_WORD_ARCH] = 0;
    return proved;
}

static bool leaf_kills(void *self, uint32_t returned, const struct pin_bpf_path *path) {
    (void)self;
    (void)path;
    return returned == SECCOMP_RET_KILL_PROCESS;
}

bool pin_prove_foreign_archs_die(const struct sock_filter *code, const uint32_t *audit_archs, size_t count,
                                 struct pin_bpf_path *path) {
    for (size_t i = 0; i < count; i++)
        if (!pin_bpf_path_exclude(path, PIN_BPF_WORD_ARCH, UINT32_MAX, audit_archs[i]))
            return false;
    bool proved = pin_bpf_explore(code, path, leaf_kills, NULL);
    path->fact_count = 0;
    return proved;
}
