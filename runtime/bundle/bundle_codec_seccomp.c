#include <errno.h>
#include <string.h>

#include <linux/seccomp.h>

#include "base/names.h"
#include "base/text.h"
#include "runtime/bundle/bundle_codec.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV /* before Linux 5.19's headers */
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#define FAULT(reader, node, hint, ...)                                                                       \
    pin_json_fault(&(reader)->source, node, (reader)->found, hint, __VA_ARGS__)

/* linux.seccomp.architectures. Those that this project has no filters for are no processors that it runs on:
 * their names are known, and a program of theirs can't run. */

enum arch_use { NATIVE, COMPAT, FOREIGN };

static const struct {
    const char *name;
    enum arch_use use;
    enum pin_arch arch; /* NATIVE: itself; COMPAT: whose */
} archs[] = {
    {"SCMP_ARCH_X86_64",      NATIVE,  PIN_ARCH_X86_64 },
    {"SCMP_ARCH_AARCH64",     NATIVE,  PIN_ARCH_AARCH64},
    {"SCMP_ARCH_X86",         COMPAT,  PIN_ARCH_X86_64 },
    {"SCMP_ARCH_X32",         COMPAT,  PIN_ARCH_X86_64 },
    {"SCMP_ARCH_ARM",         COMPAT,  PIN_ARCH_AARCH64},
    {"SCMP_ARCH_MIPS",        FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_MIPS64",      FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_MIPS64N32",   FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_MIPSEL",      FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_MIPSEL64",    FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_MIPSEL64N32", FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_PPC",         FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_PPC64",       FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_PPC64LE",     FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_S390",        FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_S390X",       FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_PARISC",      FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_PARISC64",    FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_RISCV64",     FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_LOONGARCH64", FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_M68K",        FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_SH",          FOREIGN, PIN_ARCH_COUNT  },
    {"SCMP_ARCH_SHEB",        FOREIGN, PIN_ARCH_COUNT  },
};

static int find_arch(const char *name) {
    for (size_t i = 0; i < PIN_COUNT(archs); i++)
        if (strcmp(archs[i].name, name) == 0)
            return (int)i;
    return -1;
}

static void read_architectures(struct pin_bundle_reader *reader, const struct pin_json *node, void *base) {
    struct pin_filter *filter = base;
    char shown[64];
    if (!pin_bundle_expect(reader, node, JSON_ARRAY))
        return;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        const char *name = pin_bundle_read_text(reader, child);
        if (name == NULL)
            continue;
        int index = find_arch(name);
        if (index < 0)
            FAULT(reader, child, NULL, "'%s' is no architecture",
                  pin_escape(shown, sizeof(shown), name, strlen(name)));
        else if (archs[index].use == NATIVE)
            filter->archs[archs[index].arch] = true;
        else if (archs[index].use == COMPAT && archs[index].arch == pin_arch_native())
            filter->compat = true;
    }
}

static bool write_architectures(struct pin_json_text *text, const void *base) {
    const struct pin_filter *filter = base;
    size_t count = 0;
    pin_json_text_open(text, '[');
    for (size_t i = 0; i < PIN_COUNT(archs); i++) {
        bool named = archs[i].use == NATIVE
                         ? filter->archs[archs[i].arch]
                         : archs[i].use == COMPAT && filter->compat && archs[i].arch == pin_arch_native();
        if (!named)
            continue;
        struct pin_json_mark mark = pin_json_text_member(text, NULL, count++);
        pin_json_text_string(text, archs[i].name);
        pin_json_text_end(text, &mark);
    }
    pin_json_text_close(text, ']');
    return count > 0;
}

const struct pin_bundle_codec pin_codec_architectures = {read_architectures, write_architectures};

/* linux.seccomp.flags */

