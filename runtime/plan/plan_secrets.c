#include <string.h>

#include <linux/mount.h>

#include "base/names.h"
#include "runtime/plan/plan_parts.h"
#include "runtime/secrets/secret_spec.h"

/* ramfs: unlike those of a tmpfs, its pages are never written to swap. It has no limit of its size, so that
 * nobody inside may write to it. */
static void add_folder(struct pin_plan *plan) {
    static const char *const options[] = {"mode", "0755"};
    struct pin_op *op = pin_plan_add_op(plan, PIN_OP_FILESYSTEM, PIN_SECRETS_FOLDER);
    op->type = "ramfs";
    op->options = pin_arena_memdup(&plan->arena, options, sizeof(options));
    op->option_count = 1;
    op->attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    op->make_target = op->no_symlinks = true;
}

static void add_file(struct pin_plan *plan, const struct pin_secret_spec *spec) {
    struct pin_op *op = pin_plan_add_op(
        plan, PIN_OP_FILE, pin_arena_printf(&plan->arena, "%s/%s", PIN_SECRETS_FOLDER, spec->target));
    op->secret = pin_arena_strdup(&plan->arena, spec->name);
    op->mode = 0400;
}

void pin_plan_secrets(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle_ext *ext = &plan->bundle->ext;
    size_t files = ext->secret_folder;
    if (ext->secret_folder)
        add_folder(plan);
    for (size_t i = 0; i < ext->secret_count; i++) {
        struct pin_secret_spec spec;
        struct pin_error err = {0};
        if (!pin_secret_spec_parse(ext->secrets[i], &spec, &err)) {
            pin_find_error(found, &err);
        } else if (spec.form == PIN_SECRET_FILE) {
            if (files++ == 0)
                add_folder(plan);
            add_file(plan, &spec);
        }
    }
    if (files > 0)
        (void)pin_plan_add_op(plan, PIN_OP_SEAL, PIN_SECRETS_FOLDER);
}
