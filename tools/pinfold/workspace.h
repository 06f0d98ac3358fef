/* workspace.h: after a run with a copy-on-write workspace: lists its changes, and merges or keeps them. */
#pragma once

#include "runtime/build/build.h"
#include "runtime/bundle/bundle.h"

/* The object of a result's "changes": {"on_exit", "list", "dropped", "skipped", "kept"}, a new reference;
 * NULL with an error. `name` is the run's: kept changes lie below `state_dir`/kept/NAME. */
json_t *pin_workspace_finish(const struct pin_bundle *bundle, const struct pin_sandbox *sandbox,
                             int state_dir, const char *name, struct pin_error *err);

/* A line a change ("A path", "M path", "D path") on standard error, escaped. */
void pin_workspace_print(const json_t *changes);
