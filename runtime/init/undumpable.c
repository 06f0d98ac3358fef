/* A library that makes the process that loads it undumpable, and does nothing else: programs that a tool
 * starts are of the same user, and could else open the tool's /proc/PID/mem and fd, where the key of its
 * result is. Neither Python nor Node can ask for it themselves. No C library: it has to load beside any.
 * Source: prctl(2) PR_SET_DUMPABLE, ptrace(2) "Ptrace access mode checking".
 */
/* No headers: it is also made by compilers that find none of the kernel's. */
#define PR_SET_DUMPABLE 4

static void close_memory(void) {
#if defined(__x86_64__)
    register long number __asm__("rax") = 157;
    __asm__ volatile("syscall" : "+r"(number) : "D"(PR_SET_DUMPABLE), "S"(0L) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long number __asm__("x8") = 167;
    register long option __asm__("x0") = PR_SET_DUMPABLE;
    register long value __asm__("x1") = 0;
    __asm__ volatile("svc 0" : "+r"(option) : "r"(number), "r"(value) : "memory");
#else
#error "prctl has no number here"
#endif
}

__attribute__((section(".init_array"), used)) static void (*const at_load)(void) = close_memory;
