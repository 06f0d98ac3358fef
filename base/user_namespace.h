/* user_namespace.h: whether our ids are the host's. */
#pragma once

#include <stdbool.h>

/* False where every id is its own, or the kernel has no user namespaces. */
bool pin_in_user_namespace(void);
