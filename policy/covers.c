#include "policy/covers.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "policy/checks.h"
#include "policy/egress_rule.h"
#include "policy/publish.h"

/* A `*` of the inner pattern can only be matched by one of the outer, which then takes whatever it stands
 * for. */
static bool pattern_covers(const char *outer, const char *inner) {
    return pin_glob_match(outer, inner);
}

static bool covers_glob(const void *outer, const void *inner) {
    const struct pin_string *wide = outer, *narrow = inner;
    return pattern_covers(wide->text, narrow->text);
}

static bool covers_same(const void *outer, const void *inner) {
    const struct pin_string *wide = outer, *narrow = inner;
    return strcmp(wide->text, narrow->text) == 0;
}

static bool covers_path(const void *outer, const void *inner) {
    const struct pin_string *wide = outer, *narrow = inner;
    return pin_path_beneath(narrow->text, wide->text);
}

static bool has_key(const struct pin_strings *keys, const char *key) {
    for (size_t i = 0; i < keys->count; i++)
        if (strcmp(keys->items[i].text, key) == 0)
            return true;
    return false;
}

static bool is_digest(const char *pattern) {
    return strncmp(pattern, "sha256:", 7) == 0;
}

/* A digest is of an image whatever it is called, and a pattern asks for the name alone. */
static bool covers_pattern(const char *outer, const char *inner) {
    if (is_digest(outer) || is_digest(inner))
        return strcmp(outer, inner) == 0 || strcmp(outer, "*") == 0;
    return pattern_covers(outer, inner);
}

/* An image that must be signed by one of few keys is less than one that may be signed by one of many. */
static bool covers_image(const void *outer, const void *inner) {
    const struct pin_image_rule *wide = outer, *narrow = inner;
    if (!covers_pattern(wide->pattern, narrow->pattern))
        return false;
    if (!wide->require_signature)
        return true;
    if (!narrow->require_signature)
        return false;
    for (size_t i = 0; i < narrow->keys.count; i++)
        if (!has_key(&wide->keys, narrow->keys.items[i].text))
            return false;
    return true;
}

static bool covers_mount(const void *outer, const void *inner) {
    const struct pin_mount_rule *wide = outer, *narrow = inner;
    return narrow->access <= wide->access && pin_path_beneath(narrow->source, wide->source) &&
           pin_path_beneath(narrow->target, wide->target);
}

/* A path, and what lies beneath it; plain paths, so that a `*` can't be matched by "..". */
static bool covers_host_path(const void *outer, const void *inner) {
    const struct pin_string *wide = outer, *narrow = inner;
    char below[PATH_MAX + 3];
    if (strcmp(wide->text, "/") == 0 || pattern_covers(wide->text, narrow->text))
        return true;
    int size = snprintf(below, sizeof(below), "%s/*", wide->text);
    return size > 0 && (size_t)size < sizeof(below) && pattern_covers(below, narrow->text);
}

/* "PROGRAM" stands for it with any argument. */
static bool covers_hook(const void *outer, const void *inner) {
    const struct pin_string *wide = outer, *narrow = inner;
    if (strchr(wide->text, ' ') != NULL)
        return strchr(narrow->text, ' ') != NULL && pattern_covers(wide->text, narrow->text);
    char program[1025];
    size_t size = strcspn(narrow->text, " ");
    if (size >= sizeof(program))
        return false;
    memcpy(program, narrow->text, size);
    program[size] = '\0';
    return pattern_covers(wide->text, program);
}

static bool covers_publish(const void *outer, const void *inner) {
    const struct pin_string *wide = outer, *narrow = inner;
    return pin_publish_covers(wide->text, narrow->text);
}

static bool covers_egress(const void *outer, const void *inner) {
    const struct pin_egress_rule *wide = outer, *narrow = inner;
    return wide->protocol == narrow->protocol && pin_egress_grants_target(wide, narrow);
}

