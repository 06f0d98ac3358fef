#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "policy/checks.h"
#include "policy/label_rules.h"
#include "policy/policy_order.h"
#include "policy/policy_read.h"
#include "runtime/bundle/bundle_ceiling.h"
#include "runtime/bundle/bundle_wall.h"
#include "runtime/bundle/fill.h"
#include "runtime/bundle/resolve.h"
#include "runtime/bundle/resolve_env.h"
#include "runtime/bundle/resolve_mounts.h"

/* A bind's source may be relative to the bundle: config.md "Mounts". */
void pin_bundle_make_sources_absolute(struct pin_bundle *bundle) {
    for (size_t i = 0; i < bundle->mount_count; i++) {
        struct pin_bundle_mount *mount = &bundle->mounts[i];
        if (bundle->directory != NULL && mount->source != NULL && mount->source[0] != '/' &&
            pin_bundle_mount_is_bind(mount))
            mount->source = pin_arena_printf(&bundle->arena, "%s/%s", bundle->directory, mount->source);
    }
}

static void merge_labels(struct pin_bundle *bundle, const struct pin_request *request) {
    struct pin_bundle_ext *ext = &bundle->ext;
    for (size_t i = 0; i < request->label_count; i++) {
        const struct pin_pair *label = &request->labels[i];
        struct pin_pair *place = NULL;
        for (size_t j = 0; j < ext->label_count && place == NULL; j++)
            if (strcmp(ext->labels[j].key, label->key) == 0)
                place = &ext->labels[j];
        if (place == NULL) {
            place = pin_arena_array(&bundle->arena, ext->label_count + 1, sizeof(*place));
            if (ext->label_count > 0)
                memcpy(place, ext->labels, ext->label_count * sizeof(*place));
            ext->labels = place;
            place = &ext->labels[ext->label_count++];
        }
        *place = (struct pin_pair){pin_arena_strdup(&bundle->arena, label->key),
                                   pin_arena_strdup(&bundle->arena, label->value)};
    }
}

static const char **copy_list(struct pin_bundle *bundle, const char *const *items, size_t count) {
    const char **list = pin_arena_array(&bundle->arena, count, sizeof(*list));
    for (size_t i = 0; i < count; i++)
        list[i] = pin_arena_strdup(&bundle->arena, items[i]);
    return list;
}

static void override_process(struct pin_bundle *bundle, const struct pin_request *request) {
    if (request->arg_count > 0) {
        bundle->process.args = copy_list(bundle, request->args, request->arg_count);
        bundle->process.arg_count = request->arg_count;
    }
    if (request->cwd != NULL)
        bundle->process.cwd = pin_arena_strdup(&bundle->arena, request->cwd);
    if (request->hostname != NULL)
        bundle->hostname = pin_arena_strdup(&bundle->arena, request->hostname);
    if (request->tty) {
        bundle->process.terminal = true;
        bundle->process.console_rows = request->rows;
        bundle->process.console_columns = request->columns;
    }
    if (request->has_user)
        bundle->process.uid = request->user;
    if (request->has_group)
        bundle->process.gid = request->group;
    if (request->has_frames)
        bundle->ext.frames = request->frames;
}

static void override_workspace(struct pin_bundle *bundle, const struct pin_request *request,
                               const struct pin_policy *effective, struct pin_findings *found) {
    if (request->workspace.source == NULL)
        return;
    if (bundle->ext.workspace.source != NULL) {
        if (strcmp(bundle->ext.workspace.source, request->workspace.source) != 0)
            (void)pin_find(found, PIN_ERROR_USAGE, "--workspace", "leave out one of them",
                           "the bundle has another workspace already");
        return;
    }
    bundle->ext.workspace.source = pin_arena_strdup(&bundle->arena, request->workspace.source);
    bundle->ext.workspace.target = PIN_WORKSPACE_TARGET;
    bundle->ext.workspace.access = effective->filesystem.workspace;
    bundle->ext.workspace.on_exit = request->workspace.on_exit;
    if (effective->filesystem.workspace == PIN_ACCESS_COW)
        bundle->ext.workspace.size_bytes = effective->filesystem.workspace_size_bytes;
    pin_fill_workspace_landlock(bundle);
}

/* The bundle's own wishes, and the request's. */
static void merge_secrets(struct pin_bundle *bundle, const struct pin_request *request,
                          const struct pin_policy *ceiling, struct pin_findings *found) {
    struct pin_bundle_ext *ext = &bundle->ext;
    const char **all =
        pin_arena_array(&bundle->arena, ext->secret_count + request->secret_count, sizeof(*all));
    size_t count = 0;
    for (size_t i = 0; i < ext->secret_count; i++)
        all[count++] = ext->secrets[i];
    for (size_t i = 0; i < request->secret_count; i++)
        all[count++] = pin_arena_strdup(&bundle->arena, request->secrets[i]);
    if (ext->secret_count > 0 && !request->hands_secrets)
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "config.json /pinfold/secrets", "leave it out",
                       "handing over secrets by this front door isn't in this build");
    ext->secrets = all;
    ext->secret_count = count;
    pin_request_check_secrets(ceiling, all, count, found);
}

