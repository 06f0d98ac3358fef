#include "runtime/build/seccomp/simulate.h"

#include <stdlib.h>
#include <string.h>

#define DATA_SIZE sizeof(struct seccomp_data)

/* What seccomp_check_filter() lets through, by opcode. */
enum shape {
    SHAPE_REFUSED,
    SHAPE_PLAIN,
    SHAPE_DATA,
    SHAPE_MEMORY,
    SHAPE_DIVIDE,
    SHAPE_SHIFT,
    SHAPE_JUMP,
    SHAPE_IF
};

static enum shape shape_of(uint16_t opcode) {
    switch (opcode) {
    case BPF_LD | BPF_W | BPF_ABS: return SHAPE_DATA;
    case BPF_LD | BPF_W | BPF_LEN:
    case BPF_LDX | BPF_W | BPF_LEN:
    case BPF_RET | BPF_K:
    case BPF_RET | BPF_A:
    case BPF_ALU | BPF_ADD | BPF_K:
    case BPF_ALU | BPF_ADD | BPF_X:
    case BPF_ALU | BPF_SUB | BPF_K:
    case BPF_ALU | BPF_SUB | BPF_X:
    case BPF_ALU | BPF_MUL | BPF_K:
    case BPF_ALU | BPF_MUL | BPF_X:
    case BPF_ALU | BPF_DIV | BPF_X:
    case BPF_ALU | BPF_AND | BPF_K:
    case BPF_ALU | BPF_AND | BPF_X:
    case BPF_ALU | BPF_OR | BPF_K:
    case BPF_ALU | BPF_OR | BPF_X:
    case BPF_ALU | BPF_XOR | BPF_K:
    case BPF_ALU | BPF_XOR | BPF_X:
    case BPF_ALU | BPF_LSH | BPF_X:
    case BPF_ALU | BPF_RSH | BPF_X:
    case BPF_ALU | BPF_NEG:
    case BPF_LD | BPF_IMM:
    case BPF_LDX | BPF_IMM:
    case BPF_MISC | BPF_TAX:
    case BPF_MISC | BPF_TXA: return SHAPE_PLAIN;
    case BPF_ALU | BPF_DIV | BPF_K: return SHAPE_DIVIDE;
    case BPF_ALU | BPF_LSH | BPF_K:
    case BPF_ALU | BPF_RSH | BPF_K: return SHAPE_SHIFT;
    case BPF_LD | BPF_MEM:
    case BPF_LDX | BPF_MEM:
    case BPF_ST:
    case BPF_STX: return SHAPE_MEMORY;
    case BPF_JMP | BPF_JA: return SHAPE_JUMP;
    case BPF_JMP | BPF_JEQ | BPF_K:
    case BPF_JMP | BPF_JEQ | BPF_X:
    case BPF_JMP | BPF_JGE | BPF_K:
    case BPF_JMP | BPF_JGE | BPF_X:
    case BPF_JMP | BPF_JGT | BPF_K:
    case BPF_JMP | BPF_JGT | BPF_X:
    case BPF_JMP | BPF_JSET | BPF_K:
    case BPF_JMP | BPF_JSET | BPF_X: return SHAPE_IF;
    default: return SHAPE_REFUSED;
    }
}

static bool is_sound(const struct sock_filter *code, size_t at, size_t length) {
    const struct sock_filter *op = &code[at];
    size_t left = length - at - 1; /* instructions after this one */
    switch (shape_of(op->code)) {
    case SHAPE_REFUSED: return false;
    case SHAPE_PLAIN: return true;
    case SHAPE_DATA: return op->k < DATA_SIZE && op->k % sizeof(uint32_t) == 0;
    case SHAPE_MEMORY: return op->k < BPF_MEMWORDS;
    case SHAPE_DIVIDE: return op->k != 0;
    case SHAPE_SHIFT: return op->k < 32;
    case SHAPE_JUMP: return op->k < left;
    case SHAPE_IF: return op->jt < left && op->jf < left;
    }
    abort();
}

static void arrive(uint16_t *there, uint16_t with) {
    *there &= with;
}

/* check_load_and_stores(): a memory word is read only where every way there has written it. */
static bool memory_is_sound(const struct sock_filter *code, size_t length) {
    uint16_t written[BPF_MAXINSNS]; /* by every way to the instruction; 0xffff: no way found yet */
    memset(written, 0xff, length * sizeof(*written));
    uint16_t valid = 0;
    for (size_t at = 0; at < length; at++) {
        const struct sock_filter *op = &code[at];
        valid &= written[at];
        switch (op->code) {
        case BPF_ST:
        case BPF_STX: valid |= (uint16_t)(1U << op->k); break;
        case BPF_LD | BPF_MEM:
        case BPF_LDX | BPF_MEM:
            if (((unsigned)valid >> op->k & 1U) == 0)
                return false;
            break;
        case BPF_JMP | BPF_JA:
            arrive(&written[at + 1 + op->k], valid);
            valid = UINT16_MAX;
            break;
        default:
            if (shape_of(op->code) != SHAPE_IF)
                break;
            arrive(&written[at + 1 + op->jt], valid);
            arrive(&written[at + 1 + op->jf], valid);
            valid = UINT16_MAX;
        }
    }
    return true;
}

