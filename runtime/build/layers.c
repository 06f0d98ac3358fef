#include "runtime/build/layers.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "runtime/build/idmap.h"
#include "runtime/build/mounts.h"

static bool open_layer(const struct pin_plan *plan, const struct pin_op *op, int idmap,
                       struct pin_host_source *layer, struct pin_error *err) {
    if (!pin_source_open(op, layer, err))
        return false;
    if (!layer->directory)
        return pin_fail(err, PIN_ERROR_INVALID, "the layer '%s' is not a directory", op->source);
    if (plan->privileged)
        layer->tree = pin_source_clone(op, layer->path, false, idmap, err);
    return !plan->privileged || layer->tree >= 0;
}

bool pin_layers_open(const struct pin_plan *plan, uint32_t range, struct pin_host_source *layers,
                     struct pin_error *err) {
    const struct pin_id_map ids = {0, range, 65536};
    PIN_CLOSE int idmap = -1;
    if (plan->privileged && (idmap = pin_idmap_namespace(&ids, &ids, err)) < 0)
        return false;
    for (size_t i = 0; i < plan->layer_count; i++)
        if (!open_layer(plan, &plan->layers[i], idmap, &layers[i], err))
            return pin_wrap(err, "layer %zu of the image", i + 1);
    return true;
}

/* fsconfig(2) takes at most 255 bytes of a value: with names of one byte 127 layers have room in it. */
static char layer_name(size_t index) {
    static const char plain[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return index < sizeof(plain) - 1 ? plain[index] : (char)(0x80 + (index - (sizeof(plain) - 1)));
}
_Static_assert(62 + 0x100 - 0x80 >= PIN_PLAN_LAYERS_MAX && PIN_PLAN_LAYERS_MAX <= 128,
               "a byte names a layer");

#define MOUNT_POINTS_BYTES (4 * PIN_MIB) /* of layers, and of the disk */

/* Names of ours, relative to a directory that nobody else can reach. */
static const char *upper_name(const struct pin_plan *plan) {
    return plan->upper_on_disk ? "disk/upper" : "upper";
}

static bool make_upper(const struct pin_plan *plan, int disk, int scratch, struct pin_error *err) {
    if (plan->upper_on_disk) {
        PIN_CLOSE int at = -1;
        if (mkdirat(scratch, "disk", 0700) != 0 ||
            (at = openat(scratch, "disk", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
            return pin_fail_errno(err, "make the place of a root on disk");
        return pin_mounts_attach(disk, at, err);
    }
    /* the root's own mode and owner are those of the upper, whatever the image says */
    return (mkdirat(scratch, "upper", 0755) == 0 && mkdirat(scratch, "work", 0700) == 0) ||
           pin_fail_errno(err, "make the directories of the root's changes");
}

static int make_scratch(const struct pin_plan *plan, int disk, int over, struct pin_error *err) {
    char size[32] = "0", inodes[32] = "0"; /* no limit */
    uint64_t bytes = plan->upper_on_disk ? MOUNT_POINTS_BYTES : plan->upper_bytes;
    if (bytes != PIN_UNLIMITED) { /* a size of 0 would be none to tmpfs */
        (void)snprintf(size, sizeof(size), "%" PRIu64, bytes > 0 ? bytes : 1);
        (void)snprintf(inodes, sizeof(inodes), "%" PRIu64, pin_inodes_of(bytes));
    }
    const char *options[] = {"size", size, "nr_inodes", inodes, "mode", "0700"};
    PIN_CLOSE int fs = pin_mounts_new("tmpfs", options, 3, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    if (fs < 0 || !pin_mounts_attach(fs, over, err) || !make_upper(plan, disk, fs, err))
        return -1;
    return pin_steal_fd(&fs);
}

static bool attach_layer(const struct pin_op *op, struct pin_host_source *layer, int scratch, char name,
                         struct pin_error *err) {
    const char path[] = {name, '\0'};
    PIN_CLOSE int tree = pin_source_tree(op, layer, err);
    PIN_CLOSE int at = -1;
    if (tree < 0)
        return false;
    if (mkdirat(scratch, path, 0700) != 0 ||
        (at = openat(scratch, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        return pin_fail_errno(err, "make the place of a layer");
    return pin_mounts_attach(tree, at, err);
}

/* "2:1:0": overlayfs wants the topmost first. */
static void list_layers(size_t count, char list[2 * PIN_PLAN_LAYERS_MAX]) {
    char *at = list;
    for (size_t i = count; i > 0; i--) {
        *at++ = layer_name(i - 1);
        *at++ = i > 1 ? ':' : '\0';
    }
}

static int make_overlay(const struct pin_plan *plan, struct pin_error *err) {
    char list[2 * PIN_PLAN_LAYERS_MAX] = "";
    list_layers(plan->layer_count, list);
    /* what is on a disk of its own goes with the sandbox: nothing has to reach it in time ("volatile") */
    const char *options[] = {"lowerdir",  list,
                             "upperdir",  upper_name(plan),
                             "workdir",   plan->upper_on_disk ? "disk/work" : "work",
                             "userxattr", NULL,
                             "volatile",  NULL};
    int overlay = pin_mounts_new("overlay", options, plan->upper_on_disk ? 5 : 4,
                                 MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    if (overlay < 0)
        (void)pin_hint(err, "a root from layers needs overlayfs in user namespaces (Linux 5.11), on idmapped "
                            "mounts (Linux 5.19)");
    return overlay;
}

int pin_layers_mount(const struct pin_plan *plan, struct pin_host_sources *sources, int over, int *upper,
                     struct pin_error *err) {
    PIN_CLOSE int scratch = make_scratch(plan, sources->disk, over, err);
    if (scratch < 0)
        return -1;
    for (size_t i = 0; i < plan->layer_count; i++)
        if (!attach_layer(&plan->layers[i], &sources->layers[i], scratch, layer_name(i), err))
            return -1;
    PIN_CLOSE int changes =
        openat(scratch, upper_name(plan), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (changes < 0 || fchdir(scratch) != 0) {
        (void)pin_fail_errno(err, "enter the directory of the root's changes");
        return -1;
    }
    PIN_CLOSE int overlay = make_overlay(plan, err);
    /* The overlay holds its layers itself; nobody else is to reach them. */
    if (overlay >= 0 && (umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)) {
        (void)pin_fail_errno(err, "leave the directory of the root's changes");
        return -1;
    }
    if (overlay >= 0 && plan->hands_upper)
        *upper = pin_steal_fd(&changes);
    return pin_steal_fd(&overlay);
}
