#include "policy/policy_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "policy/buffer.h"
#include "policy/defaults.h"
#include "policy/policy_file.h"
#include "policy/policy_load.h"
#include "policy/policy_write.h"
#include "policy/reader.h"

#define CHAIN_MAX 16  /* files that extend one another */
#define FILES_MAX 128 /* files of one policy */

struct identity { /* of a file, however it was reached */
    dev_t device;
    ino_t inode;
    const char *name; /* of a built-in profile; NULL for a file */
    bool open;        /* its bases are being read: to reach it again is a loop */
};

struct load {
    struct pin_policy *policy;
    struct pin_findings *found;
    bool site;
    unsigned depth;
    struct identity files[FILES_MAX];
    size_t file_count;
};

static void apply(struct load *load, const struct pin_policy_file *file);

static bool same_file(const struct identity *seen, const struct pin_policy_file *file) {
    if (file->inode == 0)
        return seen->name != NULL && strcmp(seen->name, file->name) == 0;
    return seen->name == NULL && seen->inode == file->inode && seen->device == file->device;
}

static struct identity *find_seen(struct load *load, const struct pin_policy_file *file) {
    for (size_t i = 0; i < load->file_count; i++)
        if (same_file(&load->files[i], file))
            return &load->files[i];
    return NULL;
}

static const char *show_name(char *to, size_t room, const struct pin_json *node) {
    const char *name = json_string_value(node->value);
    return pin_escape(to, room, name, strlen(name));
}

/* A base that can't be opened is a fault of the line that wants it. */
static void blame(struct load *load, const struct pin_json_source *source, const struct pin_json *node,
                  size_t before) {
    if (load->found->count == before)
        return; /* dropped: the list is full */
    struct pin_error *err = &load->found->list[before];
    char shown[96];
    pin_json_where_is(err->pointer, sizeof(err->pointer), source, node);
    (void)pin_wrap(err, "extends '%s'", show_name(shown, sizeof(shown), node));
    if (err->kind == PIN_ERROR_NOT_FOUND)
        (void)pin_hint(err, "a path in 'extends' is relative to the file that names it");
}

/* A base that is reached twice counts once, at its first place: what stands between would be undone. */
static void apply_base(struct load *load, const struct pin_json_source *source, const struct pin_json *node,
                       const struct pin_policy_file *from) {
    struct pin_policy_file base = {0};
    char shown[96];
    const char *name = json_string_value(node->value);
    size_t before = load->found->count;
    if (!pin_policy_file_open(&base, name, from->name, from->folder, load->found)) {
        blame(load, source, node, before);
        return;
    }
    struct identity *seen = find_seen(load, &base);
    if (seen != NULL && seen->open)
        pin_json_fault(source, node, load->found, "leave it out", "'%s' extends itself",
                       show_name(shown, sizeof(shown), node));
    else if (seen == NULL && (load->file_count == FILES_MAX || load->depth == CHAIN_MAX))
        pin_json_fault(source, node, load->found, "extend fewer files, or write them as one",
                       "policies extend one another more than %d deep", CHAIN_MAX);
    else if (seen == NULL)
        apply(load, &base);
    pin_policy_file_close(&base);
}

static void apply_bases(struct load *load, const struct pin_json_source *source,
                        const struct pin_policy_file *file) {
    const struct pin_json *node = pin_json_member(source->root, "extends");
    if (node == NULL || node->value == NULL)
        return;
    if (load->site) {
        pin_json_fault_key(source, node, load->found, "write its limits into this file",
                           "a site's file extends nothing");
        return;
    }
    if (!json_is_array(node->value)) {
        pin_json_fault(source, node, load->found, "such as [\"tool\"]",
                       "expected a list of policies, found %s", pin_json_type_name(node->value));
        return;
    }
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        if (json_is_string(child->value))
            apply_base(load, source, child, file);
        else
            pin_json_fault(source, child, load->found, "such as \"tool\" or \"./base.json\"",
                           "expected a name or a path, found %s", pin_json_type_name(child->value));
    }
}

static void apply_text(struct load *load, const struct pin_policy_file *file) {
    struct pin_json_source source = {0};
    struct pin_reader reader = {load->policy, &source, load->found, load->site};
    const char *name = pin_arena_strdup(&load->policy->arena, file->name);
    if (pin_json_read(&source, name, file->text, file->size, load->found)) {
        apply_bases(load, &source, file);
        /* names say what a policy is called, and that is not inherited */
        load->policy->name = NULL;
        load->policy->description = "";
        pin_reader_apply(&reader);
    }
    pin_json_free(&source);
}

static void apply(struct load *load, const struct pin_policy_file *file) {
    struct identity *self = &load->files[load->file_count++];
    *self = (struct identity){file->device, file->inode, file->inode == 0 ? file->name : NULL, true};
    if (self->name != NULL)
        self->name = pin_arena_strdup(&load->policy->arena, file->name);
    load->depth++;
    apply_text(load, file);
    load->depth--;
    self->open = false;
}

/* "web" of "/etc/pinfold/policies/web.json" and of "built-in:web". */
static const char *name_of_file(struct pin_arena *arena, const char *file) {
    const char *start = strrchr(file, '/');
    start = start != NULL ? start + 1 : strncmp(file, "built-in:", 9) == 0 ? file + 9 : file;
    size_t length = strlen(start);
    if (length > 5 && strcmp(start + length - 5, ".json") == 0)
        length -= 5;
    const char *name = pin_arena_strndup(arena, start, length);
    return pin_is_name(name) ? name : "unnamed";
}

