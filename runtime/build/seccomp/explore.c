#include "runtime/build/seccomp/explore.h"

#define CONSTANT UINT32_MAX /* as a word: the accumulator is `value`, whatever the input */

struct explorer {
    struct pin_bpf_path *path;
    pin_bpf_leaf *leaf;
    void *self;
    size_t steps;
};

/* The accumulator: (word & mask), or a constant. */
struct operand {
    uint32_t word, mask, value;
};

bool pin_bpf_path_implies(const struct pin_bpf_path *path, uint32_t word, uint32_t mask, uint32_t value) {
    return (path->known[word] & mask) == mask && ((path->value[word] ^ value) & mask) == 0 &&
           (value & ~mask) == 0;
}

bool pin_bpf_path_refutes(const struct pin_bpf_path *path, uint32_t word, uint32_t mask, uint32_t value) {
    if ((value & ~mask) != 0 || ((path->value[word] ^ value) & path->known[word] & mask) != 0)
        return true;
    for (size_t i = 0; i < path->fact_count; i++) {
        const struct pin_bpf_fact *fact = &path->facts[i];
        if (fact->word == word && (fact->mask & ~mask) == 0 && (value & fact->mask) == fact->value)
            return true;
    }
    return false;
}

static void learn_bits(struct pin_bpf_path *path, uint32_t word, uint32_t mask, uint32_t value) {
    path->known[word] |= mask;
    path->value[word] = (path->value[word] & ~mask) | (value & mask);
}

void pin_bpf_path_know(struct pin_bpf_path *path, uint32_t word, uint32_t value) {
    learn_bits(path, word, UINT32_MAX, value);
}

bool pin_bpf_path_exclude(struct pin_bpf_path *path, uint32_t word, uint32_t mask, uint32_t value) {
    if (path->fact_count == PIN_EXPLORE_FACTS)
        return false;
    path->facts[path->fact_count++] = (struct pin_bpf_fact){word, mask, value};
    return true;
}

static struct operand simplify(const struct pin_bpf_path *path, struct operand a) {
    if (a.word == CONSTANT || (path->known[a.word] & a.mask) != a.mask)
        return a;
    return (struct operand){.word = CONSTANT, .value = path->value[a.word] & a.mask};
}

static bool walk(struct explorer *self, const struct sock_filter *op, struct operand a);

/* Goes on at `op` knowing that (a & mask) is, or isn't, `value`; forgets it again afterwards. */
static bool walk_knowing(struct explorer *self, const struct sock_filter *op, struct operand a, uint32_t mask,
                         uint32_t value, bool is) {
    struct pin_bpf_path *path = self->path;
    uint32_t known = path->known[a.word], before = path->value[a.word];
    size_t facts = path->fact_count;
    bool one_bit = (mask & (mask - 1)) == 0;
    bool room = true;
    if (is)
        learn_bits(path, a.word, mask, value);
    else if (one_bit)
        learn_bits(path, a.word, mask, ~value);
    else
        room = pin_bpf_path_exclude(path, a.word, mask, value);
    bool good = room && walk(self, op, a);
    path->known[a.word] = known;
    path->value[a.word] = before;
    path->fact_count = facts;
    return good;
}

/* Both ways of (a & mask) == value, as far as the path leaves them open. */
static bool fork_equal(struct explorer *self, struct operand a, uint32_t mask, uint32_t value,
                       const struct sock_filter *equal, const struct sock_filter *other) {
    if (pin_bpf_path_implies(self->path, a.word, mask, value))
        return walk(self, equal, a);
    if (pin_bpf_path_refutes(self->path, a.word, mask, value))
        return walk(self, other, a);
    return walk_knowing(self, equal, a, mask, value, true) &&
           walk_knowing(self, other, a, mask, value, false);
}

static bool compare_constants(uint16_t op, uint32_t a, uint32_t b) {
    return op == BPF_JEQ ? a == b : op == BPF_JGE ? a >= b : op == BPF_JGT ? a > b : (a & b) != 0;
}

static bool walk_if(struct explorer *self, const struct sock_filter *op, struct operand a) {
    const struct sock_filter *yes = op + 1 + op->jt, *no = op + 1 + op->jf;
    if (a.word == CONSTANT)
        return walk(self, compare_constants(BPF_OP(op->code), a.value, op->k) ? yes : no, a);
    switch (BPF_OP(op->code)) {
    case BPF_JEQ: return fork_equal(self, a, a.mask, op->k, yes, no);
    case BPF_JSET:
        if ((a.mask & op->k) == 0)
            return walk(self, no, a);
        return fork_equal(self, a, a.mask & op->k, 0, no, yes);
    default: return walk(self, yes, a) && walk(self, no, a); /* by order: nothing is learnt */
    }
}

/* One instruction that goes on to the next; false: not one of ours. */
static bool step(const struct pin_bpf_path *path, const struct sock_filter *op, struct operand *a) {
    switch (op->code) {
    case BPF_LD | BPF_W | BPF_ABS:
        *a = (struct operand){.word = op->k / (uint32_t)sizeof(uint32_t), .mask = UINT32_MAX};
        break;
    case BPF_ALU | BPF_AND | BPF_K:
        a->mask &= op->k;
        a->value &= op->k;
        break;
    case BPF_LD | BPF_IMM: *a = (struct operand){.word = CONSTANT, .value = op->k}; break;
    default: return false;
    }
    *a = simplify(path, *a);
    return true;
}

static bool walk(struct explorer *self, const struct sock_filter *op, struct operand a) {
    a = simplify(self->path, a);
    for (;; op++) {
        if (self->steps++ == PIN_EXPLORE_STEPS)
            return false;
        if (op->code == (BPF_RET | BPF_K))
            return self->leaf(self->self, op->k, self->path);
        if (op->code == (BPF_JMP | BPF_JA))
            op += op->k;
        else if (BPF_CLASS(op->code) == BPF_JMP)
            return BPF_SRC(op->code) == BPF_K && walk_if(self, op, a);
        else if (!step(self->path, op, &a))
            return false;
    }
}

bool pin_bpf_explore(const struct sock_filter *code, struct pin_bpf_path *path, pin_bpf_leaf *leaf,
                     void *self) {
    struct explorer explorer = {.path = path, .leaf = leaf, .self = self};
    return walk(&explorer, code, (struct operand){.word = CONSTANT});
}
