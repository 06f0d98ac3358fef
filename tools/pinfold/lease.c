#include "tools/pinfold/lease.h"

#include <string.h>

#include "runtime/state/record.h"
#include "tools/pinfold/report.h"

static bool clean_slot(void *context, int state_dir, uint32_t number, struct pin_error *err) {
    struct pin_slot_record record = {0};
    if (!pin_slot_record_read(state_dir, number, &record, err)) {
        if (err->kind != PIN_ERROR_NOT_FOUND)
            return false;
        pin_error_clear(err);
    }
    return pin_cgroup_clean_slot(context, number, record.cgroup, err);
}

static bool write_place(int state_dir, const struct pin_cgroup_facts *cgroups, uint32_t number,
                        struct pin_error *err) {
    struct pin_slot_record record = {0};
    char place[PIN_CGROUP_PATH];
    if (!pin_cgroup_place(cgroups, number, place, err))
        return false;
    if (place[0] == '\0')
        return true;
    memcpy(record.cgroup, place, strlen(place) + 1);
    return pin_slot_record_write(state_dir, number, &record, err);
}

bool pin_lease_sweep(int state_dir, struct pin_cgroup_facts *cgroups, struct pin_error *err) {
    static struct pin_sweep swept; /* large, and zeroed by the sweep */
    if (!pin_state_sweep(state_dir, clean_slot, cgroups, &swept, err))
        return pin_wrap(err, "clear what dead runs left");
    for (size_t i = 0; i < swept.left.count; i++)
        (void)pin_report(&swept.left.list[i], false);
    return true;
}

bool pin_lease_take(int state_dir, struct pin_cgroup_facts *cgroups, struct pin_slot *slot,
                    struct pin_error *err) {
    if (!pin_lease_sweep(state_dir, cgroups, err) || !pin_slot_claim(state_dir, slot, err))
        return false;
    if (write_place(state_dir, cgroups, slot->number, err))
        return true;
    pin_slot_close(slot);
    return false;
}
