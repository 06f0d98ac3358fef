#include "runtime/bundle/resolve.h"

#include <string.h>

#include "policy/checks.h"
#include "policy/policy_read.h"
#include "runtime/bundle/fill.h"
#include "runtime/bundle/resolve_env.h"
#include "runtime/bundle/resolve_mounts.h"

static const char *copy_text(struct pin_bundle *bundle, const char *text) {
    return text == NULL ? NULL : pin_arena_strdup(&bundle->arena, text);
}

static const char **copy_list(struct pin_bundle *bundle, const char *const *items, size_t count) {
    const char **list = pin_arena_array(&bundle->arena, count, sizeof(*list));
    for (size_t i = 0; i < count; i++)
        list[i] = copy_text(bundle, items[i]);
    return list;
}

static const char *working_directory(const struct pin_bundle *bundle, const struct pin_request *request) {
    if (request->cwd != NULL)
        return request->cwd;
    if (bundle->ext.workspace.source != NULL)
        return bundle->ext.workspace.target;
    for (size_t i = 0; i < bundle->mount_count; i++)
        if (strcmp(bundle->mounts[i].destination, "/tmp") == 0)
            return "/tmp";
    return "/";
}

static void set_process(struct pin_bundle *bundle, const struct pin_policy *policy,
                        const struct pin_request *request) {
    bundle->process.terminal = request->tty;
    bundle->process.console_rows = request->rows;
    bundle->process.console_columns = request->columns;
    bundle->process.args = copy_list(bundle, request->args, request->arg_count);
    bundle->process.arg_count = request->arg_count;
    bundle->process.cwd = copy_text(bundle, working_directory(bundle, request));
    bundle->process.uid = policy->identity.user;
    bundle->process.gid = policy->identity.group;
    bundle->process.has_umask = true;
    bundle->process.umask = 022;
    bundle->process.no_new_privileges = true;
    bundle->process.has_capabilities = true;
    bundle->process.capabilities[PIN_CAP_BOUNDING] = policy->capabilities;
    bundle->process.capabilities[PIN_CAP_EFFECTIVE] = policy->capabilities;
    bundle->process.capabilities[PIN_CAP_PERMITTED] = policy->capabilities;
    /* without ambient ones a user other than 0 would lose them at execve(2); inheritable is their ground */
    bundle->process.capabilities[PIN_CAP_INHERITABLE] = policy->capabilities;
    bundle->process.capabilities[PIN_CAP_AMBIENT] = policy->capabilities;
    pin_fill_rlimits(bundle, policy);
    pin_resolve_env(bundle, policy, request);
}

static void set_root(struct pin_bundle *bundle, const struct pin_policy *policy,
                     const struct pin_rootfs *rootfs) {
    bundle->rootfs = rootfs;
    if (rootfs->kind == PIN_ROOTFS_DIRECTORY)
        bundle->root.path = copy_text(bundle, rootfs->directory);
    if (rootfs->kind == PIN_ROOTFS_LAYERS) {
        bundle->ext.layers = copy_list(bundle, rootfs->layers, rootfs->layer_count);
        bundle->ext.layer_count = rootfs->layer_count;
    }
    bundle->root.read_only = policy->filesystem.root == PIN_ROOT_READ_ONLY;
    bundle->ext.root_overlay.enabled = policy->filesystem.root == PIN_ROOT_OVERLAY;
    if (bundle->ext.root_overlay.enabled) {
        bundle->ext.root_overlay.size_bytes = policy->filesystem.root_size_bytes;
        bundle->ext.root_overlay.storage = policy->filesystem.root_storage;
    }
}

static void set_workspace(struct pin_bundle *bundle, const struct pin_policy *policy,
                          const struct pin_request *request) {
    if (request->workspace.source == NULL || policy->filesystem.workspace == PIN_ACCESS_NONE)
        return;
    bundle->ext.workspace.source = copy_text(bundle, request->workspace.source);
    bundle->ext.workspace.target = PIN_WORKSPACE_TARGET;
    bundle->ext.workspace.access = policy->filesystem.workspace;
    bundle->ext.workspace.on_exit = request->workspace.on_exit;
    if (policy->filesystem.workspace == PIN_ACCESS_COW)
        bundle->ext.workspace.size_bytes = policy->filesystem.workspace_size_bytes;
}

static void copy_labels(struct pin_bundle *bundle, const struct pin_request *request) {
    bundle->ext.labels = pin_arena_array(&bundle->arena, request->label_count, sizeof(*bundle->ext.labels));
    bundle->ext.label_count = request->label_count;
    for (size_t i = 0; i < request->label_count; i++)
        bundle->ext.labels[i] = (struct pin_pair){.key = copy_text(bundle, request->labels[i].key),
                                                  .value = copy_text(bundle, request->labels[i].value)};
}

/* As the specification of images turns a configuration into one of a runtime (image-spec 1.1, conversion.md).
 * Labels of ours have a meaning in a bundle: an image has no say in that. */
static void copy_image_labels(struct pin_bundle *bundle, const struct pin_request *request) {
    bundle->annotations =
        pin_arena_array(&bundle->arena, request->image_label_count, sizeof(*bundle->annotations));
    for (size_t i = 0; i < request->image_label_count; i++) {
        const struct pin_pair *label = &request->image_labels[i];
        if (label->key[0] != '\0' && strncmp(label->key, "io.pinfold.", strlen("io.pinfold.")) != 0)
            bundle->annotations[bundle->annotation_count++] =
                (struct pin_pair){copy_text(bundle, label->key), copy_text(bundle, label->value)};
    }
}

static void set_ext(struct pin_bundle *bundle, const struct pin_policy *policy,
                    const struct pin_request *request) {
    struct pin_bundle_ext *ext = &bundle->ext;
    ext->present = true;
    ext->policy_name = copy_text(bundle, policy->name);
    memcpy(ext->policy_digest, policy->digest, sizeof(ext->policy_digest));
    ext->image = copy_text(bundle, request->image != NULL ? request->image : "host");
    pin_fill_limits(ext, policy);
    pin_fill_grants(bundle, policy);
    ext->frames = policy->frames;
    ext->secrets = copy_list(bundle, request->secrets, request->secret_count);
    ext->secret_count = request->secret_count;
    copy_labels(bundle, request);
    copy_image_labels(bundle, request);
}

struct pin_bundle *pin_resolve(const struct pin_policy *effective, const struct pin_request *request,
                               const struct pin_rootfs *rootfs, struct pin_findings *found) {
    struct pin_bundle *bundle = pin_bundle_new();
    bundle->oci_version = "1.2.0";
    bundle->hostname =
        copy_text(bundle, request->hostname != NULL ? request->hostname : PIN_DEFAULT_HOSTNAME);
    set_root(bundle, effective, rootfs);
    set_workspace(bundle, effective, request);
    set_ext(bundle, effective, request);
    pin_resolve_mounts(bundle, effective, rootfs);
    set_process(bundle, effective, request);
    pin_fill_resources(bundle, effective);
    pin_fill_landlock(bundle, effective);
    pin_fill_masks(bundle);
    pin_fill_telling_masks(bundle);
    for (size_t i = 0; i < PIN_NS_COUNT; i++)
        bundle->namespaces[i].present = true;
    if (!pin_policy_filter(effective, pin_arch_native(), &bundle->arena, &bundle->seccomp, found)) {
        pin_bundle_free(bundle);
        return NULL;
    }
    return bundle;
}
