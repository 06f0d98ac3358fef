#include <linux/mount.h>

#include "base/units.h"
#include "images/rootfs.h"
#include "runtime/plan/plan_parts.h"

#define MOUNT_POINTS_BYTES (4 * PIN_MIB) /* of a read-only root: room for 4096 mount points */
#define DISK_LEAST_BYTES (4 * PIN_MIB)
#define DISK_MOST_BYTES (8192 * PIN_GIB) /* with blocks that are counted in 32 bits */

static void add_layer(struct pin_plan *plan, const char *path) {
    struct pin_op *op = pin_arena_grow(&plan->arena, &plan->layers, &plan->layer_count, sizeof(*op));
    op->kind = PIN_OP_BIND;
    op->target = "";
    op->source = path;
    op->attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    op->idmap = plan->privileged ? PIN_IDMAP_SANDBOX : PIN_IDMAP_NONE;
}

/* Nobody else can hold it to its size. */
static void check_disk(const struct pin_plan *plan, struct pin_findings *found) {
    if (!plan->privileged)
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/filesystem/root_storage",
                       "run it as root, or set it to \"memory\"",
                       "an ordinary user can't hold a root on disk to its size");
    if (plan->upper_bytes == PIN_UNLIMITED)
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/filesystem/root_size", "give it one, such as \"4GiB\"",
                       "a root on disk needs a size");
    else if (plan->upper_bytes < DISK_LEAST_BYTES)
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/filesystem/root_size",
                       "raise it, or set root_storage to \"memory\"", "a root on disk has at least 4MiB");
    else if (plan->upper_bytes > DISK_MOST_BYTES)
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/filesystem/root_size", "lower it",
                       "a root on disk has at most 8TiB");
}

static void set_upper(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    plan->root = PIN_ROOT_FROM_LAYERS;
    bool writable = !bundle->root.read_only && bundle->ext.root_overlay.enabled;
    plan->root_read_only = !writable;
    plan->hands_upper = writable;
    plan->upper_bytes = writable ? bundle->ext.root_overlay.size_bytes : MOUNT_POINTS_BYTES;
    plan->upper_on_disk = writable && bundle->ext.root_overlay.storage == PIN_ROOT_ON_DISK;
    if (plan->upper_on_disk)
        check_disk(plan, found);
}

void pin_plan_layers(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_rootfs *rootfs = plan->bundle->rootfs;
    if (rootfs->layer_count == 0 || rootfs->layer_count > PIN_PLAN_LAYERS_MAX)
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/pinfold/layers", NULL,
                       "a root has 1 to %d layers, not %zu", PIN_PLAN_LAYERS_MAX, rootfs->layer_count);
    for (size_t i = 0; i < rootfs->layer_count; i++)
        add_layer(plan, rootfs->layers[i]);
    set_upper(plan, found);
}

void pin_plan_directory_overlay(struct pin_plan *plan, const char *path, struct pin_findings *found) {
    add_layer(plan, path);
    set_upper(plan, found);
}

void pin_plan_missing_entries(struct pin_plan *plan) {
    const struct pin_rootfs *rootfs = plan->bundle->rootfs;
    for (size_t i = 0; i < rootfs->entry_count; i++) {
        const struct pin_rootfs_entry *entry = &rootfs->entries[i];
        struct pin_op *op = pin_plan_add_op(
            plan, entry->kind == PIN_ENTRY_FILE ? PIN_OP_FILE : PIN_OP_DIRECTORY, entry->path);
        op->content = entry->content;
        op->size = entry->size;
        op->mode = entry->mode;
        op->make_target = true;
    }
}
