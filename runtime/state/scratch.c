#include "runtime/state/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/state/state_dir.h"
#include "runtime/state/tree.h"

static const char folder_name[] = "scratch";

enum { SCRATCH_NAME = 24 };

static const char *name_scratch(uint32_t number, char name[SCRATCH_NAME]) {
    (void)snprintf(name, SCRATCH_NAME, "%u", number);
    return name;
}

int pin_scratch_make(int state_dir, uint32_t number, struct pin_error *err) {
    char name[SCRATCH_NAME];
    PIN_CLOSE int folder = pin_state_folder(state_dir, folder_name, true, err);
    if (folder < 0)
        return -1;
    if (mkdirat(folder, name_scratch(number, name), 0700) != 0) {
        (void)pin_fail_errno(err, "make the scratch directory of slot %u", number);
        return -1;
    }
    return pin_state_folder(folder, name, false, err);
}

/* Most slots never had one: ask that first, by one call. */
bool pin_scratch_remove(int state_dir, uint32_t number, struct pin_error *err) {
    char name[SCRATCH_NAME], path[sizeof(folder_name) + SCRATCH_NAME];
    (void)snprintf(path, sizeof(path), "%s/%s", folder_name, name_scratch(number, name));
    if (unlinkat(state_dir, path, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return true;
    PIN_CLOSE int folder = pin_state_folder(state_dir, folder_name, false, err);
    return folder >= 0 && pin_tree_remove(folder, name, err);
}
