#include "tools/pinfold-policy/input.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "policy/checks.h"
#include "policy/policy_order.h"
#include "policy/policy_read.h"
#include "policy/policy_snapshot.h"
#include "policy/site.h"
#include "runtime/bundle/bundle_ceiling.h"
#include "runtime/bundle/bundle_read.h"
#include "runtime/bundle/resolve.h"
#include "runtime/kept/home.h"
#include "runtime/state/state_dir.h"
#include "tools/pinfold/report.h"

static bool apply_site(struct pin_policy *policy, const char *path, struct pin_findings *found) {
    size_t before = found->count + found->dropped;
    struct pin_policy *site = pin_site_load(path, found);
    bool good = found->count + found->dropped == before && pin_site_apply(policy, site, found);
    pin_policy_free(site);
    return good;
}

static bool lists_host_image(const struct pin_policy *policy) {
    return pin_request_image_rule(policy, "host", NULL) != NULL;
}

static bool make_host_root(struct pin_arena *arena, const struct pin_policy *policy,
                           struct pin_rootfs *rootfs) {
    const struct pin_rootfs_identity identity = {policy->identity.user, policy->identity.group,
                                                 PIN_DEFAULT_HOSTNAME};
    struct pin_error ignored = {0}; /* then it isn't known what the root shows */
    return lists_host_image(policy) && pin_rootfs_host(arena, &identity, rootfs, &ignored);
}

/* What the bundle asks for takes the policy's place. What it may not have is a finding: it would be refused.
 */
static bool apply_bundle(struct pin_input *input, const char *directory, struct pin_findings *found) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_rootfs rootfs = {0};
    struct pin_bundle *bundle = pin_bundle_read(directory, found);
    if (bundle == NULL)
        return false;
    bool host = make_host_root(&arena, input->policy, &rootfs);
    struct pin_policy *asked = pin_bundle_as_policy(bundle, input->policy, host ? &rootfs : NULL);
    size_t before = found->count;
    bool granted = pin_policy_narrower(asked, input->policy, found);
    pin_wrap_findings(found, before, "bundle '%s'", directory);
    pin_bundle_state_places(asked, input->policy);
    pin_policy_seal(asked);
    pin_bundle_free(bundle);
    pin_policy_free(input->policy);
    input->policy = asked;
    return granted;
}

/* The policy that a kept sandbox was made with; the site's word is in it already. */
static struct pin_policy *load_sandbox(const char *name, struct pin_findings *found) {
    struct pin_error err = {0};
    PIN_CLOSE int state = pin_state_open(&err);
    PIN_CLOSE int folder = state < 0 ? -1 : pin_home_open(state, name, &err);
    json_t *snapshot = folder < 0 ? NULL : pin_home_read(folder, "policy.json", &err);
    struct pin_policy *policy =
        snapshot != NULL ? pin_policy_from_snapshot(snapshot, PIN_INPUT_SANDBOX, found) : NULL;
    json_decref(snapshot);
    if (policy == NULL && pin_is_set(&err))
        pin_find_error(found, &err);
    return policy;
}

/* "bundle:DIR" stands for --bundle DIR, where several subjects are named. */
static const char *bundle_of(const char *name, const struct pin_input_options *options) {
    size_t size = strlen(PIN_INPUT_BUNDLE);
    return name != NULL && strncmp(name, PIN_INPUT_BUNDLE, size) == 0 ? name + size : options->bundle;
}

static bool load_policy(struct pin_input *input, const char *name, const struct pin_input_options *options,
                        struct pin_findings *found) {
    if (pin_input_is_sandbox(name)) {
        input->policy = load_sandbox(name + strlen(PIN_INPUT_SANDBOX), found);
        return input->policy != NULL;
    }
    const char *bundle = bundle_of(name, options), *fallback = bundle != NULL ? "oci" : "tool";
    bool named = name != NULL && bundle == options->bundle;
    input->policy = pin_policy_load(named ? name : fallback, found);
    return input->policy != NULL && apply_site(input->policy, options->site, found);
}

bool pin_input_is_sandbox(const char *name) {
    return name != NULL && strncmp(name, PIN_INPUT_SANDBOX, strlen(PIN_INPUT_SANDBOX)) == 0;
}

