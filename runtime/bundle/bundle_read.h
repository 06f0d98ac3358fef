/* bundle_read.h: from config.json to a struct pin_bundle.
 *
 * Strict: a key that the specification doesn't know, a wrong type, a value out of range, a duplicate key,
 * deep nesting and trailing text are findings, each with "FILE:LINE:COLUMN /pointer"; what the specification
 * knows and pinfold doesn't offer is refused by name. A null is an absent field, as engines mean it.
 * Annotations are free; those that begin with "io.pinfold." are read into the extension block, and an unknown
 * one of them is a finding. Everything is bounded: 8 MiB of text, 200000 values, 65536 items of a list, 128
 * KiB a string. Says nothing about what may be run: see bundle_ceiling.h. Source: docs/bundle.md.
 */
#pragma once

#include "base/findings.h"
#include "runtime/bundle/bundle.h"

#define PIN_BUNDLE_BYTES_MAX ((size_t)8 * 1024 * 1024)

/* NULL with findings on failure; the caller frees the bundle. `file` is what findings call the text. */
struct pin_bundle *pin_bundle_parse(const char *file, const char *text, size_t size,
                                    struct pin_findings *found);

/* DIRECTORY/config.json; `directory` becomes absolute. */
struct pin_bundle *pin_bundle_read(const char *directory, struct pin_findings *found);

/* A process alone (`exec --process FILE`), or resources alone (`update --resources FILE`), into a bundle,
 * whose fields of that kind must be zero. */
bool pin_bundle_parse_process(struct pin_bundle *bundle, const char *file, const char *text, size_t size,
                              struct pin_findings *found);
bool pin_bundle_parse_resources(struct pin_bundle *bundle, const char *file, const char *text, size_t size,
                                struct pin_findings *found);
