#include "runtime/build/seccomp/prologue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/seccomp.h>

#include "policy/syscalls.h"
#include "runtime/build/seccomp/compile.h"

#define NUMBERS 1024
#define X32_BIT 0x40000000U
#define LABEL_SKIP 0xff /* a jump to the end of the prologue, until its length is known */
#define LABEL_ENOSYS 0xfe

struct writer {
    struct sock_filter *code;
    size_t count;
};

static void put(struct writer *out, uint16_t code, uint8_t jt, uint8_t jf, uint32_t k) {
    if (out->count == PIN_PROLOGUE_MAX)
        abort(); /* the tables have a handful of gaps; a filter can only close them */
    out->code[out->count++] = (struct sock_filter){code, jt, jf, k};
}

static void mark_known(const struct pin_filter *filter, enum pin_arch arch, bool known[NUMBERS]) {
    for (size_t i = 0; i < pin_syscalls_count; i++)
        if (pin_syscalls[i].number[arch] >= 0 && pin_syscalls[i].since == NULL)
            known[pin_syscalls[i].number[arch]] = true;
    const struct pin_syscall *hint = NULL;
    for (size_t i = 0; i < filter->rule_count; i++) {
        hint = pin_syscall_find_near(filter->rules[i].name, hint);
        if (hint != NULL && hint->number[arch] >= 0)
            known[hint->number[arch]] = true;
    }
}

/* Numbers come in runs: below the end of a known run, skip; below the end of an unknown one, ENOSYS. */
static void put_runs(struct writer *out, const bool known[NUMBERS]) {
    for (uint32_t i = 1; i < NUMBERS; i++)
        if (known[i] != known[i - 1])
            put(out, BPF_JMP | BPF_JGE | BPF_K, 0, known[i - 1] ? LABEL_SKIP : LABEL_ENOSYS, i);
}

/* Past the tables; x32 is libseccomp's to kill, but -1 is what a tracer makes of a call that it skips. */
static void put_rest(struct writer *out, enum pin_arch arch) {
    if (arch == PIN_ARCH_X86_64) {
        put(out, BPF_JMP | BPF_JGE | BPF_K, 0, LABEL_ENOSYS, X32_BIT);
        put(out, BPF_JMP | BPF_JEQ | BPF_K, LABEL_ENOSYS, LABEL_SKIP, UINT32_MAX);
    }
    put(out, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS);
}

static uint8_t offset_of(uint8_t label, size_t at, size_t count) {
    if (label == LABEL_SKIP)
        return (uint8_t)(count - at - 1);
    return label == LABEL_ENOSYS ? (uint8_t)(count - at - 2) : label;
}

size_t pin_prologue_write(const struct pin_filter *filter, enum pin_arch arch,
                          struct sock_filter code[PIN_PROLOGUE_MAX]) {
    if (!pin_filter_hides_unknown(filter))
        return 0;
    struct writer out = {.code = code};
    bool known[NUMBERS] = {false};
    mark_known(filter, arch, known);
    put(&out, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
    put(&out, BPF_JMP | BPF_JEQ | BPF_K, 0, LABEL_SKIP, pin_program_audit_arch(arch));
    put(&out, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
    put_runs(&out, known);
    put_rest(&out, arch);
    for (size_t i = 0; i < out.count; i++) {
        code[i].jt = offset_of(code[i].jt, i, out.count);
        code[i].jf = offset_of(code[i].jf, i, out.count);
    }
    return out.count;
}
