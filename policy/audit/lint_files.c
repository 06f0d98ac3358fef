#include <string.h>

#include "base/names.h"
#include "policy/audit/lint_checks.h"
#include "policy/audit/paths.h"
#include "policy/audit/sensitive.h"
#include "policy/checks.h"

/* Host paths that hold more than a tool should see. `below`: a mount beneath them counts too. */
static void check_mount(const struct pin_lint_check *check, size_t index) {
    const struct pin_mount_rule *mount = &check->policy->filesystem.mounts[index];
    const char *pointer = pin_lint_item(check, PIN_FIELD_MOUNTS, index),
               *what = pin_sensitive_path(mount->source);
    if (what != NULL)
        pin_lint_add(check, PIN_LINT_SENSITIVE_MOUNT, pointer, &mount->place, "'%s' holds %s", mount->source,
                     what);
    if (mount->access != PIN_ACCESS_WRITE)
        return;
    struct pin_path_fate fate = pin_path_judge(check->policy, mount->target);
    if (fate.mount == mount && !pin_path_writable(&fate))
        pin_lint_add(check, PIN_LINT_MOUNT_NOT_WRITABLE, pointer, &mount->place,
                     "'%s' is mounted read-write and filesystem.write doesn't list it", mount->target);
    else
        pin_lint_add(check, PIN_LINT_WRITABLE_MOUNT, pointer, &mount->place,
                     "'%s' of the host can be written, as '%s'", mount->source, mount->target);
}

static void check_write(const struct pin_lint_check *check, size_t index) {
    const struct pin_policy *policy = check->policy;
    const struct pin_string *entry = &policy->filesystem.write.items[index];
    const char *pointer = pin_lint_item(check, PIN_FIELD_WRITE, index);
    bool over_workspace = policy->filesystem.workspace != PIN_ACCESS_NONE &&
                          strcmp(entry->text, PIN_WORKSPACE_TARGET) != 0 &&
                          pin_path_beneath(PIN_WORKSPACE_TARGET, entry->text);
    if (over_workspace) {
        pin_lint_add(check, PIN_LINT_WRITE_PARENT, pointer, &entry->place,
                     "'%s' may be written, and the workspace lies below it", entry->text);
        return;
    }
    for (size_t i = 0; i < policy->filesystem.mount_count; i++) {
        const char *target = policy->filesystem.mounts[i].target;
        if (strcmp(entry->text, target) == 0 || !pin_path_beneath(target, entry->text))
            continue;
        pin_lint_add(check, PIN_LINT_WRITE_PARENT, pointer, &entry->place,
                     "'%s' may be written, and the mount '%s' lies below it", entry->text, target);
        return;
    }
}

/* Of two entries the one that lies below the other says nothing. */
static void check_write_shadow(const struct pin_lint_check *check, size_t index) {
    const struct pin_strings *write = &check->policy->filesystem.write;
    const struct pin_string *entry = &write->items[index];
    if (pin_path_beneath(entry->text, "/dev/shm") || pin_path_beneath(entry->text, "/tmp"))
        return; /* these are mounts of their own, whatever else is listed */
    for (size_t i = 0; i < write->count; i++)
        if (i != index && pin_path_beneath(entry->text, write->items[i].text) &&
            (strcmp(entry->text, write->items[i].text) != 0 || i < index)) {
            pin_lint_add(check, PIN_LINT_SHADOWED, pin_lint_item(check, PIN_FIELD_WRITE, index),
                         &entry->place, "'%s' says nothing that '%s' doesn't", entry->text,
                         write->items[i].text);
            return;
        }
}

void pin_lint_check_files(const struct pin_lint_check *check) {
    const struct pin_policy *policy = check->policy;
    for (size_t i = 0; i < policy->filesystem.mount_count; i++)
        check_mount(check, i);
    for (size_t i = 0; i < policy->filesystem.write.count; i++) {
        check_write(check, i);
        check_write_shadow(check, i);
    }
}