static bool covers_denial(const void *outer, const void *inner) {
    const struct pin_egress_rule *wide = outer, *narrow = inner;
    return wide->protocol == narrow->protocol && pin_egress_covers_target(wide, narrow);
}

static bool has_arg(const struct pin_syscall_entry *entry, const struct pin_filter_arg *arg) {
    for (size_t i = 0; i < entry->arg_count; i++) {
        const struct pin_filter_arg *own = &entry->args[i];
        if (own->index == arg->index && own->op == arg->op && own->mask == arg->mask &&
            own->value == arg->value)
            return true;
    }
    return false;
}

static bool is_any(const struct pin_syscall_entry *entry) {
    return strcmp(entry->name, "*") == 0;
}

/* Comparisons must all hold, so each of the outer's must be one of the inner's. */
static bool has_args_of(const struct pin_syscall_entry *narrow, const struct pin_syscall_entry *wide) {
    for (size_t i = 0; i < wide->arg_count; i++)
        if (!has_arg(narrow, &wide->args[i]))
            return false;
    return true;
}

/* A bare name grants no more of a call than its guard lets (syscalls_guard.h); one with arguments may grant
 * something else. */
static bool covers_allowed(const void *outer, const void *inner) {
    const struct pin_syscall_entry *wide = outer, *narrow = inner;
    if (is_any(wide))
        return true;
    return strcmp(wide->name, narrow->name) == 0 && (wide->arg_count > 0 || narrow->arg_count == 0) &&
           has_args_of(narrow, wide);
}

static bool covers_denied(const void *outer, const void *inner) {
    const struct pin_syscall_entry *wide = outer, *narrow = inner;
    return (is_any(wide) || strcmp(wide->name, narrow->name) == 0) && has_args_of(narrow, wide);
}

pin_covers *pin_covers_of(const struct pin_field_row *row) {
    switch ((int)row->type) {
    case PIN_TYPE_IMAGES: return covers_image;
    case PIN_TYPE_MOUNTS: return covers_mount;
    case PIN_TYPE_EGRESS: return covers_egress;
    case PIN_TYPE_DENY: return covers_denial;
    default: break;
    }
    switch ((int)row->field) {
    case PIN_FIELD_WRITE: return covers_path;
    case PIN_FIELD_ENGINE_ROOTS:
    case PIN_FIELD_ENGINE_READ:
    case PIN_FIELD_ENGINE_WRITE:
    case PIN_FIELD_ENGINE_CGROUPS: return covers_host_path;
    case PIN_FIELD_ENGINE_HOOKS: return covers_hook;
    case PIN_FIELD_PUBLISH: return covers_publish;
    case PIN_FIELD_SYSCALLS_ALLOW: return covers_allowed;
    case PIN_FIELD_SYSCALLS_DENY: return covers_denied;
    case PIN_FIELD_PASS:
    case PIN_FIELD_REFUSE:
    case PIN_FIELD_SECRETS: return covers_glob;
    default: return covers_same;
    }
}

static size_t item_size(const struct pin_field_row *row) {
    switch ((int)row->type) {
    case PIN_TYPE_IMAGES: return sizeof(struct pin_image_rule);
    case PIN_TYPE_MOUNTS: return sizeof(struct pin_mount_rule);
    case PIN_TYPE_EGRESS:
    case PIN_TYPE_DENY: return sizeof(struct pin_egress_rule);
    case PIN_TYPE_BUDGETS: return sizeof(struct pin_egress_budget);
    case PIN_TYPE_SYSCALLS: return sizeof(struct pin_syscall_entry);
    case PIN_TYPE_VARIABLES: return sizeof(struct pin_variable);
    default: return sizeof(struct pin_string);
    }
}

struct pin_list pin_list_of(const struct pin_policy *policy, const struct pin_field_row *row) {
    const char *base = (const char *)policy;
    struct pin_list list = {.size = item_size(row)};
    memcpy(&list.items, base + row->offset, sizeof(list.items));
    memcpy(&list.count, base + row->count_offset, sizeof(list.count));
    return list;
}
