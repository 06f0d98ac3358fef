/* filter_digest.h: the seccomp filters of a process, as the kernel holds them.
 */
#pragma once

#include <sys/types.h>

#include <jansson.h>

#include "base/error.h"

/* [{"instructions", "digest"}, …], the newest filter first; the caller owns it. The process, a child of ours,
 * is stopped for a moment. Only the host's root may ask (PTRACE_SECCOMP_GET_FILTER): JSON null for others. */
json_t *pin_filter_digests(pid_t pid, struct pin_error *err);
