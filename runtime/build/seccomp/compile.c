#include "runtime/build/seccomp/compile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <linux/audit.h>
#include <linux/seccomp.h>

#include <seccomp.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "policy/syscalls.h"
#include "runtime/build/seccomp/prologue.h"
#include "runtime/build/seccomp/shorten.h"

static const struct {
    uint32_t seccomp, audit;
} arch_tokens[] = {
    [PIN_ARCH_X86_64] = {SCMP_ARCH_X86_64,  AUDIT_ARCH_X86_64 },
    [PIN_ARCH_AARCH64] = {SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64},
};
_Static_assert(PIN_COUNT(arch_tokens) == PIN_ARCH_COUNT, "every architecture has its tokens");

struct compiler {
    const struct pin_filter *filter;
    enum pin_arch arch;
    scmp_filter_ctx context;
    struct pin_error *err;
};

static void release_slot(scmp_filter_ctx *context) {
    if (*context != NULL)
        seccomp_release(*context);
}

enum pin_arch pin_program_arch(const struct pin_filter *filter) {
    for (int arch = 0; arch < PIN_ARCH_COUNT && !filter->archs[pin_arch_native()]; arch++)
        if (filter->archs[arch])
            return (enum pin_arch)arch;
    return pin_arch_native();
}

uint32_t pin_program_audit_arch(enum pin_arch arch) {
    return arch_tokens[arch].audit;
}

uint32_t pin_program_return(enum pin_filter_action action, uint16_t error) {
    switch (action) {
    case PIN_FILTER_ALLOW: return SCMP_ACT_ALLOW;
    case PIN_FILTER_ERRNO: return SCMP_ACT_ERRNO(error);
    case PIN_FILTER_KILL_PROCESS: return SCMP_ACT_KILL_PROCESS;
    case PIN_FILTER_KILL_THREAD: return SCMP_ACT_KILL_THREAD;
    case PIN_FILTER_TRAP: return SCMP_ACT_TRAP;
    case PIN_FILTER_TRACE: return SCMP_ACT_TRACE(error);
    case PIN_FILTER_LOG: return SCMP_ACT_LOG;
    case PIN_FILTER_NOTIFY: return SCMP_ACT_NOTIFY;
    case PIN_FILTER_ACTION_COUNT: break;
    }
    abort();
}

/* libseccomp's functions return a negative errno. */
static bool check(struct compiler *self, int result, const char *what) {
    if (result >= 0)
        return true;
    errno = -result;
    return pin_fail_errno(self->err, "libseccomp: %s", what);
}

static bool set_up(struct compiler *self) {
    uint32_t token = arch_tokens[self->arch].seccomp;
    if (token != seccomp_arch_native() &&
        (!check(self, seccomp_arch_add(self->context, token), "add the architecture") ||
         !check(self, seccomp_arch_remove(self->context, SCMP_ARCH_NATIVE),
                "remove the native architecture")))
        return false;
    if (self->filter->compat && self->arch == PIN_ARCH_X86_64 &&
        (!check(self, seccomp_arch_add(self->context, SCMP_ARCH_X86), "add i386") ||
         !check(self, seccomp_arch_add(self->context, SCMP_ARCH_X32), "add x32")))
        return false;
    if (self->filter->compat && self->arch == PIN_ARCH_AARCH64 &&
        !check(self, seccomp_arch_add(self->context, SCMP_ARCH_ARM), "add arm"))
        return false;
    static const struct {
        enum scmp_filter_attr attribute;
        uint32_t value;
    } attributes[] = {
        {SCMP_FLTATR_ACT_BADARCH,  SCMP_ACT_KILL_PROCESS},
        {SCMP_FLTATR_CTL_NNP,      0                    }, /* the builder sets it, before */
        {SCMP_FLTATR_CTL_OPTIMIZE, 2                    }, /* a binary tree, which loads three times as fast */
    };
    for (size_t i = 0; i < PIN_COUNT(attributes); i++)
        if (!check(self, seccomp_attr_set(self->context, attributes[i].attribute, attributes[i].value),
                   "set an attribute"))
            return pin_hint(
                self->err,
                "libseccomp asks seccomp(2) what it may do: a filter around this process hides it, or "
                "the kernel is older than 4.14");
    return true;
}

enum found { FOUND_NUMBER, FOUND_ABSENT, FOUND_UNKNOWN };

/* The number that libseccomp wants for the call: the native one whatever the architecture, or a negative one
 * for calls that only others have. ABSENT: the filter's architectures don't have it, so no rule is needed. */
static enum found find_number(const struct compiler *self, const char *name, int *number) {
    const struct pin_syscall *call = pin_syscall_find(name);
    bool native = self->arch == pin_arch_native();
    *number = seccomp_syscall_resolve_name(name);
    if (*number == __NR_SCMP_ERROR && call != NULL && native && call->number[self->arch] >= 0)
        *number = call->number[self->arch]; /* younger than this libseccomp */
    if (*number == __NR_SCMP_ERROR)
        return call != NULL && call->number[self->arch] < 0 ? FOUND_ABSENT : FOUND_UNKNOWN;
    bool absent = call == NULL ? *number < 0 : call->number[self->arch] < 0;
    return absent && !self->filter->compat ? FOUND_ABSENT : FOUND_NUMBER;
}

bool pin_program_knows(const char *name) {
    return pin_syscall_find(name) != NULL || seccomp_syscall_resolve_name(name) != __NR_SCMP_ERROR;
}

static bool denies(enum pin_filter_action action) {
    return action == PIN_FILTER_ERRNO || action == PIN_FILTER_TRAP || action == PIN_FILTER_KILL_THREAD ||
           action == PIN_FILTER_KILL_PROCESS;
}

