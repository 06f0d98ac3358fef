#include "runtime/build/seccomp/verify.h"

#include <errno.h>
#include <string.h>

#include <linux/audit.h>

#include "base/names.h"
#include "policy/syscalls.h"
#include "runtime/build/seccomp/prove.h"

#define NUMBERS 640 /* past the tables, and past the numbers that only x32 has */
#define NONE UINT16_MAX
#define X32_BIT 0x40000000U
#define X32_PROBES 600 /* above the greatest number of x32 */

struct verifier {
    const struct pin_program *program;
    const struct pin_filter *filter;
    enum pin_arch arch;
    uint32_t audit_arch;
    enum pin_verify how;
    uint32_t otherwise, unknown; /* what a number without a rule returns, if it is known and if not */
    bool known[NUMBERS];
    bool looks_at_args[NUMBERS];
    uint16_t first[NUMBERS], next[PIN_PROGRAM_RULES_MAX]; /* the rules of a number, as a list */
    struct pin_claim claim;
    struct pin_bpf_path path;
};

static void index_rules(struct verifier *self) {
    const struct pin_filter *filter = self->filter;
    const struct pin_syscall *hint = NULL;
    memset(self->first, 0xff, sizeof(self->first));
    for (size_t i = 0; i < pin_syscalls_count; i++)
        if (pin_syscalls[i].number[self->arch] >= 0)
            self->known[pin_syscalls[i].number[self->arch]] = pin_syscalls[i].since == NULL;
    for (size_t i = 0; i < filter->rule_count; i++) {
        hint = pin_syscall_find_near(filter->rules[i].name, hint);
        int number = hint == NULL ? -1 : hint->number[self->arch];
        if (number < 0)
            continue;
        self->known[number] = true;
        self->looks_at_args[number] |= filter->rules[i].arg_count > 0;
        self->next[i] = self->first[number];
        self->first[number] = (uint16_t)i;
    }
}

static bool differs(const struct verifier *self, uint32_t number, uint32_t returned, struct pin_error *err) {
    const struct pin_syscall *call = pin_syscall_at(self->arch, number);
    return pin_fail(err, PIN_ERROR_INTERNAL,
                    "the program returns %#x for call %u (%s), which is not what its filter says",
                    (unsigned)returned, (unsigned)number, call == NULL ? "unknown" : call->name);
}

static uint32_t fallback(const struct verifier *self, uint32_t number) {
    return number < NUMBERS && self->known[number] ? self->otherwise : self->unknown;
}

static struct pin_bpf_outcome run(const struct verifier *self, uint32_t number, const uint64_t *args) {
    struct seccomp_data data = {
        .nr = (int)number, .arch = self->audit_arch, .instruction_pointer = 0x7f0000001000};
    memcpy(data.args, args, sizeof(data.args));
    return pin_bpf_run(self->program->code, &data);
}

/* A number whose verdict doesn't hang on arguments: one run shows it, if the program looks at none. */
static bool verify_plain(const struct verifier *self, uint32_t number, uint32_t expected,
                         struct pin_error *err) {
    static const uint64_t args[PIN_FILTER_ARGS_MAX];
    struct pin_bpf_outcome outcome = run(self, number, args);
    if (outcome.value == expected && (outcome.seen & ~(1U << PIN_BPF_WORD_NR | 1U << PIN_BPF_WORD_ARCH)) == 0)
        return true;
    return differs(self, number, outcome.value, err);
}

static bool make_claim(struct verifier *self, uint32_t number) {
    self->claim.audit_arch = self->audit_arch;
    self->claim.number = number;
    self->claim.rule_count = 0;
    self->claim.otherwise = fallback(self, number);
    for (uint16_t i = self->first[number]; i != NONE; i = self->next[i]) {
        if (self->claim.rule_count == PIN_PROVE_RULES)
            return false;
        const struct pin_filter_rule *rule = &self->filter->rules[i];
        self->claim.returns[self->claim.rule_count] = pin_program_return(rule->action, rule->error);
        self->claim.rules[self->claim.rule_count++] = rule;
    }
    return true;
}

/* --- trying arguments, where there is no proof --- */

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* A value on one side or the other of the comparison, near where it turns. */
static uint64_t near_value(const struct pin_filter_arg *arg, uint64_t *seed) {
    uint64_t noise = next_random(seed);
    uint64_t bit = UINT64_C(1) << (noise >> 8 & 63);
    switch (noise & 7) {
    case 0: return arg->value ^ bit;
    case 1: return arg->value + 1;
    case 2: return arg->value - 1;
    case 3: return arg->value ^ (next_random(seed) & ~arg->mask);
    case 4: return arg->value | UINT64_C(1) << 32;
    default:
        return arg->op == PIN_FILTER_MASKED_EQ ? arg->value | (next_random(seed) & ~arg->mask) : arg->value;
    }
}

static uint32_t expected_of(const struct pin_claim *claim, const uint64_t *args) {
    for (size_t i = 0; i < claim->rule_count;
         i++) /* no two that match say different things: pin_filter_check() */
        if (pin_filter_rule_matches(claim->rules[i], args))
            return claim->returns[i];
    return claim->otherwise;
}

