/* cache.h: the compiled program of a filter, from the cache or made anew.
 *
 * Compiling takes one to two milliseconds, a proof some tens of microseconds. An entry is only used if it is
 * a private file of ours and is proved to say what the filter says: a wrong one, whoever wrote it, costs time
 * and nothing else.
 */
#pragma once

#include "runtime/build/seccomp/compile.h"

/* The program, verified. `cache_dir` is what pin_cache_open() gave, or -1 to do without; trouble with the
 * cache is no error. The caller frees the program. */
bool pin_program_get(const struct pin_filter *filter, int cache_dir, struct pin_program *program,
                     struct pin_error *err);

/* The cache directory: $PINFOLD_CACHE/seccomp if set; /var/cache/pinfold/seccomp for root; else
 * $XDG_CACHE_HOME/pinfold/seccomp or ~/.cache/pinfold/seccomp. What is missing below the first directory is
 * made. Every directory on the way belongs to root or the caller and can't be written by others (or is
 * sticky, as /tmp). The caller closes it. -1 on failure. */
int pin_cache_open(struct pin_error *err);