static bool repeats_default(const struct compiler *self, const struct pin_filter_rule *rule) {
    return pin_program_return(rule->action, rule->error) ==
           pin_program_return(self->filter->default_action, self->filter->default_error);
}

/* A rule without comparisons makes those with the same action needless, and libseccomp stumbles over them. */
static bool is_covered(const struct compiler *self, const struct pin_filter_rule *rule) {
    for (size_t i = 0; i < self->filter->rule_count && rule->arg_count > 0; i++) {
        const struct pin_filter_rule *other = &self->filter->rules[i];
        if (other->arg_count == 0 && other->action == rule->action && other->error == rule->error &&
            strcmp(other->name, rule->name) == 0)
            return true;
    }
    return false;
}

static struct scmp_arg_cmp compare(const struct pin_filter_arg *arg) {
    static const enum scmp_compare ops[] = {
        [PIN_FILTER_EQ] = SCMP_CMP_EQ, [PIN_FILTER_MASKED_EQ] = SCMP_CMP_MASKED_EQ,
        [PIN_FILTER_NE] = SCMP_CMP_NE, [PIN_FILTER_LT] = SCMP_CMP_LT,
        [PIN_FILTER_LE] = SCMP_CMP_LE, [PIN_FILTER_GE] = SCMP_CMP_GE,
        [PIN_FILTER_GT] = SCMP_CMP_GT,
    };
    struct scmp_arg_cmp result = {.arg = arg->index, .op = ops[arg->op], .datum_a = arg->value};
    if (arg->op == PIN_FILTER_MASKED_EQ) {
        result.datum_a = arg->mask;
        result.datum_b = arg->value;
    }
    return result;
}

static bool add_rule(struct compiler *self, const struct pin_filter_rule *rule) {
    int number;
    enum found found = find_number(self, rule->name, &number);
    if (found == FOUND_UNKNOWN && !(denies(rule->action) && pin_filter_hides_unknown(self->filter))) {
        (void)pin_fail(self->err, PIN_ERROR_UNSUPPORTED, "no system call '%s' is known to this libseccomp",
                       rule->name);
        return pin_hint(self->err, "leave the call out, or install a newer libseccomp");
    }
    if (found != FOUND_NUMBER || repeats_default(self, rule) || is_covered(self, rule))
        return true;
    struct scmp_arg_cmp args[PIN_FILTER_ARGS_MAX];
    for (size_t i = 0; i < rule->arg_count; i++)
        args[i] = compare(&rule->args[i]);
    uint32_t action = pin_program_return(rule->action, rule->error);
    int result = self->filter->compat
                     ? seccomp_rule_add_array(self->context, action, number, rule->arg_count, args)
                     : seccomp_rule_add_exact_array(self->context, action, number, rule->arg_count, args);
    return check(self, result, "add a rule") || pin_wrap(self->err, "call '%s'", rule->name);
}

static bool add_rules(struct compiler *self) {
    for (size_t i = 0; i < self->filter->rule_count; i++)
        if (!add_rule(self, &self->filter->rules[i]))
            return false;
    return true;
}

/* Reads the program back from a memory file, behind the prologue. */
static bool export(struct compiler *self, struct pin_program *program) {
    struct sock_filter prologue[PIN_PROLOGUE_MAX];
    size_t before = pin_prologue_write(self->filter, self->arch, prologue);
    PIN_CLOSE int file = memfd_create("pinfold-filter", MFD_CLOEXEC);
    struct stat status;
    if (file < 0)
        return pin_fail_errno(self->err, "create a memory file for the filter");
    if (!check(self, seccomp_export_bpf(self->context, file), "export the program"))
        return false;
    if (fstat(file, &status) < 0)
        return pin_fail_errno(self->err, "read the exported filter");
    size_t size = (size_t)status.st_size, length = before + size / sizeof(struct sock_filter);
    if (length > PIN_PROGRAM_MAX)
        return pin_fail(self->err, PIN_ERROR_UNSUPPORTED,
                        "the filter has %zu instructions, and the kernel takes %d", length, PIN_PROGRAM_MAX);
    PIN_FREE struct sock_filter *code = calloc(length, sizeof(*code));
    if (code == NULL)
        return pin_fail_errno(self->err, "make room for the filter");
    memcpy(code, prologue, before * sizeof(*code));
    if (pread(file, code + before, size, 0) != (ssize_t)size)
        return pin_fail(self->err, PIN_ERROR_SYSTEM, "read the exported filter: it was cut short");
    *program = (struct pin_program){
        .code = pin_steal_ptr(&code), .length = (uint16_t)length, .flags = self->filter->flags};
    return true;
}

bool pin_program_compile(const struct pin_filter *filter, struct pin_program *program,
                         struct pin_error *err) {
    __attribute__((cleanup(release_slot))) scmp_filter_ctx context =
        seccomp_init(pin_program_return(filter->default_action, filter->default_error));
    struct compiler self = {
        .filter = filter, .arch = pin_program_arch(filter), .context = context, .err = err};
    if (context == NULL)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "libseccomp can't make a filter with the default '%s'",
                        pin_filter_action_name(filter->default_action));
    if (!set_up(&self) || !add_rules(&self) || !export(&self, program))
        return false;
    if (!filter->compat) /* that one judges several architectures */
        pin_program_shorten(program, pin_program_audit_arch(self.arch));
    return true;
}

void pin_program_free(struct pin_program *program) {
    if (program == NULL)
        return;
    free(program->code);
    program->code = NULL;
    program->length = 0;
}
