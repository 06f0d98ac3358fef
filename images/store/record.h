/* record.h: writing what the hot path reads: an image's record and its names. */
#pragma once

#include "images/image_config.h"
#include "images/image_name.h"
#include "images/store/work.h"

/* Writes the record of an image. What an earlier import knew of its signatures is kept. */
bool pin_record_put(struct pin_store_work *work, struct pin_arena *arena, struct pin_image_config *image,
                    struct pin_error *err);
/* Lets the name stand for the image. */
bool pin_record_name(struct pin_store_work *work, const struct pin_image_name *name, const char *manifest,
                     struct pin_error *err);
/* Forgets the names: all of them, or none where one isn't in the store. */
bool pin_record_forget(struct pin_store_work *work, const struct pin_image_name *names, size_t count,
                       struct pin_error *err);

/* Adds to a list of texts what isn't in it; the list moves to the arena. */
void pin_record_merge(struct pin_arena *arena, const char ***items, size_t *count, const char *item);
