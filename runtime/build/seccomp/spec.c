#include "runtime/build/seccomp/spec.h"

#include <stdlib.h>
#include <string.h>

#include <seccomp.h>

#include "base/cleanup.h"
#include "policy/syscalls.h"
#include "runtime/build/seccomp/compile.h"

#define FORMAT 3 /* raise it when the prologue or the way of compiling changes */
#define HEAD_SIZE 64
#define RULE_SIZE 8 /* without name and arguments */
#define ARG_SIZE 18
#define UNNAMED 0xffff

struct out {
    uint8_t *at;
};

static void put(struct out *out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        *out->at++ = (uint8_t)(value >> 8 * i);
}

static void put_head(struct out *out, const struct pin_filter *filter) {
    const struct scmp_version *version = seccomp_version();
    put(out, FORMAT, 4);
    put(out, version->major, 4);
    put(out, version->minor, 4);
    put(out, version->micro, 4);
    put(out, pin_syscalls_count, 4);
    put(out, pin_program_arch(filter), 1);
    put(out, filter->default_action, 1);
    put(out, filter->default_error, 2);
    put(out, filter->compat, 1);
    put(out, filter->flags, 4);
    put(out, filter->rule_count, 4);
}

static void put_rule(struct out *out, const struct pin_filter_rule *rule, const struct pin_syscall *call) {
    put(out, call == NULL ? UNNAMED : (uint64_t)(call - pin_syscalls), 2);
    if (call == NULL) { /* a call of another architecture: by its name, with the zero */
        size_t size = strlen(rule->name) + 1;
        memcpy(out->at, rule->name, size);
        out->at += size;
    }
    put(out, rule->action, 1);
    put(out, rule->error, 2);
    put(out, rule->arg_count, 1);
    for (size_t i = 0; i < rule->arg_count; i++) {
        const struct pin_filter_arg *arg = &rule->args[i];
        bool narrow = arg->op == PIN_FILTER_MASKED_EQ && arg->mask <= UINT32_MAX && arg->value <= UINT32_MAX;
        put(out, arg->index, 1);
        put(out, (uint64_t)arg->op | (narrow ? 0x80U : 0), 1);
        put(out, arg->mask, narrow ? 4 : 8);
        put(out, arg->value, narrow ? 4 : 8);
    }
}

static size_t room_for(const struct pin_filter *filter) {
    size_t size = HEAD_SIZE;
    for (size_t i = 0; i < filter->rule_count; i++)
        size += RULE_SIZE + strlen(filter->rules[i].name) + (size_t)filter->rules[i].arg_count * ARG_SIZE;
    return size;
}

bool pin_filter_spec(const struct pin_filter *filter, uint8_t digest[PIN_SHA256_SIZE]) {
    PIN_FREE uint8_t *data = malloc(room_for(filter));
    if (data == NULL)
        return false;
    struct out out = {data};
    put_head(&out, filter);
    const struct pin_syscall *hint = NULL;
    for (size_t i = 0; i < filter->rule_count; i++) {
        hint = pin_syscall_find_near(filter->rules[i].name, hint);
        put_rule(&out, &filter->rules[i], hint);
    }
    pin_sha256(data, (size_t)(out.at - data), digest);
    return true;
}
