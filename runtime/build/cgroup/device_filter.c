#include "runtime/build/cgroup/device_filter.h"

#include <stdint.h>

/* The registers of the program; BPF_REG_1 is the context. */
enum {
    RESULT = BPF_REG_0,
    TYPE = BPF_REG_2,
    ASKED = BPF_REG_3,
    MAJOR = BPF_REG_4,
    MINOR = BPF_REG_5,
    SCRATCH = BPF_REG_6
};

enum { ACCESS_SHIFT = 16, ACCESS_ALL = BPF_DEVCG_ACC_MKNOD | BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE };

unsigned pin_device_access(const char *text) {
    unsigned access = 0;
    for (; text != NULL && *text != '\0'; text++) {
        switch (*text) {
        case 'r': access |= BPF_DEVCG_ACC_READ; break;
        case 'w': access |= BPF_DEVCG_ACC_WRITE; break;
        case 'm': access |= BPF_DEVCG_ACC_MKNOD; break;
        default: return 0;
        }
    }
    return access;
}

static void emit(struct pin_device_program *program, unsigned code, unsigned to, unsigned from, int offset,
                 int32_t value) {
    program->code[program->count++] = (struct bpf_insn){
        .code = (uint8_t)code,
        .dst_reg = (uint8_t)(to & 0xf),
        .src_reg = (uint8_t)(from & 0xf),
        .off = (int16_t)offset,
        .imm = value,
    };
}

static void load_context(struct pin_device_program *program) {
    emit(program, BPF_LDX | BPF_MEM | BPF_W, TYPE, BPF_REG_1,
         offsetof(struct bpf_cgroup_dev_ctx, access_type), 0);
    emit(program, BPF_ALU | BPF_MOV | BPF_X, ASKED, TYPE, 0, 0);
    emit(program, BPF_ALU | BPF_AND | BPF_K, TYPE, 0, 0, 0xffff);
    emit(program, BPF_ALU | BPF_RSH | BPF_K, ASKED, 0, 0, ACCESS_SHIFT);
    emit(program, BPF_LDX | BPF_MEM | BPF_W, MAJOR, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, major), 0);
    emit(program, BPF_LDX | BPF_MEM | BPF_W, MINOR, BPF_REG_1, offsetof(struct bpf_cgroup_dev_ctx, minor), 0);
}

static void give_verdict(struct pin_device_program *program, int32_t verdict) {
    emit(program, BPF_ALU64 | BPF_MOV | BPF_K, RESULT, 0, 0, verdict);
    emit(program, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void skip_unless(struct pin_device_program *program, unsigned reg, int64_t value) {
    emit(program, BPF_JMP | BPF_JNE | BPF_K, reg, 0, 0,
         (int32_t)value); /* to the next rule: set afterwards */
}

static void patch_skips(struct pin_device_program *program, size_t from) {
    for (size_t i = from; i < program->count; i++) {
        struct bpf_insn *one = &program->code[i];
        if (BPF_CLASS(one->code) == BPF_JMP && BPF_OP(one->code) != BPF_EXIT)
            one->off = (int16_t)(program->count - i - 1);
    }
}

/* What a rule allows is taken off the request, which is granted when nothing is left of it. */
static void add_rule(const struct pin_bundle_device_rule *rule, struct pin_device_program *program) {
    size_t from = program->count;
    unsigned access = rule->access == NULL ? ACCESS_ALL : pin_device_access(rule->access);
    if (rule->type != 'a')
        skip_unless(program, TYPE, rule->type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR);
    if (rule->major >= 0)
        skip_unless(program, MAJOR, rule->major);
    if (rule->minor >= 0)
        skip_unless(program, MINOR, rule->minor);
    if (rule->allow) {
        emit(program, BPF_ALU | BPF_AND | BPF_K, ASKED, 0, 0, (int32_t)(~access & ACCESS_ALL));
        skip_unless(program, ASKED, 0);
    } else {
        emit(program, BPF_ALU | BPF_MOV | BPF_X, SCRATCH, ASKED, 0, 0);
        emit(program, BPF_ALU | BPF_AND | BPF_K, SCRATCH, 0, 0, (int32_t)access);
        emit(program, BPF_JMP | BPF_JEQ | BPF_K, SCRATCH, 0, 0, 0);
    }
    give_verdict(program, rule->allow);
    patch_skips(program, from);
}

static bool check_rule(const struct pin_bundle_device_rule *rule, size_t index, struct pin_error *err) {
    bool type = rule->type == 'a' || rule->type == 'b' || rule->type == 'c';
    bool numbers =
        rule->major >= -1 && rule->major <= INT32_MAX && rule->minor >= -1 && rule->minor <= INT32_MAX;
    if (type && numbers && (rule->access == NULL || pin_device_access(rule->access) != 0))
        return true;
    (void)pin_fail(err, PIN_ERROR_INVALID, "the device rule has a type, number or access that no device has");
    return pin_point(err, "/linux/resources/devices/%zu", index);
}

/* The last rule comes first. */
bool pin_device_filter_build(const struct pin_bundle_device_rule *rules, size_t count,
                             struct pin_device_program *program, struct pin_error *err) {
    if (count > PIN_DEVICE_RULES_MAX) {
        (void)pin_fail(err, PIN_ERROR_EXHAUSTED, "%zu device rules are more than %d", count,
                       PIN_DEVICE_RULES_MAX);
        return pin_point(err, "/linux/resources/devices");
    }
    for (size_t i = 0; i < count; i++)
        if (!check_rule(&rules[i], i, err))
            return false;
    program->count = 0;
    load_context(program);
    for (size_t i = count; i-- > 0;)
        add_rule(&rules[i], program);
    give_verdict(program, 0);
    return true;
}
