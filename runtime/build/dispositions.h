/* dispositions.h: the signals that the caller has us ignore, which no command inside may inherit.
 *
 * Ignored signals stay ignored across execve(2), and setting all sixty-four back takes as many calls. So the
 * parent asks which they are while the child is at work, and the child then sets back those alone. Straight
 * to the kernel: libc keeps some real-time signals to itself, and a caller may have ignored them, too.
 */
#pragma once

#include <stdint.h>

/* Signal N is bit N - 1. */
uint64_t pin_dispositions_ignored(void);

/* Only makes system calls. */
void pin_dispositions_reset(uint64_t ignored);
