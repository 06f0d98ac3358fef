/* image_name.h: how images are named: [HOST[:PORT]/]NAME[/NAME…][:TAG][@sha256:HEX], or sha256:HEX alone.
 *
 * A name without a tag has the tag "latest". Parsing is pure and bounded; what comes out is safe as a file
 * name in the store, and different names give different file names. "host" is the host image and never in the
 * store.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/sha256.h"

#define PIN_IMAGE_NAME_MAX 200
#define PIN_IMAGE_TAG_MAX 128
#define PIN_IMAGE_TEXT (PIN_IMAGE_NAME_MAX + 1 + PIN_IMAGE_TAG_MAX + 1)
#define PIN_IMAGE_FILE 256 /* NAME_MAX and the zero */

struct pin_image_name {
    char name[PIN_IMAGE_NAME_MAX + 1]; /* "" where a digest alone was given */
    char tag[PIN_IMAGE_TAG_MAX + 1];
    char digest[PIN_DIGEST_TEXT]; /* "" where none was given */
};

bool pin_image_name_parse(const char *text, struct pin_image_name *name, struct pin_error *err);

/* The short form, without ":latest": what policies compare and people read. Returns `to`. */
char *pin_image_name_print(char to[PIN_IMAGE_TEXT], const struct pin_image_name *name);

/* The file of the name in the folder of references: "/" is "+", ":" is ",". Returns `to`. */
char *pin_image_name_file(char to[PIN_IMAGE_FILE], const struct pin_image_name *name);

/* The name of a file that pin_image_name_file() made; false for any other. */
bool pin_image_name_from_file(const char *file, struct pin_image_name *name);

/* Exactly "sha256:" and 64 lower-case hex characters: no other algorithm, nothing that could be a path. */
bool pin_image_is_digest(const char *text);
bool pin_image_is_hex(const char *text); /* the 64 characters alone */
