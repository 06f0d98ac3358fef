#include "runtime/state/ranges.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/private/private_dir.h"
#include "runtime/state/slot_table.h"

static const char folder[] = "/run/pinfold";

int pin_ranges_open(struct pin_error *err) {
    if (geteuid() != 0)
        return -1;
    PIN_CLOSE int dir = pin_state_open_path(folder, err);
    int file = dir < 0 ? -1 : pin_private_file(dir, "ranges", O_RDWR | O_CREAT, err);
    if (file < 0)
        (void)pin_wrap(err, "see which ranges of ids are in use");
    return file;
}

bool pin_ranges_lock(int ranges, uint32_t number, bool *taken, struct pin_error *err) {
    *taken = true;
    return ranges < 0 || pin_slot_table_lock(ranges, number, taken, err);
}
