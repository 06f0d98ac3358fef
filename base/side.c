#include "base/side.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/futex.h>

#if defined(__x86_64__)
#define PIN_HAS_SIDE true
PIN_SIDE_WORK long pin_side_call(long number, long a, long b, long c, long d, long e) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
#define PIN_HAS_SIDE true
PIN_SIDE_WORK long pin_side_call(long number, long a, long b, long c, long d, long e) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
#else
#define PIN_HAS_SIDE false
long pin_side_call(long number, long a, long b, long c, long d, long e) {
    (void)number, (void)a, (void)b, (void)c, (void)d, (void)e;
    return -ENOSYS;
}
#endif

PIN_SIDE_WORK static int run(void *argument) {
    struct pin_side *side = argument;
    side->work(side->self);
    (void)pin_side_call(SYS_exit, 0, 0, 0, 0, 0);
    return 0;
}

bool pin_side_start(struct pin_side *side, void (*work)(void *self), void *self) {
    const int shared = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    static const uint64_t all = ~UINT64_C(0); /* those of libc's own, too */
    uint64_t before = 0;
    side->work = work;
    side->self = self;
    side->running = 1; /* until the kernel has put its id there, or it never starts */
    bool ok = PIN_HAS_SIDE && syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all)) == 0;
    if (ok) {
        ok =
            clone(run, side->stack + sizeof(side->stack), shared | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
                  side, &side->running, NULL, &side->running) > 0;
        (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    }
    if (!ok)
        side->running = 0;
    return ok;
}

void pin_side_join(struct pin_side *side) {
    for (uint32_t id; (id = __atomic_load_n(&side->running, __ATOMIC_ACQUIRE)) != 0;)
        (void)syscall(SYS_futex, &side->running, FUTEX_WAIT, id, NULL, NULL, 0);
}