static bool grants_workspace(const struct pin_policy *policy, const struct pin_bundle *bundle) {
    enum pin_access access =
        bundle->ext.workspace.access == PIN_ACCESS_WRITE ? PIN_ACCESS_WRITE : PIN_ACCESS_READ;
    for (size_t i = 0; i < policy->filesystem.mount_count; i++) {
        const struct pin_mount_rule *rule = &policy->filesystem.mounts[i];
        if (access <= rule->access && pin_path_beneath(bundle->ext.workspace.source, rule->source) &&
            pin_path_beneath(bundle->ext.workspace.target, rule->target))
            return true;
    }
    return false;
}

/* A policy says how writable a workspace may be, and who runs the command says which directory it is. An
 * author who could name one would name the host's own. */
static void check_workspace(const struct pin_bundle *bundle, const struct pin_request *request,
                            const struct pin_policy *policy, struct pin_findings *found) {
    const char *source = bundle->ext.workspace.source, *target = bundle->ext.workspace.target;
    if (source == NULL)
        return;
    if (!pin_is_plain_path(source))
        (void)pin_find(found, PIN_ERROR_INVALID, "config.json /pinfold/workspace/source",
                       "an absolute path without '.' and '..'", "'%.120s' can't be a workspace", source);
    else if (request->workspace.source == NULL && !grants_workspace(policy, bundle))
        (void)pin_find(found, PIN_ERROR_REFUSED, "config.json /pinfold/workspace/source",
                       "name it with --workspace as well, or grant it in filesystem.mounts",
                       "the bundle chooses '%.120s' as its workspace", source);
    const char *fault = pin_check_mount_target(target, false);
    if (fault != NULL)
        (void)pin_find(found, PIN_ERROR_INVALID, "config.json /pinfold/workspace/target", NULL, "%s", fault);
}

static void check_process(const struct pin_bundle *bundle, const struct pin_policy *ceiling,
                          struct pin_findings *found) {
    if (bundle->process.arg_count == 0)
        (void)pin_find(found, PIN_ERROR_USAGE, "config.json /process/args", "write a command after --",
                       "there is no command to run");
    if (bundle->process.cwd == NULL || bundle->process.cwd[0] != '/')
        (void)pin_find(found, PIN_ERROR_INVALID, "config.json /process/cwd", "write an absolute path",
                       "the working directory is not absolute");
    for (size_t i = 0; i < bundle->process.group_count; i++)
        if (bundle->process.groups[i] != ceiling->identity.group && ceiling->identity.group != 0)
            (void)pin_find(found, PIN_ERROR_REFUSED, "config.json /process/user/additionalGids",
                           "leave it out", "the policy doesn't grant the group %u",
                           bundle->process.groups[i]);
}

static void check_environment(const struct pin_bundle *bundle, const struct pin_policy *ceiling,
                              struct pin_findings *found) {
    for (size_t i = 0; i < bundle->process.env_count; i++) {
        const char *variable = bundle->process.env[i], *refused = NULL;
        char name[128], shown[160], pointer[64];
        size_t length = strcspn(variable, "=");
        (void)snprintf(name, sizeof(name), "%.*s", (int)(length < sizeof(name) ? length : sizeof(name)),
                       variable);
        (void)snprintf(pointer, sizeof(pointer), "config.json /process/env/%zu", i);
        if (length == 0 || variable[length] != '=')
            (void)pin_find(found, PIN_ERROR_INVALID, pointer, "write NAME=VALUE", "this is no variable");
        for (size_t j = 0; j < ceiling->environment.refuse.count && refused == NULL; j++)
            if (pin_glob_match(ceiling->environment.refuse.items[j].text, name))
                refused = ceiling->environment.refuse.items[j].text;
        if (refused != NULL)
            (void)pin_find(found, PIN_ERROR_REFUSED, pointer, "leave the variable out",
                           "the policy refuses the variable '%s' ('%s')",
                           pin_escape(shown, sizeof(shown), name, strlen(name)), refused);
    }
}

static bool lists_host_image(const struct pin_policy *ceiling) {
    const struct pin_image_rule *rule = pin_request_image_rule(ceiling, "host", NULL);
    return rule != NULL && !rule->require_signature;
}

static void compare_with(const struct pin_bundle *bundle, const struct pin_policy *effective,
                         const struct pin_request *request, struct pin_findings *found) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_rootfs host = {0};
    struct pin_rootfs_identity identity = {bundle->process.uid, bundle->process.gid, bundle->hostname};
    struct pin_error ignored = {
        0}; /* a host without a merged /usr has no host image whose binds could match */
    bool have = lists_host_image(effective) && pin_rootfs_host(&arena, &identity, &host, &ignored);
    struct pin_policy *asked = pin_bundle_as_policy(bundle, effective, have ? &host : NULL);
    pin_request_check_supported(asked, request, found);
    size_t before = found->count;
    (void)pin_policy_narrower(asked, effective, found);
    pin_wrap_findings(found, before, "the bundle");
    pin_policy_free(asked);
}

