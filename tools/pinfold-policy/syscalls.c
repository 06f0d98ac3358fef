#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "policy/audit/bpf_text.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"
#include "runtime/build/seccomp/cache.h"
#include "runtime/bundle/bundle_write.h"
#include "tools/pinfold-policy/input.h"
#include "tools/pinfold-policy/verbs.h"
#include "tools/pinfold/report.h"

struct syscalls_options {
    struct pin_input_options input;
    bool bpf, oci, all;
    int arch;
};

static const char *const arch_names[] = {"x86_64", "aarch64", NULL}; /* in the order of enum pin_arch */
_Static_assert(PIN_COUNT(arch_names) == PIN_ARCH_COUNT + 1, "every architecture has a name");

static const struct pin_option options[] = {
    PIN_INPUT_ROWS,
    {"bpf",  0, PIN_OPTION_FLAG,   offsetof(struct syscalls_options, bpf),  NULL,
      "print the program that the kernel runs, disassembled, with its digest", NULL      },
    {"oci",  0, PIN_OPTION_FLAG,   offsetof(struct syscalls_options, oci),  NULL,
      "print it as `linux.seccomp` of an OCI configuration",                   NULL      },
    {"all",  0, PIN_OPTION_FLAG,   offsetof(struct syscalls_options, all),  NULL,
      "list the calls that are denied too",                                    NULL      },
    {"arch", 0, PIN_OPTION_CHOICE, offsetof(struct syscalls_options, arch), NULL,
      "for this architecture (the one of this machine)",                       arch_names},
};

/* --- the table --- */

static const char *group_of(const struct pin_syscall *call) {
    for (size_t i = 0; i < pin_syscall_groups_count; i++)
        if (pin_syscall_in(&pin_syscall_groups[i], call))
            return pin_syscall_groups[i].name;
    return "-";
}

static json_t *arguments_of(const struct pin_reach *reach, const struct pin_syscall *call,
                            struct pin_arena *arena) {
    json_t *list = json_array();
    size_t count;
    const struct pin_filter_rule *rules = pin_reach_rules(reach, call->name, &count);
    for (size_t i = 0; i < count; i++)
        if (pin_reach_passes(rules[i].action) && rules[i].arg_count > 0)
            json_array_append_new(list, json_string(pin_reach_describe(arena, &rules[i])));
    return list;
}

static bool is_listed(const struct pin_reach *reach, size_t row, bool all) {
    return pin_syscalls[row].number[reach->arch] >= 0 && (all || reach->calls[row] != PIN_REACH_NONE);
}

static int print_table(const struct pin_reach *reach, bool all) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_buffer text = {0};
    pin_buffer_printf(&text, "%-24s %6s %-12s %-14s %s\n", "CALL", "NUMBER", "GROUP", "ALLOWED", "BY");
    for (size_t i = 0; i < pin_syscalls_count; i++) {
        const struct pin_syscall *call = &pin_syscalls[i];
        char place[PIN_PLACE_TEXT];
        if (!is_listed(reach, i, all))
            continue;
        struct pin_reach_source source = pin_reach_source(reach, &arena, call);
        pin_buffer_printf(&text, "%-24s %6d %-12s %-14s %s (%s)\n", call->name, call->number[reach->arch],
                          group_of(call), pin_reach_kind_name(reach->calls[i]), source.pointer,
                          pin_place_print(place, &source.place));
        json_t *arguments = arguments_of(reach, call, &arena);
        for (size_t j = 0; j < json_array_size(arguments); j++)
            pin_buffer_printf(&text, "%-24s        %s\n", "",
                              json_string_value(json_array_get(arguments, j)));
        json_decref(arguments);
    }
    return pin_output_text(&text, PIN_AUDIT_GOOD);
}

static int print_table_json(const struct pin_reach *reach, bool all) {
    PIN_ARENA struct pin_arena arena = {0};
    json_t *list = json_array();
    for (size_t i = 0; i < pin_syscalls_count; i++) {
        const struct pin_syscall *call = &pin_syscalls[i];
        char place[PIN_PLACE_TEXT];
        if (!is_listed(reach, i, all))
            continue;
        struct pin_reach_source source = pin_reach_source(reach, &arena, call);
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:s, s:s, s:o, s:s, s:s}", "call", call->name, "number",
                                        (int)call->number[reach->arch], "group", group_of(call), "allowed",
                                        pin_reach_kind_name(reach->calls[i]), "arguments",
                                        arguments_of(reach, call, &arena), "rule", source.pointer, "place",
                                        pin_place_print(place, &source.place)));
    }
    return pin_output_json(json_pack("{s:s, s:o}", "arch", arch_names[reach->arch], "calls", list),
                           PIN_AUDIT_GOOD);
}

