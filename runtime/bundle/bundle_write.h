/* bundle_write.h: from a struct pin_bundle to config.json, and to its fingerprint.
 *
 * What is written can be read again and is then the same: pin_bundle_parse(pin_bundle_print(b)) equals b in
 * every field, but for a root that is a skeleton: the text names the directory that pin_bundle_export() makes
 * of it, "rootfs". Fields have one order; absent ones aren't written. Source: docs/bundle.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"
#include "runtime/bundle/bundle.h"

/* The text, which the caller frees; `pretty` is for people. NULL where a string is not UTF-8, which JSON
 * can't hold. */
char *pin_bundle_print(const struct pin_bundle *bundle, bool pretty, size_t *size, struct pin_error *err);

/* Whether two runs may share a kept sandbox: SHA-256 over everything that makes the sandbox (policy, image,
 * root, mounts, limits, filter, labels) and of the environment the names and the digests of the values, never
 * the values. The command, its working directory and its terminal are not in it. */
bool pin_bundle_fingerprint(const struct pin_bundle *bundle, uint8_t digest[PIN_SHA256_SIZE],
                            struct pin_error *err);

/* Writes config.json into an empty directory, and rootfs/ with the skeleton and its mount points where the
 * root is one. What was written before a failure stays, for the caller to remove. */
bool pin_bundle_export(const struct pin_bundle *bundle, int directory, struct pin_error *err);
