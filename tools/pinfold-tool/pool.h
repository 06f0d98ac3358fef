/* pool.h: the bounds of all sandboxes that wait for calls: the file pool.json in the state directory.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define PIN_POOL_WARM "warm-"
#define PIN_POOL_AHEAD "ahead-"

struct pin_pool_settings {
    uint64_t ahead;        /* sandboxes started ahead, for each kind of call */
    uint64_t most;         /* sandboxes in all */
    uint64_t memory_bytes; /* of all of them together */
    uint64_t idle_ns;      /* without a call for this long, one ends */
};

/* The file's, or the defaults. */
bool pin_pool_load(int state_dir, struct pin_pool_settings *settings, struct pin_error *err);
bool pin_pool_save(int state_dir, const struct pin_pool_settings *settings, struct pin_error *err);

/* What a sandbox answers to "stats": a call may come. One that ends after its only call is none. */
bool pin_pool_is_idle(const json_t *stats);

/* What there is: a list of {"name", "kind", "fingerprint", "state", "memory_bytes", "idle_ms"}. */
json_t *pin_pool_list(int state_dir, struct pin_error *err);
/* Ends the sandbox, also one whose supervisor doesn't answer; true also when it has gone already. */
bool pin_pool_end(int state_dir, const char *name, struct pin_error *err);
/* Ends all of them, and asks none of them anything first. */
bool pin_pool_clear(int state_dir, struct pin_error *err);
/* Ends the idle ones of an earlier revision of the same family; one that is busy goes the next time, or by
 * itself. */
bool pin_pool_replace(int state_dir, const char *family, const char *revision, struct pin_error *err);
/* Makes room for one more: ends idle ones of other fingerprints, the longest unused first. False, without an
 * error, where there is none. `prefix`: of those that are not ended. */
bool pin_pool_make_room(int state_dir, const struct pin_pool_settings *settings, const char *prefix);