static const struct {
    const char *name;
    uint32_t flag;
} flags[] = {
    {"SECCOMP_FILTER_FLAG_TSYNC",              SECCOMP_FILTER_FLAG_TSYNC             },
    {"SECCOMP_FILTER_FLAG_LOG",                SECCOMP_FILTER_FLAG_LOG               },
    {"SECCOMP_FILTER_FLAG_SPEC_ALLOW",         SECCOMP_FILTER_FLAG_SPEC_ALLOW        },
    {"SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV},
};

static void read_flags(struct pin_bundle_reader *reader, const struct pin_json *node, void *base) {
    struct pin_filter *filter = base;
    if (!pin_bundle_expect(reader, node, JSON_ARRAY))
        return;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        const char *name = pin_bundle_read_text(reader, child);
        uint32_t flag = 0;
        for (size_t i = 0; name != NULL && i < PIN_COUNT(flags); i++)
            if (strcmp(flags[i].name, name) == 0)
                flag = flags[i].flag;
        if (name != NULL && flag == 0)
            FAULT(reader, child, NULL, "this is no flag of a filter");
        filter->flags |= flag;
    }
}

static bool write_flags(struct pin_json_text *text, const void *base) {
    const struct pin_filter *filter = base;
    size_t count = 0;
    pin_json_text_open(text, '[');
    for (size_t i = 0; i < PIN_COUNT(flags); i++) {
        if ((filter->flags & flags[i].flag) == 0)
            continue;
        struct pin_json_mark mark = pin_json_text_member(text, NULL, count++);
        pin_json_text_string(text, flags[i].name);
        pin_json_text_end(text, &mark);
    }
    pin_json_text_close(text, ']');
    return count > 0;
}

const struct pin_bundle_codec pin_codec_flags = {read_flags, write_flags};

/* linux.seccomp.syscalls: an entry names many calls; here each call is a rule. The two values of a masked
 * comparison are the mask and what is left after it. */

struct arg_item {
    uint64_t index, value, value_two;
    enum pin_filter_op op;
};

static const char *op_name(unsigned op) {
    return pin_filter_op_name((enum pin_filter_op)op);
}

static const char *action_name(unsigned action) {
    return pin_filter_action_name((enum pin_filter_action)action);
}

static const struct pin_bundle_row arg_rows[] = {
    PIN_ROW("index", NUMBER, PIN_AT(struct arg_item, index), .size = 8, .max = 5, .always = true,
            .required = true),
    PIN_ROW("value", NUMBER, PIN_U64(struct arg_item, value), .always = true, .required = true),
    PIN_ROW("valueTwo", NUMBER, PIN_U64(struct arg_item, value_two)),
    PIN_ROW("op", CHOICE, PIN_AT(struct arg_item, op), .name = op_name, .names = PIN_FILTER_OP_COUNT,
            .always = true, .required = true),
};
static const struct pin_bundle_table arg_fields = PIN_TABLE(arg_rows);

struct rule_item {
    const char **names;
    size_t name_count;
    enum pin_filter_action action;
    uint16_t error;
    bool has_error;
    struct arg_item *args;
    size_t arg_count;
};

static const struct pin_bundle_row rule_rows[] = {
    PIN_ROW("names", TEXTS, PIN_AT(struct rule_item, names), PIN_N(struct rule_item, name_count),
            .required = true),
    PIN_ROW("action", CHOICE, PIN_AT(struct rule_item, action), .name = action_name,
            .names = PIN_FILTER_ACTION_COUNT, .always = true, .required = true, PIN_KILL_ALIAS),
    PIN_ROW("errnoRet", NUMBER, PIN_AT(struct rule_item, error), .size = 2, .max = UINT16_MAX,
            PIN_HAS(struct rule_item, has_error)),
    PIN_ROW("args", LIST, PIN_AT(struct rule_item, args), PIN_N(struct rule_item, arg_count),
            .size = sizeof(struct arg_item), .table = &arg_fields),
};
static const struct pin_bundle_table rule_fields = PIN_TABLE(rule_rows);

static void read_args(struct pin_bundle_reader *reader, const struct pin_json *node,
                      const struct rule_item *item, struct pin_filter_rule *rule) {
    if (item->arg_count > PIN_FILTER_ARGS_MAX) {
        FAULT(reader, node, NULL, "a call has at most %d arguments", PIN_FILTER_ARGS_MAX);
        return;
    }
    rule->arg_count = (uint8_t)item->arg_count;
    for (size_t i = 0; i < item->arg_count; i++) {
        const struct arg_item *arg = &item->args[i];
        bool masked = arg->op == PIN_FILTER_MASKED_EQ;
        if (!masked && arg->value_two != 0)
            FAULT(reader, node, NULL, "only SCMP_CMP_MASKED_EQ has a 'valueTwo'");
        rule->args[i] = (struct pin_filter_arg){.index = (uint8_t)arg->index,
                                                .op = arg->op,
                                                .mask = masked ? arg->value : 0,
                                                .value = masked ? arg->value_two : arg->value};
    }
}

