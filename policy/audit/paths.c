#include "policy/audit/paths.h"

#include <string.h>

#include "base/names.h"
#include "policy/checks.h"
#include "policy/grants.h"

static const char *const layer_names[] = {
    [PIN_PATH_ROOT] = "the image's root",       [PIN_PATH_PROC] = "/proc of the sandbox",
    [PIN_PATH_DEVICES] = "/dev of the sandbox", [PIN_PATH_SCRATCH] = "scratch memory",
    [PIN_PATH_WORKSPACE] = "the workspace",     [PIN_PATH_MOUNT] = "a mount of the policy",
};
_Static_assert(PIN_COUNT(layer_names) == PIN_PATH_LAYER_COUNT, "every layer has a name");

const char *pin_path_layer_name(enum pin_path_layer layer) {
    return layer_names[layer];
}

static bool has_workspace(const struct pin_policy *policy) {
    return policy->filesystem.workspace != PIN_ACCESS_NONE;
}

static bool is_mounted(const struct pin_policy *policy, const char *path) {
    for (size_t i = 0; i < policy->filesystem.mount_count; i++)
        if (pin_path_beneath(path, policy->filesystem.mounts[i].target))
            return true;
    return false;
}

/* Whether an entry of filesystem.write is a tmpfs of its own; `before` are the entries in front of it. */
static bool is_scratch(const struct pin_policy *policy, const char *path, size_t before) {
    bool own = strcmp(path, "/tmp") == 0 || strcmp(path, "/dev/shm") == 0;
    if (policy->filesystem.tmp_bytes == 0 || strcmp(path, "/") == 0 ||
        pin_path_beneath(path, PIN_WORKSPACE_TARGET) || is_mounted(policy, path) ||
        (policy->filesystem.root == PIN_ROOT_OVERLAY && !own))
        return false;
    for (size_t i = 0; i < before; i++) {
        const char *earlier = policy->filesystem.write.items[i].text;
        if (pin_path_beneath(path, earlier) && is_scratch(policy, earlier, i))
            return false; /* the tmpfs that lies above has it already */
    }
    return true;
}

static bool in_scratch(const struct pin_policy *policy, const char *path) {
    for (size_t i = 0; i < policy->filesystem.write.count; i++) {
        const char *entry = policy->filesystem.write.items[i].text;
        if (pin_path_beneath(path, entry) && is_scratch(policy, entry, i))
            return true;
        if (strcmp(entry, "/") == 0 && policy->filesystem.root == PIN_ROOT_OVERLAY &&
            pin_path_beneath(path, "/dev/shm"))
            return policy->filesystem.tmp_bytes > 0; /* which "/" over an overlay brings along */
    }
    return false;
}

static const struct pin_mount_rule *last_mount(const struct pin_policy *policy, const char *path) {
    for (size_t i = policy->filesystem.mount_count; i > 0; i--)
        if (pin_path_beneath(path, policy->filesystem.mounts[i - 1].target))
            return &policy->filesystem.mounts[i - 1];
    return NULL;
}

static void judge_layer(const struct pin_policy *policy, const char *path, struct pin_path_fate *fate) {
    fate->mount = last_mount(policy, path);
    if (fate->mount != NULL) {
        fate->layer = PIN_PATH_MOUNT;
        fate->layer_writes = fate->mount->access == PIN_ACCESS_WRITE;
    } else if (has_workspace(policy) && pin_path_beneath(path, PIN_WORKSPACE_TARGET)) {
        fate->layer = PIN_PATH_WORKSPACE;
        fate->layer_writes = policy->filesystem.workspace != PIN_ACCESS_READ;
    } else if (in_scratch(policy, path)) {
        fate->layer = PIN_PATH_SCRATCH;
        fate->layer_writes = true;
    } else if (pin_path_beneath(path, "/dev")) {
        fate->layer = PIN_PATH_DEVICES;
        fate->layer_writes = true; /* the nodes; the folder itself belongs to nobody inside */
    } else if (pin_path_beneath(path, "/proc")) {
        fate->layer = PIN_PATH_PROC;
        fate->layer_writes = true;
    } else {
        fate->layer = PIN_PATH_ROOT;
        fate->layer_writes = policy->filesystem.root == PIN_ROOT_OVERLAY;
    }
}

static void judge_landlock(const struct pin_policy *policy, const char *path, struct pin_path_fate *fate) {
    fate->landlock_writes = pin_path_beneath(path, "/dev") || pin_policy_lets_write(policy, path);
    for (size_t i = 0; i < policy->filesystem.write.count; i++) {
        const struct pin_string *entry = &policy->filesystem.write.items[i];
        if (fate->write == NULL && pin_path_beneath(path, entry->text))
            fate->write = entry;
    }
}

struct pin_path_fate pin_path_judge(const struct pin_policy *policy, const char *path) {
    struct pin_path_fate fate = {0};
    judge_layer(policy, path, &fate);
    judge_landlock(policy, path, &fate);
    return fate;
}