/* Names of calls and groups, and what no policy may allow, are faults of the file too. */
static void check_syscalls(const struct pin_policy *policy, struct pin_findings *found) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_policy checked = *policy; /* borrows everything */
    struct pin_filter filter = {0};
    for (size_t i = 0; i < checked.syscalls.allow_count; i++)
        if (strcmp(checked.syscalls.allow[i].name, "*") == 0)
            checked.syscalls.allow_count = 0; /* a site's "*": there is nothing to resolve */
    if (checked.syscalls.allow_count + checked.syscalls.deny_count > 0)
        (void)pin_policy_filter(&checked, pin_arch_native(), &arena, &filter, found);
}

/* It would grant nothing and count as more than every folder, in the order and for a reader's eye. */
static void check_write(const struct pin_policy *policy, struct pin_findings *found) {
    for (size_t i = 0; i < policy->filesystem.write.count; i++) {
        const struct pin_string *entry = &policy->filesystem.write.items[i];
        char pointer[sizeof(((struct pin_error *)NULL)->pointer)];
        if (strcmp(entry->text, "/") != 0 || policy->filesystem.root == PIN_ROOT_OVERLAY)
            continue;
        (void)snprintf(pointer, sizeof(pointer), "%s:%u:%u /filesystem/write/%zu", entry->place.file,
                       entry->place.line, entry->place.column, i);
        (void)pin_find(found, PIN_ERROR_INVALID, pointer,
                       "name folders, or set filesystem.root to \"overlay\"",
                       "'/' grants nothing while the root is read-only");
    }
}

/* What the whole has to be judged for. A list with faulty items has the others alone, whose numbers are then
 * not those of the file: the line says where they stand. */
static void check_whole(struct pin_policy *policy, bool site, bool faulty, struct pin_findings *found) {
    size_t first = found->count;
    pin_reader_give_budgets(policy, found);
    check_syscalls(policy, found);
    if (!site) /* whose lists grant nothing by themselves */
        check_write(policy, found);
    for (size_t i = first; faulty && i < found->count; i++) {
        char *number = strrchr(found->list[i].pointer, '/');
        if (number != NULL && number[strspn(number + 1, "0123456789") + 1] == '\0')
            *number = '\0';
    }
}

/* Each file extends the one before it. */
static struct pin_policy *load_files(const struct pin_policy_file *files, size_t count, bool site,
                                     struct pin_findings *found) {
    size_t before = found->count + found->dropped;
    struct pin_policy *policy = calloc(1, sizeof(*policy));
    if (policy == NULL)
        abort(); /* out of memory, as in arena.h */
    struct load load = {.policy = policy, .found = found, .site = site};
    policy->is_site = site;
    if (site)
        pin_policy_set_everything(policy);
    else
        pin_policy_set_defaults(policy);
    for (size_t i = 0; i < count; i++)
        apply(&load, &files[i]);
    check_whole(policy, site, found->count + found->dropped > before, found);
    if (found->count + found->dropped > before) {
        pin_policy_free(policy);
        return NULL;
    }
    if (policy->name == NULL)
        policy->name = name_of_file(&policy->arena, files[count - 1].name);
    pin_policy_seal(policy);
    return policy;
}

struct pin_policy *pin_policy_load_file(const struct pin_policy_file *file, bool site,
                                        struct pin_findings *found) {
    return load_files(file, 1, site, found);
}

struct pin_policy *pin_policy_load(const char *name_or_path, struct pin_findings *found) {
    struct pin_policy_file file = {0};
    struct pin_policy *policy = NULL;
    if (pin_policy_file_open(&file, name_or_path, "", 0, found))
        policy = pin_policy_load_file(&file, false, found);
    pin_policy_file_close(&file);
    return policy;
}

struct pin_policy *pin_policy_parse(const char *file, const char *text, size_t size,
                                    struct pin_findings *found) {
    if (size > PIN_POLICY_FILE_MAX) {
        (void)pin_find(found, PIN_ERROR_INVALID, file, PIN_HINT_LARGE, "the text has more than 4 MiB");
        return NULL;
    }
    char *name = strdup(file);
    if (name == NULL)
        abort();
    const char *slash = strrchr(file, '/');
    struct pin_policy_file source = {
        .name = name, .text = text, .size = size, .folder = slash != NULL ? (size_t)(slash - file) + 1 : 0};
    struct pin_policy *policy = pin_policy_load_file(&source, false, found);
    free(name);
    return policy;
}

struct pin_policy *pin_policy_edit(const struct pin_policy *base, const char *edit,
                                   struct pin_findings *found) {
    static char base_name[] = "the policy", edit_name[] = "the edit";
    PIN_BUFFER struct pin_buffer whole = {0}, change = {0};
    pin_policy_write(base, &whole);
    pin_buffer_printf(&change, "{\"pinfold\": 1, %s", edit + 1);
    const struct pin_policy_file files[] = {
        {.name = base_name, .text = whole.data,  .size = whole.size },
        {.name = edit_name, .text = change.data, .size = change.size},
    };
    return load_files(files, PIN_COUNT(files), false, found);
}
