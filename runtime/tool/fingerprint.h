/* fingerprint.h: whether two tool calls may share a sandbox, and whether they may share a pool.
 *
 * Pure. The sandbox's fingerprint is SHA-256 over the bundle's (policy, image, root, mounts, limits, egress,
 * filter, labels, names of the environment and digests of its values: runtime/bundle/bundle_write.h) and over
 * the shape: what a call brings that the bundle doesn't say. The pool's leaves out what a sandbox that was
 * started ahead is given with its call: environment, secrets and labels. No value can be read from either.
 * Values of secrets aren't known here: whoever has found them adds them (pin_run_secrets_fingerprint()).
 * Source: docs/tool.md "Fingerprint".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"
#include "runtime/bundle/bundle.h"

struct pin_tool_shape {                       /* zeroed: nothing but the bundle; borrowed */
    const char *language;                     /* the runner's: "python"; NULL: none */
    const char *organisation, *configuration; /* of the stored one; NULL: none */
    const char *configuration_digest;         /* of its content, "sha256:…"; NULL: none */
    const char *pip_lock, *npm_lock;          /* of the dependencies, "sha256:…"; NULL: none */
    bool privileged;
};

enum pin_tool_scope { PIN_TOOL_SCOPE_SANDBOX, PIN_TOOL_SCOPE_POOL };

bool pin_tool_fingerprint(const struct pin_bundle *bundle, const struct pin_tool_shape *shape,
                          enum pin_tool_scope scope, uint8_t digest[PIN_SHA256_SIZE], struct pin_error *err);