/* An action without an errno of its own gives EPERM, and one that can give none must have none. */
static void read_error(struct pin_bundle_reader *reader, const struct pin_json *node,
                       const struct rule_item *item, struct pin_filter_rule *rule) {
    bool gives = pin_filter_gives_errno(item->action);
    rule->error = gives && !item->has_error ? EPERM : item->error;
    if (!gives && item->has_error)
        FAULT(reader, node, "leave errnoRet out", "the action '%s' gives no errno",
              action_name(item->action));
}

static void read_rules(struct pin_bundle_reader *reader, const struct pin_json *node, void *base) {
    struct pin_filter *filter = base;
    if (!pin_bundle_expect(reader, node, JSON_ARRAY))
        return;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        struct rule_item item = {0};
        struct pin_filter_rule rule = {0};
        pin_bundle_read_object(reader, child, &rule_fields, &item);
        rule.action = item.action;
        read_error(reader, child, &item, &rule);
        bool named = item.names != NULL;
        if (named && item.name_count == 0)
            FAULT(reader, child, NULL, "'names' has no call in it");
        read_args(reader, child, &item, &rule);
        for (size_t i = 0; named && i < item.name_count; i++) {
            rule.name = item.names[i];
            *(struct pin_filter_rule *)pin_arena_grow(reader->arena, &filter->rules, &filter->rule_count,
                                                      sizeof(rule)) = rule;
        }
    }
}

static bool same_but_name(const struct pin_filter_rule *a, const struct pin_filter_rule *b) {
    if (a->action != b->action || a->error != b->error || a->arg_count != b->arg_count)
        return false;
    for (size_t i = 0; i < a->arg_count; i++)
        if (a->args[i].index != b->args[i].index || a->args[i].op != b->args[i].op ||
            a->args[i].mask != b->args[i].mask || a->args[i].value != b->args[i].value)
            return false;
    return true;
}

/* Neighbours that differ in their names alone are one entry again. */
static size_t write_entry(struct pin_json_text *text, const struct pin_filter *filter, size_t first) {
    const struct pin_filter_rule *rule = &filter->rules[first];
    struct arg_item args[PIN_FILTER_ARGS_MAX];
    const char *names[64];
    struct rule_item item = {.names = names,
                             .action = rule->action,
                             .error = rule->error,
                             .has_error = pin_filter_gives_errno(rule->action),
                             .args = args,
                             .arg_count = rule->arg_count};
    for (size_t i = 0; i < rule->arg_count; i++) {
        bool masked = rule->args[i].op == PIN_FILTER_MASKED_EQ;
        args[i] = (struct arg_item){.index = rule->args[i].index,
                                    .op = rule->args[i].op,
                                    .value = masked ? rule->args[i].mask : rule->args[i].value,
                                    .value_two = masked ? rule->args[i].value : 0};
    }
    while (item.name_count < PIN_COUNT(names) && first + item.name_count < filter->rule_count &&
           same_but_name(rule, &filter->rules[first + item.name_count])) {
        names[item.name_count] = filter->rules[first + item.name_count].name;
        item.name_count++;
    }
    pin_json_text_open(text, '{');
    pin_bundle_write_rows(text, &rule_fields, &item);
    pin_json_text_close(text, '}');
    return item.name_count;
}

static bool write_rules(struct pin_json_text *text, const void *base) {
    const struct pin_filter *filter = base;
    size_t entries = 0;
    pin_json_text_open(text, '[');
    for (size_t i = 0; i < filter->rule_count; entries++) {
        struct pin_json_mark mark = pin_json_text_member(text, NULL, entries);
        i += write_entry(text, filter, i);
        pin_json_text_end(text, &mark);
    }
    pin_json_text_close(text, ']');
    return filter->rule_count > 0;
}

const struct pin_bundle_codec pin_codec_rules = {read_rules, write_rules};
