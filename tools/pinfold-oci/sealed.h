/* sealed.h: no process of a container may ever write to the runtime's own file.
 *
 * A container can make the runtime execute "/proc/self/exe" inside it, or open /proc/PID/exe of a process of
 * ours that has just joined it, and write to the host's file once nobody executes it (CVE-2019-5736). So what
 * meets containers runs from a read-only mount of the file, which is nowhere else, and through which it can't
 * be opened for writing, or from a sealed copy where no such mount can be made. An ordinary user's runtime
 * that is another's file is executed as it is: neither the user nor the container may write to it.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* Executes this program again unless it is such a one; false where that can't be had. */
bool pin_seal_self(char **argv, char **envp, struct pin_error *err);
