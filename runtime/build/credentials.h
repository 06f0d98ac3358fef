/* credentials.h: who the contained processes are, and what they may never become again.
 *
 * Runs in the set-up child, last but for Landlock and the filter. Source: capabilities(7), "The securebits
 * flags".
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "runtime/plan/plan.h"

/* Becomes the user namespace's id 0 while the root is built, where id 0 is mapped. */
bool pin_credentials_enter(const struct pin_plan *plan, struct pin_error *err);

/* Groups, gid, uid, bounding, ambient, inheritable, permitted and effective sets, securebits locked. */
bool pin_credentials_drop(const struct pin_plan *plan, struct pin_error *err);

/* The last step of an engine's process that has no no_new_privs: until here it has kept CAP_SYS_ADMIN, which
 * the loading of its filter needs. */
bool pin_credentials_finish(const struct pin_plan *plan, struct pin_error *err);