static bool probe_call(const struct verifier *self, struct pin_error *err) {
    const struct pin_claim *claim = &self->claim;
    uint64_t seed = UINT64_C(0x9e3779b97f4a7c15) + claim->number;
    for (size_t round = 0; round < 64 * claim->rule_count; round++) {
        const struct pin_filter_rule *rule = claim->rules[round % claim->rule_count];
        uint64_t args[PIN_FILTER_ARGS_MAX];
        for (size_t i = 0; i < PIN_FILTER_ARGS_MAX; i++)
            args[i] = round % 2 != 0 ? next_random(&seed) : next_random(&seed) & 7;
        for (size_t i = 0; i < rule->arg_count; i++)
            args[rule->args[i].index] = near_value(&rule->args[i], &seed);
        uint32_t returned = run(self, claim->number, args).value;
        if (returned != expected_of(claim, args))
            return differs(self, claim->number, returned, err);
    }
    return true;
}

static bool verify_number(struct verifier *self, uint32_t number, struct pin_error *err) {
    if (!self->looks_at_args[number]) {
        uint16_t rule = self->first[number];
        return verify_plain(self, number,
                            rule == NONE ? fallback(self, number)
                                         : pin_program_return(self->filter->rules[rule].action,
                                                              self->filter->rules[rule].error),
                            err);
    }
    if (!make_claim(self, number))
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "call %u (%s) has more than %d rules", (unsigned)number,
                        self->claim.rules[0]->name, PIN_PROVE_RULES);
    if (pin_prove_call(self->program->code, &self->claim, &self->path))
        return true;
    if (self->how == PIN_VERIFY_PROOF)
        return pin_fail(err, PIN_ERROR_INTERNAL, "there is no proof for call %u", (unsigned)number);
    return probe_call(self, err);
}

/* --- numbers past the tables --- */

static bool verify_high_number(const struct verifier *self, uint32_t number, struct pin_error *err) {
    bool x32 = self->arch == PIN_ARCH_X86_64 && number >= X32_BIT && number != UINT32_MAX;
    if (x32 && self->filter->compat)
        return true;
    return verify_plain(self, number, x32 ? SECCOMP_RET_KILL_PROCESS : self->unknown, err);
}

static bool verify_high_numbers(const struct verifier *self, struct pin_error *err) {
    static const uint32_t numbers[] = {NUMBERS,    2000,       10000,      1U << 20,        X32_BIT - 1,
                                       0x7fffffff, 0x80000000, 0xfffffffe, UINT32_MAX - 37, UINT32_MAX};
    for (size_t i = 0; i < PIN_COUNT(numbers); i++)
        if (!verify_high_number(self, numbers[i], err))
            return false;
    for (uint32_t i = 0; i < X32_PROBES; i += i < 8 || (i > 505 && i < 560) ? 1 : 31)
        if (!verify_high_number(self, X32_BIT | i, err))
            return false;
    for (size_t i = 0; i < self->program->length; i++) { /* a verdict can only turn at a constant */
        const struct sock_filter *op = &self->program->code[i];
        if (BPF_CLASS(op->code) != BPF_JMP || op->k <= NUMBERS || op->k == UINT32_MAX)
            continue;
        if (!verify_high_number(self, op->k - 1, err) || !verify_high_number(self, op->k, err) ||
            !verify_high_number(self, op->k + 1, err))
            return false;
    }
    return true;
}

static bool verify_foreign(struct verifier *self, struct pin_error *err) {
    uint32_t ours[2] = {self->audit_arch, self->arch == PIN_ARCH_X86_64 ? AUDIT_ARCH_I386 : AUDIT_ARCH_ARM};
    return pin_prove_foreign_archs_die(self->program->code, ours, self->filter->compat ? 2 : 1,
                                       &self->path) ||
           pin_fail(err, PIN_ERROR_INTERNAL, "the program lets calls of other architectures live");
}

bool pin_program_verify(const struct pin_program *program, const struct pin_filter *filter,
                        enum pin_verify how, struct pin_error *err) {
    struct verifier self = {.program = program, .filter = filter, .how = how};
    if (!pin_bpf_check(program->code, program->length))
        return pin_fail(err, PIN_ERROR_INTERNAL, "the program is not one that the kernel would take");
    if (filter->rule_count > PIN_PROGRAM_RULES_MAX)
        return pin_fail(err, PIN_ERROR_INTERNAL, "a filter of %zu rules was compiled", filter->rule_count);
    self.arch = pin_program_arch(filter);
    self.audit_arch = pin_program_audit_arch(self.arch);
    self.otherwise = pin_program_return(filter->default_action, filter->default_error);
    self.unknown =
        pin_filter_hides_unknown(filter) ? pin_program_return(PIN_FILTER_ERRNO, ENOSYS) : self.otherwise;
    index_rules(&self);
    if (!verify_foreign(&self, err))
        return false;
    for (uint32_t number = 0; number < NUMBERS; number++)
        if (!verify_number(&self, number, err))
            return false;
    return verify_high_numbers(&self, err);
}