/* --- the program --- */

static int print_bpf(const struct pin_reach *reach, bool json) {
    struct pin_error err = {0};
    struct pin_program program = {0};
    struct pin_buffer text = {0};
    uint8_t digest[PIN_SHA256_SIZE];
    char shown[PIN_DIGEST_TEXT], spec[PIN_DIGEST_TEXT];
    if (!pin_program_get(&reach->filter, -1, &program, &err))
        return pin_report(&err, json);
    pin_sha256(program.code, program.length * sizeof(program.code[0]), digest);
    (void)pin_digest_print(shown, digest);
    (void)pin_digest_print(spec, program.spec_digest);
    if (!json)
        pin_buffer_printf(&text,
                          "; %u instructions for %s, proved against the filter\n; program %s\n; filter  %s\n",
                          program.length, arch_names[reach->arch], shown, spec);
    pin_bpf_text(&text, program.code, program.length);
    int code = PIN_AUDIT_GOOD;
    if (json) {
        code = pin_output_json(json_pack("{s:s, s:i, s:s, s:s, s:s}", "arch", arch_names[reach->arch],
                                         "instructions", (int)program.length, "program", shown, "filter",
                                         spec, "text", text.data),
                               code);
        pin_buffer_free(&text);
    } else {
        code = pin_output_text(&text, code);
    }
    pin_program_free(&program);
    return code;
}

/* --- as OCI has it --- */

/* The writer of bundles writes it, so that the two can't differ. */
static int print_oci(const struct pin_reach *reach) {
    struct pin_error err = {0};
    size_t size;
    struct pin_bundle *bundle = pin_bundle_new();
    bundle->seccomp = reach->filter;
    PIN_FREE char *text = pin_bundle_print(bundle, false, &size, &err);
    bundle->seccomp = (struct pin_filter){0}; /* it is the reach's */
    pin_bundle_free(bundle);
    if (text == NULL)
        return pin_report(&err, true);
    json_t *whole = json_loadb(text, size, 0, NULL);
    json_t *seccomp = json_object_get(json_object_get(whole, "linux"), "seccomp");
    int code = pin_output_json(json_incref(seccomp), PIN_AUDIT_GOOD);
    json_decref(whole);
    return code;
}

static int print_form(const struct pin_reach *reach, const struct syscalls_options *values) {
    if (values->bpf)
        return print_bpf(reach, values->input.json);
    if (values->oci)
        return print_oci(reach);
    return values->input.json ? print_table_json(reach, values->all) : print_table(reach, values->all);
}

static int run_syscalls(const struct pin_invocation *invocation) {
    const struct syscalls_options *values = invocation->values;
    enum pin_arch arch = values->arch >= 0 ? (enum pin_arch)values->arch : pin_arch_native();
    PIN_REACH struct pin_reach reach = {0};
    struct pin_findings found = {0};
    struct pin_input input = {0};
    int code;
    if (pin_input_load(&input, pin_input_argument(invocation, 0), &values->input, &found) &&
        pin_reach_make(&reach, input.policy, arch, &found))
        code = print_form(&reach, values);
    else
        code = pin_report_findings(&found, values->input.json);
    pin_input_free(&input);
    return code;
}

const struct pin_verb pin_policy_verb_syscalls = {
    .name = "policy syscalls",
    .synopsis = "[POLICY]",
    .summary = "the system call filter: as a table, as BPF, as OCI's JSON",
    .description =
        "The table names each call with its number, its group, and the line that gives it." PIN_INPUT_EXITS,
    .example = "  pinfold policy syscalls tool\n  pinfold policy syscalls --bpf tool\n"
               "  pinfold policy syscalls --oci tool > seccomp.json",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct syscalls_options),
    .most_arguments = 1,
    .run = run_syscalls,
};
