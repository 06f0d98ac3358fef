#include "runtime/build/dispositions.h"

#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIGNALS = 64 };

struct kernel_action { /* struct sigaction of asm-generic/signal.h, with the restorer of x86-64 and aarch64 */
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

uint64_t pin_dispositions_ignored(void) {
    uint64_t ignored = 0;
    for (int number = 1; number <= SIGNALS; number++) {
        struct kernel_action action = {0};
        if (syscall(SYS_rt_sigaction, number, NULL, &action, sizeof(action.mask)) == 0 &&
            action.handler == SIG_IGN)
            ignored |= UINT64_C(1) << (number - 1);
    }
    return ignored;
}

void pin_dispositions_reset(uint64_t ignored) {
    static const struct kernel_action by_default = {.handler = SIG_DFL};
    for (int number = 1; ignored != 0; number++, ignored >>= 1)
        if (ignored & 1)
            (void)syscall(SYS_rt_sigaction, number, &by_default, NULL, sizeof(by_default.mask));
}
