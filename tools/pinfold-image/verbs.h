/* verbs.h: the verbs of `pinfold image`, and what they share. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "images/image_config.h"
#include "images/store/import.h"
#include "images/store/work.h"
#include "tools/pinfold/options.h"
#include "tools/pinfold/report.h"

extern const struct pin_verb verb_pull, verb_import, verb_ls, verb_show, verb_rm, verb_gc, verb_verify,
    verb_export, verb_tag, verb_commit, verb_build;

/* `pinfold commit`: of a kept sandbox. */
extern const struct pin_verb verb_sandbox_commit;

/* How long a verb waits for another that has the store to itself. */
#define STORE_WAIT_S 60

/* PEM files: read whole, checked to be public keys; texts in the arena. */
bool read_keys(const struct pin_texts *files, struct pin_arena *arena, const char ***keys,
               struct pin_error *err);

/* The answer of a verb that makes an image, as JSON or as lines for people, and its exit code. */
int tell_made(const struct pin_image_config *image, bool as_json);
void print_object(json_t *object); /* compact, with a line's end; takes it over */

/* Text from an image, safe for a terminal: in a static buffer, one use at a time. */
const char *safe(const char *text);