/* nosuid and nodev for whatever is mounted: the files of a bundle are nobody's word. */
static void harden_mounts(struct pin_bundle *bundle) {
    for (size_t i = 0; i < bundle->mount_count; i++) {
        struct pin_bundle_mount *mount = &bundle->mounts[i];
        bool bind = pin_bundle_mount_is_bind(mount);
        const char *more[] = {bind ? "rnosuid" : "nosuid", bind ? "rnodev" : "nodev"};
        bool dev = strcmp(mount->destination, "/dev") == 0 || strcmp(mount->destination, "/dev/pts") == 0;
        const char **options = pin_arena_array(&bundle->arena, mount->option_count + 2, sizeof(*options));
        size_t count = mount->option_count;
        if (count > 0)
            memcpy(options, mount->options, count * sizeof(*options));
        for (size_t j = 0; j < (dev ? 1 : PIN_COUNT(more)); j++)
            if (!pin_bundle_mount_has(mount, more[j]))
                options[count++] = more[j];
        mount->options = options;
        mount->option_count = count;
    }
}

static bool fill(struct pin_bundle *bundle, const struct pin_policy *effective,
                 const struct pin_request *request, struct pin_findings *found) {
    struct pin_bundle_ext *ext = &bundle->ext;
    if (ext->workspace.source != NULL)
        pin_add_workspace_mount(bundle);
    harden_mounts(bundle);
    pin_override_env(bundle, effective, request);
    pin_fill_rlimits(bundle, effective);
    pin_fill_resources(bundle, effective);
    pin_fill_limits(ext, effective);
    pin_fill_grants(bundle, effective);
    pin_fill_masks(bundle);
    pin_fill_telling_masks(bundle);
    pin_fill_landlock(bundle, effective);
    ext->root_overlay.enabled = !bundle->root.read_only;
    if (ext->root_overlay.enabled && ext->root_overlay.size_bytes == 0) {
        ext->root_overlay.size_bytes = effective->filesystem.root_size_bytes;
        ext->root_overlay.storage = effective->filesystem.root_storage;
    }
    bundle->process.has_capabilities = true; /* a bundle that names none has none */
    bundle->namespaces[PIN_NS_TIME].present = true;
    if (!ext->present && !request->has_frames)
        ext->frames = effective->frames & (PIN_FRAMES_STDOUT | PIN_FRAMES_STDOUT_LETTA);
    ext->present = true;
    ext->policy_name = pin_arena_strdup(&bundle->arena, effective->name);
    memcpy(ext->policy_digest, effective->digest, sizeof(ext->policy_digest));
    memset(&bundle->seccomp, 0, sizeof(bundle->seccomp));
    return pin_policy_filter(effective, pin_arch_native(), &bundle->arena, &bundle->seccomp, found);
}

static void check_labels(const struct pin_bundle *bundle, const struct pin_policy *ceiling,
                         struct pin_findings *found) {
    const struct pin_bundle_ext *ext = &bundle->ext;
    unsigned causes = (ext->secret_count > 0 ? PIN_LABELS_FOR_SECRETS : 0) |
                      (ext->egress_count > 0 ? PIN_LABELS_FOR_EGRESS : 0);
    pin_request_check_labels(ceiling, causes, ext->labels, ext->label_count, found);
}

bool pin_bundle_admit(struct pin_bundle *bundle, const struct pin_policy *ceiling,
                      const struct pin_request *request, struct pin_findings *found) {
    size_t before = found->count + found->dropped;
    pin_bundle_make_sources_absolute(bundle);
    merge_labels(bundle, request);
    override_process(bundle, request);
    struct pin_request asked = *request;
    asked.bundle = true;
    asked.labels = bundle->ext.labels;
    asked.label_count = bundle->ext.label_count;
    struct pin_policy *effective = pin_request_narrow(ceiling, &asked, found);
    const struct pin_policy *judge = effective != NULL ? effective : ceiling;
    override_workspace(bundle, request, judge, found);
    merge_secrets(bundle, request, ceiling, found);
    check_labels(bundle, ceiling, found);
    pin_bundle_check_wall(bundle, found);
    pin_bundle_check_mounts(bundle, found);
    check_workspace(bundle, request, judge, found);
    check_process(bundle, ceiling, found);
    check_environment(bundle, ceiling, found);
    compare_with(bundle, judge, request, found);
    bool admitted = effective != NULL && found->count + found->dropped == before &&
                    fill(bundle, effective, request, found);
    pin_policy_free(effective);
    return admitted;
}
