#include "policy/policy_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "policy/canonical.h"
#include "policy/defaults.h"
#include "policy/egress_rule.h"
#include "policy/policy_read.h"
#include "policy/words.h"

struct writer {
    const struct pin_policy *policy;
    struct pin_buffer *to;
    struct pin_arena *arena;
    bool canonical;
};

/* --- items --- */

static void write_words(struct pin_buffer *to, const struct pin_field_row *row, uint64_t bits) {
    const char *between = "";
    pin_buffer_add(to, "[");
    for (size_t i = 0; i < row->word_count; i++) {
        if ((bits >> i & 1) == 0)
            continue;
        pin_buffer_add(to, between);
        pin_buffer_json(to, row->words[i]);
        between = ",";
    }
    pin_buffer_add(to, "]");
}

static int compare_strings(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void write_keys(struct pin_buffer *to, struct pin_arena *arena, const struct pin_strings *keys) {
    const char **texts = pin_arena_array(arena, keys->count, sizeof(*texts));
    for (size_t i = 0; i < keys->count; i++)
        texts[i] = keys->items[i].text;
    if (keys->count > 1)
        qsort(texts, keys->count, sizeof(*texts), compare_strings);
    pin_buffer_add(to, ",\"require_signature\":true,\"keys\":[");
    for (size_t i = 0; i < keys->count; i++) {
        pin_buffer_add(to, i > 0 ? "," : "");
        pin_buffer_json(to, texts[i]);
    }
    pin_buffer_add(to, "]");
}

static void write_image(struct pin_buffer *to, struct pin_arena *arena, const struct pin_image_rule *image) {
    bool digest = strncmp(image->pattern, "sha256:", 7) == 0;
    if (!image->require_signature && !digest) {
        pin_buffer_json(to, image->pattern);
        return;
    }
    pin_buffer_add(to, digest ? "{\"digest\":" : "{\"pattern\":");
    pin_buffer_json(to, image->pattern);
    if (image->require_signature)
        write_keys(to, arena, &image->keys);
    pin_buffer_add(to, "}");
}

static void write_mount(struct pin_buffer *to, const struct pin_mount_rule *mount) {
    pin_buffer_add(to, "{\"source\":");
    pin_buffer_json(to, mount->source);
    pin_buffer_add(to, ",\"target\":");
    pin_buffer_json(to, mount->target);
    pin_buffer_printf(to, ",\"access\":\"%s\"}", pin_access_words[mount->access]);
}

static void write_terms(struct pin_buffer *to, const struct pin_egress_rule *rule) {
    pin_buffer_printf(to, ",\"protocol\":\"%s\"", pin_protocol_words[rule->protocol]);
    if (rule->inspect != PIN_INSPECT_AUTO)
        pin_buffer_printf(to, ",\"inspect\":\"%s\"", pin_inspect_words[rule->inspect]);
    if (rule->accept != 0) {
        const char *between = ",\"accept\":[";
        for (unsigned i = 0; i < PIN_ACCEPT_WORDS; i++)
            if ((rule->accept >> i & 1) != 0) {
                pin_buffer_printf(to, "%s\"%s\"", between, pin_accept_words[i]);
                between = ",";
            }
        pin_buffer_add(to, "]");
    }
    if (rule->budget != NULL) {
        pin_buffer_add(to, ",\"budget\":");
        pin_buffer_json(to, rule->budget->name);
    }
}

static void write_egress(struct pin_buffer *to, const struct pin_egress_rule *rule, bool deny) {
    char cidr[PIN_CIDR_TEXT];
    pin_buffer_add(to, rule->host != NULL ? "{\"host\":" : "{\"cidr\":");
    pin_buffer_json(to, rule->host != NULL  ? rule->host
                        : rule->any_address ? "*"
                                            : pin_cidr_print(cidr, rule->address, rule->prefix));
    pin_buffer_add(to, ",\"ports\":[");
    for (size_t i = 0; i < rule->port_count; i++) {
        const struct pin_port_range *range = &rule->ports[i];
        pin_buffer_add(to, i > 0 ? "," : "");
        if (range->first == range->last)
            pin_buffer_printf(to, "%u", range->first);
        else
            pin_buffer_printf(to, "\"%u-%u\"", range->first, range->last);
    }
    pin_buffer_add(to, "]");
    if (!deny)
        write_terms(to, rule);
    pin_buffer_add(to, "}");
}

static int compare_args(const void *a, const void *b) {
    const struct pin_filter_arg *x = a, *y = b;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    if (x->mask != y->mask)
        return x->mask < y->mask ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

static void write_number(struct pin_buffer *to, const char *key, uint64_t value) {
    pin_buffer_printf(to, value > INT64_MAX ? ",\"%s\":\"0x%" PRIx64 "\"" : ",\"%s\":%" PRIu64, key, value);
}

static void write_syscall(struct pin_buffer *to, const struct pin_syscall_entry *entry) {
    struct pin_filter_arg args[PIN_FILTER_ARGS_MAX];
    if (entry->arg_count == 0) {
        pin_buffer_json(to, entry->name);
        return;
    }
    memcpy(args, entry->args, entry->arg_count * sizeof(*args));
    qsort(args, entry->arg_count, sizeof(*args), compare_args);
    pin_buffer_add(to, "{\"name\":");
    pin_buffer_json(to, entry->name);
    pin_buffer_add(to, ",\"args\":[");
    for (size_t i = 0; i < entry->arg_count; i++) {
        if (i > 0 && compare_args(&args[i - 1], &args[i]) == 0)
            continue;
        pin_buffer_printf(to, "%s{\"index\":%u,\"op\":\"%s\"", i > 0 ? "," : "", args[i].index,
                          pin_op_words[args[i].op]);
        write_number(to, "value", args[i].value);
        if (args[i].op == PIN_FILTER_MASKED_EQ)
            write_number(to, "mask", args[i].mask);
        pin_buffer_add(to, "}");
    }
    pin_buffer_add(to, "]}");
}

static void write_amount(struct pin_buffer *to, const struct pin_field_row *row, uint64_t value);

static void write_budget(struct pin_buffer *to, const struct pin_egress_budget *budget) {
    pin_buffer_add(to, "{\"name\":");
    pin_buffer_json(to, budget->name);
    for (size_t i = 0; i < PIN_BUDGET_ROWS; i++) {
        const struct pin_field_row *row = &pin_limit_fields.rows[i];
        uint64_t value;
        memcpy(&value,
               (const char *)&budget->limits + row->offset - offsetof(struct pin_policy, network.limits),
               sizeof(value));
        if (value == PIN_UNLIMITED)
            continue;
        pin_buffer_printf(to, ",\"%s\":", row->key);
        write_amount(to, row, value);
    }
    pin_buffer_add(to, "}");
}

static void write_item(struct writer *writer, struct pin_buffer *to, const struct pin_field_row *row,
                       const void *item) {
    switch ((int)row->type) {
    case PIN_TYPE_IMAGES: write_image(to, writer->arena, item); return;
    case PIN_TYPE_MOUNTS: write_mount(to, item); return;
    case PIN_TYPE_EGRESS:
    case PIN_TYPE_DENY: write_egress(to, item, row->type == PIN_TYPE_DENY); return;
    case PIN_TYPE_BUDGETS: write_budget(to, item); return;
    case PIN_TYPE_SYSCALLS: write_syscall(to, item); return;
    default: pin_buffer_json(to, ((const struct pin_string *)item)->text); return;
    }
}

/* --- lists --- */

static char *text_of(struct writer *writer, const struct pin_field_row *row, const void *item) {
    PIN_BUFFER struct pin_buffer text = {0};
    write_item(writer, &text, row, item);
    return pin_arena_strndup(writer->arena, text.data, text.size);
}

static void write_list(struct writer *writer, const struct pin_field_row *row) {
    struct pin_list list = writer->canonical ? pin_canonical_list(writer->arena, writer->policy, row)
                                             : pin_list_of(writer->policy, row);
    char **texts = pin_arena_array(writer->arena, list.count, sizeof(*texts));
    for (size_t i = 0; i < list.count; i++)
        texts[i] = text_of(writer, row, pin_list_at(&list, i));
    if (writer->canonical && list.count > 1)
        qsort(texts, list.count, sizeof(*texts), compare_strings);
    pin_buffer_add(writer->to, "[");
    for (size_t i = 0; i < list.count; i++) {
        pin_buffer_add(writer->to, i > 0 ? "," : "");
        pin_buffer_add(writer->to, texts[i]);
    }
    pin_buffer_add(writer->to, "]");
}

static int compare_variables(const void *a, const void *b) {
    return strcmp(((const struct pin_variable *)a)->name, ((const struct pin_variable *)b)->name);
}

static bool has_variable(const struct pin_policy *policy, const char *name) {
    for (size_t i = 0; i < policy->environment.set_count; i++)
        if (strcmp(policy->environment.set[i].name, name) == 0)
            return true;
    return false;
}

/* The policy's variables, and with the value NULL those of the defaults that it has taken away. */
static struct pin_variable *all_variables(struct writer *writer, size_t *count) {
    const struct pin_policy *policy = writer->policy;
    struct pin_variable *all = NULL;
    *count = 0;
    for (size_t i = 0; i < policy->environment.set_count; i++)
        *(struct pin_variable *)pin_arena_grow(writer->arena, &all, count, sizeof(*all)) =
            policy->environment.set[i];
    for (size_t i = 0; pin_policy_default_variable(i) != NULL; i++)
        if (!has_variable(policy, pin_policy_default_variable(i)))
            ((struct pin_variable *)pin_arena_grow(writer->arena, &all, count, sizeof(*all)))->name =
                pin_policy_default_variable(i);
    return all;
}

static void write_variables(struct writer *writer) {
    size_t count;
    struct pin_variable *all = all_variables(writer, &count);
    if (writer->canonical && count > 1)
        qsort(all, count, sizeof(*all), compare_variables);
    pin_buffer_add(writer->to, "{");
    for (size_t i = 0; i < count; i++) {
        pin_buffer_add(writer->to, i > 0 ? "," : "");
        pin_buffer_json(writer->to, all[i].name);
        pin_buffer_add(writer->to, ":");
        if (all[i].value != NULL)
            pin_buffer_json(writer->to, all[i].value);
        else
            pin_buffer_add(writer->to, "null");
    }
    pin_buffer_add(writer->to, "}");
}

/* --- values --- */

static void write_size(struct pin_buffer *to, uint64_t value) {
    char text[PIN_UNITS_TEXT];
    pin_buffer_json(to, value == PIN_UNLIMITED ? "unlimited" : pin_print_size(text, value));
}

static void write_time(struct pin_buffer *to, uint64_t value) {
    char text[PIN_UNITS_TEXT];
    if (value != PIN_UNLIMITED && value % PIN_NS_PER_MS != 0)
        pin_buffer_printf(to, "\"%" PRIu64 "ns\"", value); /* from a request: no file can say it */
    else
        pin_buffer_json(to, value == PIN_UNLIMITED ? "unlimited" : pin_print_time(text, value));
}

static void write_cpus(struct pin_buffer *to, uint32_t millicpus) {
    char text[PIN_UNITS_TEXT];
    pin_buffer_add(to, millicpus == 0 ? "\"unlimited\"" : pin_print_cpus(text, millicpus));
}

static void write_amount(struct pin_buffer *to, const struct pin_field_row *row, uint64_t value) {
    if (row->type == PIN_TYPE_SIZE)
        write_size(to, value);
    else if (row->type == PIN_TYPE_TIME)
        write_time(to, value);
    else if (value == PIN_UNLIMITED)
        pin_buffer_add(to, "\"unlimited\"");
    else
        pin_buffer_printf(to, "%" PRIu64, value);
}

static void write_value(struct writer *writer, const struct pin_field_row *row) {
    const char *slot = (const char *)writer->policy + row->offset;
    struct pin_buffer *to = writer->to;
    const char *text;
    uint64_t wide = 0;
    uint32_t narrow = 0;
    memcpy(&narrow, slot, row->type == PIN_TYPE_FLAG ? sizeof(bool) : sizeof(narrow));
    switch ((int)row->type) {
    case PIN_TYPE_NAME:
    case PIN_TYPE_TEXT:
    case PIN_TYPE_STRING:
    case PIN_TYPE_WORD:
        memcpy(&text, slot, sizeof(text));
        if (text == NULL)
            pin_buffer_add(to, "null");
        else
            pin_buffer_json(to, text);
        return;
    case PIN_TYPE_FLAG: pin_buffer_add(to, narrow != 0 ? "true" : "false"); return;
    case PIN_TYPE_CHOICE: pin_buffer_json(to, row->words[narrow]); return;
    case PIN_TYPE_SET32: write_words(to, row, narrow); return;
    case PIN_TYPE_ID: pin_buffer_printf(to, "%" PRIu32, narrow); return;
    case PIN_TYPE_CPUS: write_cpus(to, narrow); return;
    case PIN_TYPE_VARIABLES: write_variables(writer); return;
    default: break;
    }
    memcpy(&wide, slot, sizeof(wide));
    switch ((int)row->type) {
    case PIN_TYPE_SIZE:
    case PIN_TYPE_TIME:
    case PIN_TYPE_COUNT: write_amount(to, row, wide); return;
    case PIN_TYPE_SET64: write_words(to, row, wide); return;
    default: write_list(writer, row); return;
    }
}

/* --- the whole --- */

static bool is_written(const struct writer *writer, const struct pin_field_row *row) {
    bool named = row->type == PIN_TYPE_NAME || row->type == PIN_TYPE_TEXT;
    return row->type != PIN_TYPE_EXTENDS && !(named && writer->canonical);
}

static void new_line(struct writer *writer, unsigned depth) {
    if (!writer->canonical)
        pin_buffer_printf(writer->to, "\n%*s", (int)(2 * depth), "");
}

static void write_object(struct writer *writer, const struct pin_field_object *object, unsigned depth) {
    const char *between = "";
    pin_buffer_add(writer->to, "{");
    for (size_t i = 0; i < object->count; i++) {
        const struct pin_field_row *row = &object->rows[i];
        if (!is_written(writer, row))
            continue;
        pin_buffer_add(writer->to, between);
        new_line(writer, depth + 1);
        pin_buffer_add(writer->to, "\"");
        pin_buffer_add(writer->to, row->key);
        pin_buffer_add(writer->to, writer->canonical ? "\":" : "\": ");
        if (row->type == PIN_TYPE_OBJECT)
            write_object(writer, row->object, depth + 1);
        else if (row->type == PIN_TYPE_VERSION)
            pin_buffer_printf(writer->to, "%d", PIN_POLICY_VERSION);
        else
            write_value(writer, row);
        between = ",";
    }
    new_line(writer, depth);
    pin_buffer_add(writer->to, "}");
}

static void write_policy(const struct pin_policy *policy, struct pin_buffer *to, bool canonical) {
    PIN_ARENA struct pin_arena arena = {0};
    struct writer writer = {policy, to, &arena, canonical};
    write_object(&writer, &pin_policy_fields, 0);
    if (!canonical)
        pin_buffer_add(to, "\n");
}

void pin_policy_write_canonical(const struct pin_policy *policy, struct pin_buffer *to) {
    write_policy(policy, to, true);
}

void pin_policy_write(const struct pin_policy *policy, struct pin_buffer *to) {
    write_policy(policy, to, false);
}

void pin_policy_seal(struct pin_policy *policy) {
    PIN_BUFFER struct pin_buffer text = {0};
    pin_policy_write_canonical(policy, &text);
    pin_sha256(text.data, text.size, policy->digest);
}

/* --- parts --- */

char *pin_policy_value_text(struct pin_arena *arena, const struct pin_policy *policy, enum pin_field field) {
    PIN_BUFFER struct pin_buffer text = {0};
    struct writer writer = {policy, &text, arena, false};
    write_value(&writer, pin_field_row(field));
    return pin_arena_strndup(arena, text.data, text.size);
}

char *pin_policy_item_text(struct pin_arena *arena, enum pin_field field, const void *item) {
    struct writer writer = {.arena = arena};
    return text_of(&writer, pin_field_row(field), item);
}
