#include "policy/audit/bpf_text.h"

#include <linux/seccomp.h>

#include <stdio.h>

#include "base/names.h"
#include "policy/audit/arg_names.h"

static const char *field_name(uint32_t offset) {
    static const char *const words[] = {
        "number",          "architecture",     "address, low",    "address, high",
        "argument 0, low", "argument 0, high", "argument 1, low", "argument 1, high",
        "argument 2, low", "argument 2, high", "argument 3, low", "argument 3, high",
        "argument 4, low", "argument 4, high", "argument 5, low", "argument 5, high",
    };
    _Static_assert(PIN_COUNT(words) * sizeof(uint32_t) == sizeof(struct seccomp_data),
                   "every word has a name");
    return offset % 4 == 0 && offset / 4 < PIN_COUNT(words) ? words[offset / 4] : "out of bounds";
}

static void add_return(struct pin_buffer *to, uint32_t value) {
    uint32_t data = value & SECCOMP_RET_DATA;
    const char *error = pin_errno_name((int)data);
    switch (value & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW: pin_buffer_add(to, "allow"); return;
    case SECCOMP_RET_ERRNO:
        pin_buffer_printf(to, "errno %u%s%s", data, error != NULL ? " " : "", error != NULL ? error : "");
        return;
    case SECCOMP_RET_KILL_PROCESS: pin_buffer_add(to, "kill the process"); return;
    case SECCOMP_RET_KILL_THREAD: pin_buffer_add(to, "kill the thread"); return;
    case SECCOMP_RET_TRAP: pin_buffer_add(to, "trap"); return;
    case SECCOMP_RET_TRACE: pin_buffer_printf(to, "trace %u", data); return;
    case SECCOMP_RET_LOG: pin_buffer_add(to, "log and allow"); return;
    case SECCOMP_RET_USER_NOTIF: pin_buffer_add(to, "notify"); return;
    default: pin_buffer_printf(to, "0x%08x", value); return;
    }
}

static void add_load(struct pin_buffer *to, const struct sock_filter *op) {
    switch (BPF_MODE(op->code)) {
    case BPF_ABS: pin_buffer_printf(to, "ld   [%u]                ; %s", op->k, field_name(op->k)); return;
    case BPF_IMM: pin_buffer_printf(to, "ld   #0x%x", op->k); return;
    case BPF_MEM: pin_buffer_printf(to, "ld   M[%u]", op->k); return;
    default: pin_buffer_printf(to, "ld   ? 0x%x", op->k); return;
    }
}

static void add_jump(struct pin_buffer *to, const struct sock_filter *op, size_t at) {
    static const struct {
        unsigned code;
        const char *name;
    } names[] = {
        {BPF_JEQ,  "jeq "},
        {BPF_JGT,  "jgt "},
        {BPF_JGE,  "jge "},
        {BPF_JSET, "jset"},
    };
    if (BPF_OP(op->code) == BPF_JA) {
        pin_buffer_printf(to, "ja   %zu", at + 1 + op->k);
        return;
    }
    for (size_t i = 0; i < PIN_COUNT(names); i++)
        if (BPF_OP(op->code) == names[i].code) {
            pin_buffer_printf(to, "%s #0x%x, %zu, %zu", names[i].name, op->k, at + 1 + op->jt,
                              at + 1 + op->jf);
            return;
        }
    pin_buffer_printf(to, "jump ? 0x%x", op->k);
}

static void add_alu(struct pin_buffer *to, const struct sock_filter *op) {
    static const char *const names[] = {"add", "sub", "mul", "div", "or ", "and",
                                        "lsh", "rsh", "neg", "mod", "xor"};
    size_t index = BPF_OP(op->code) >> 4;
    if (BPF_SRC(op->code) == BPF_X)
        pin_buffer_printf(to, "%s  x", index < PIN_COUNT(names) ? names[index] : "alu");
    else
        pin_buffer_printf(to, "%s  #0x%x", index < PIN_COUNT(names) ? names[index] : "alu", op->k);
}

static void add_operation(struct pin_buffer *to, const struct sock_filter *op, size_t at) {
    switch (BPF_CLASS(op->code)) {
    case BPF_LD: add_load(to, op); return;
    case BPF_LDX: pin_buffer_printf(to, "ldx  M[%u]", op->k); return;
    case BPF_ST: pin_buffer_printf(to, "st   M[%u]", op->k); return;
    case BPF_STX: pin_buffer_printf(to, "stx  M[%u]", op->k); return;
    case BPF_ALU: add_alu(to, op); return;
    case BPF_JMP: add_jump(to, op, at); return;
    case BPF_RET:
        pin_buffer_printf(to, "ret  #0x%08x         ; ", op->k);
        add_return(to, op->k);
        return;
    default: pin_buffer_add(to, BPF_MISCOP(op->code) == BPF_TAX ? "tax" : "txa"); return;
    }
}

void pin_bpf_text(struct pin_buffer *to, const struct sock_filter *code, size_t length) {
    for (size_t i = 0; i < length; i++) {
        pin_buffer_printf(to, "%5zu  %04x %02x %02x %08x  ", i, code[i].code, code[i].jt, code[i].jf,
                          code[i].k);
        add_operation(to, &code[i], i);
        pin_buffer_add(to, "\n");
    }
}
