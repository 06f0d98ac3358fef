#include "runtime/kept/parts.h"

#include "base/clock.h"

#define BILL_EVERY_NS (60 * PIN_NS_PER_S)

/* Between commands nothing runs, so that nothing changes what is held: there is no sample, and no waking up.
 */
static void on_sample(void *self) {
    struct pin_kept *kept = self;
    kept->sampling = NULL;
    pin_kept_sample(kept);
}

void pin_kept_sample(struct pin_kept *kept) {
    struct pin_error err = {0};
    uint64_t held_bytes = 0, now = pin_now_ns();
    if (kept->given->used == NULL)
        return;
    if (kept->given->sandbox->cgroup != NULL)
        (void)pin_cgroup_memory_now(kept->given->sandbox->cgroup, &held_bytes, &err); /* holds nothing then */
    if (kept->memory.at_ns == 0)
        kept->memory.at_ns = kept->billed_ns = now;
    pin_memory_account_add(&kept->memory, now, held_bytes);
    if (now - kept->billed_ns >= BILL_EVERY_NS)
        pin_kept_bill(kept);
    if (kept->exec_count == 0)
        pin_timer_cancel(&kept->sampling);
    else if (kept->sampling == NULL)
        kept->sampling =
            pin_loop_at(kept->loop, pin_memory_account_next(&kept->memory), on_sample, kept, &err);
    if (kept->exec_count == 0)
        kept->memory.interval_ns = 0;
}

void pin_kept_bill(struct pin_kept *kept) {
    if (kept->given->used == NULL)
        return;
    pin_kept_settle_egress(kept); /* of connections that are open, too */
    kept->billed_ns = pin_now_ns();
    pin_memory_account_add(&kept->memory, kept->billed_ns, kept->memory.held_bytes);
    kept->given->used(kept->given->self, kept->memory.byte_ms, kept->last_exec);
}
