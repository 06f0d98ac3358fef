/* work.h: working in the store: a folder for what isn't finished, locks, and how things become visible.
 *
 * A work folder lies in tmp/ and is locked by its maker; one whose maker is gone is swept away by the next
 * work that begins. Writers hold the store's lock shared and gc holds it alone, so that gc never sees a blob
 * before the record that needs it. What is published is on disk: files are synced before their rename and the
 * folder after it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/sha256.h"
#include "images/image_store.h"

struct pin_store_work {
    const struct pin_image_store *store;
    int lock; /* the store's */
    int dir;  /* the work folder */
    char name[24];
};

#define PIN_STORE_WORK_NONE                                                                                  \
    { .store = NULL, .lock = -1, .dir = -1, .name = "" }

enum pin_store_lock { PIN_STORE_SHARED, PIN_STORE_ALONE };

/* Begins to work; waits for the lock, at most `wait_s` seconds. */
bool pin_store_work_begin(struct pin_store_work *work, const struct pin_image_store *store,
                          enum pin_store_lock lock, unsigned wait_s, struct pin_error *err);
/* Removes the work folder with what is left in it. */
void pin_store_work_end(struct pin_store_work *work);
#define PIN_STORE_WORK __attribute__((cleanup(pin_store_work_end)))

/* The lock of a piece of work that is done once, "layer-HEX": waits for whoever is at it. `*waited` tells
 * that somebody was. -1 on failure; closing the descriptor lets go. */
int pin_store_claim(const struct pin_image_store *store, const char *name, bool *waited,
                    struct pin_error *err);

/* Makes the entries of a folder of the store durable. */
bool pin_store_sync(const struct pin_image_store *store, const char *folder, struct pin_error *err);

/* Replaces the file `folder`/`name` by `data`, atomically. */
bool pin_store_put(struct pin_store_work *work, const char *folder, const char *name, const void *data,
                   size_t size, struct pin_error *err);
/* Moves `name` of the work folder to `folder`/`to`, which must not be there (PIN_ERROR_EXISTS). */
bool pin_store_publish(struct pin_store_work *work, const char *name, const char *folder, const char *to,
                       struct pin_error *err);
/* Takes `folder`/`name` out of sight and removes it. */
bool pin_store_discard(struct pin_store_work *work, const char *folder, const char *name,
                       struct pin_error *err);