bool pin_bpf_check(const struct sock_filter *code, size_t length) {
    if (length == 0 || length > BPF_MAXINSNS)
        return false;
    bool uses_memory = false;
    for (size_t at = 0; at < length; at++) {
        if (!is_sound(code, at, length))
            return false;
        uses_memory |= shape_of(code[at].code) == SHAPE_MEMORY;
    }
    uint16_t last = code[length - 1].code;
    return (last == (BPF_RET | BPF_K) || last == (BPF_RET | BPF_A)) &&
           (!uses_memory || memory_is_sound(code, length));
}

struct machine {
    uint32_t a, x, memory[BPF_MEMWORDS];
};

/* False: a division by zero, which ends the program with 0 (kill the thread). */
static bool calculate(struct machine *m, const struct sock_filter *op) {
    uint32_t by = BPF_SRC(op->code) == BPF_X ? m->x : op->k;
    switch (BPF_OP(op->code)) {
    case BPF_ADD: m->a += by; return true;
    case BPF_SUB: m->a -= by; return true;
    case BPF_MUL: m->a *= by; return true;
    case BPF_AND: m->a &= by; return true;
    case BPF_OR: m->a |= by; return true;
    case BPF_XOR: m->a ^= by; return true;
    case BPF_LSH: m->a <<= by & 31U; return true;
    case BPF_RSH: m->a >>= by & 31U; return true;
    case BPF_NEG: m->a = 0 - m->a; return true;
    case BPF_DIV:
        if (by == 0)
            return false;
        m->a /= by;
        return true;
    default: abort(); /* pin_bpf_check() lets no other through */
    }
}

static bool holds(const struct machine *m, const struct sock_filter *op) {
    uint32_t with = BPF_SRC(op->code) == BPF_X ? m->x : op->k;
    switch (BPF_OP(op->code)) {
    case BPF_JEQ: return m->a == with;
    case BPF_JGE: return m->a >= with;
    case BPF_JGT: return m->a > with;
    case BPF_JSET: return (m->a & with) != 0;
    default: abort();
    }
}

/* What loads, stores and moves do. */
static void move(struct machine *m, const struct sock_filter *op) {
    switch (op->code) {
    case BPF_LD | BPF_W | BPF_LEN: m->a = DATA_SIZE; return;
    case BPF_LDX | BPF_W | BPF_LEN: m->x = DATA_SIZE; return;
    case BPF_LD | BPF_IMM: m->a = op->k; return;
    case BPF_LDX | BPF_IMM: m->x = op->k; return;
    case BPF_LD | BPF_MEM: m->a = m->memory[op->k]; return;
    case BPF_LDX | BPF_MEM: m->x = m->memory[op->k]; return;
    case BPF_ST: m->memory[op->k] = m->a; return;
    case BPF_STX: m->memory[op->k] = m->x; return;
    case BPF_MISC | BPF_TAX: m->x = m->a; return;
    case BPF_MISC | BPF_TXA: m->a = m->x; return;
    default: abort();
    }
}

/* What libseccomp doesn't emit. False: the program has ended, and `outcome` says how. */
static bool step(struct machine *m, const struct sock_filter **op, struct pin_bpf_outcome *outcome) {
    switch (BPF_CLASS((*op)->code)) {
    case BPF_JMP: *op += holds(m, *op) ? (*op)->jt : (*op)->jf; return true;
    case BPF_RET: outcome->value = m->a; return false;
    case BPF_ALU: return calculate(m, *op);
    default: move(m, *op); return true;
    }
}

struct pin_bpf_outcome pin_bpf_run(const struct sock_filter *code, const struct seccomp_data *data) {
    struct machine m = {0};
    struct pin_bpf_outcome outcome = {0};
    for (const struct sock_filter *op = code;; op++) {
        switch (op->code) { /* what libseccomp emits comes first: thousands of runs make a verification */
        case BPF_LD | BPF_W | BPF_ABS:
            memcpy(&m.a, (const char *)data + op->k, sizeof(m.a));
            outcome.seen |= 1U << op->k / sizeof(m.a);
            break;
        case BPF_JMP | BPF_JEQ | BPF_K: op += m.a == op->k ? op->jt : op->jf; break;
        case BPF_JMP | BPF_JGT | BPF_K: op += m.a > op->k ? op->jt : op->jf; break;
        case BPF_JMP | BPF_JGE | BPF_K: op += m.a >= op->k ? op->jt : op->jf; break;
        case BPF_JMP | BPF_JA: op += op->k; break;
        case BPF_RET | BPF_K: outcome.value = op->k; return outcome;
        default:
            if (!step(&m, &op, &outcome))
                return outcome;
        }
    }
}