bool pin_input_load(struct pin_input *input, const char *name, const struct pin_input_options *options,
                    struct pin_findings *found) {
    const char *bundle = bundle_of(name, options);
    return load_policy(input, name, options, found) &&
           (bundle == NULL || apply_bundle(input, bundle, found)) &&
           pin_reach_make(&input->reach, input->policy, pin_arch_native(), found);
}

void pin_input_free(struct pin_input *input) {
    pin_reach_free(&input->reach);
    pin_policy_free(input->policy);
}

const char *pin_input_argument(const struct pin_invocation *invocation, size_t index) {
    return index < invocation->argument_count ? invocation->arguments[index] : NULL;
}

char *pin_input_file(const char *path, size_t limit, size_t *size, struct pin_findings *found) {
    struct pin_error err = {0};
    bool standard = strcmp(path, "-") == 0;
    char *text = standard ? pin_read_all(STDIN_FILENO, limit, size, &err)
                          : pin_read_file_at(AT_FDCWD, path, limit, size, &err);
    if (text == NULL) {
        (void)pin_point(&err, "%s", path);
        pin_find_error(found, &err);
    }
    return text;
}

/* --- what the host image shows --- */

/* Follows the skeleton's own links ("/bin" is "usr/bin"); the rest of a path is the host's affair. */
static const char *follow(const struct pin_rootfs *rootfs, struct pin_arena *arena, const char *path) {
    for (size_t i = 0; i < rootfs->entry_count; i++) {
        const struct pin_rootfs_entry *entry = &rootfs->entries[i];
        if (entry->kind != PIN_ENTRY_SYMLINK)
            continue;
        char *link = pin_arena_printf(arena, "/%s", entry->path);
        if (!pin_path_beneath(path, link))
            continue;
        const char *rest = path + strlen(link), *slash = strrchr(link, '/');
        if (entry->content[0] == '/')
            return pin_arena_printf(arena, "%s%s", entry->content, rest);
        return pin_arena_printf(arena, "%.*s/%s%s", (int)(slash - link), link, entry->content, rest);
    }
    return NULL;
}

static bool shows(const struct pin_rootfs *rootfs, const char *path) {
    for (size_t i = 0; i < rootfs->bind_count; i++) {
        const char *target = rootfs->binds[i].target, *inside = path + 1;
        size_t length = strlen(target);
        if (strncmp(inside, target, length) != 0 || (inside[length] != '/' && inside[length] != '\0'))
            continue;
        PIN_FREE char *host = NULL; /* below a bind it is there if the host has it */
        return asprintf(&host, "%s%s", rootfs->binds[i].source, inside + length) > 0 &&
               faccessat(AT_FDCWD, host, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    }
    for (size_t i = 0; i < rootfs->entry_count; i++)
        if (strcmp(rootfs->entries[i].path, path + 1) == 0)
            return true;
    return strcmp(path, "/") == 0;
}

#define LINKS_MAX 8

static bool host_shows(const void *context, const char *path) {
    const struct pin_rootfs *rootfs = context;
    PIN_ARENA struct pin_arena arena = {0};
    for (int i = 0; i < LINKS_MAX; i++) {
        const char *next = follow(rootfs, &arena, path);
        if (next == NULL)
            break;
        path = next;
    }
    return shows(rootfs, path);
}

const struct pin_why_root *pin_input_root(struct pin_input_root *root, const struct pin_policy *policy) {
    if (!make_host_root(&root->arena, policy, &root->rootfs))
        return NULL;
    root->root = (struct pin_why_root){"host", host_shows, &root->rootfs};
    return &root->root;
}

/* --- output --- */

/* A full disk or a closed pipe is no good answer. */
static int finish(int code) {
    struct pin_error err = {0};
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    (void)pin_fail_errno(&err, "write the answer");
    (void)pin_report(&err, false);
    return PIN_AUDIT_ERROR;
}

int pin_output_json(json_t *value, int code) {
    if (value == NULL)
        return PIN_AUDIT_ERROR; /* a text that isn't UTF-8: parsers let none through */
    (void)json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    (void)fputc('\n', stdout);
    json_decref(value);
    return finish(code);
}

int pin_output_text(struct pin_buffer *text, int code) {
    if (text->size > 0)
        (void)fwrite(text->data, 1, text->size, stdout);
    pin_buffer_free(text);
    return finish(code);
}
