/* Whoever has taken the broker over by a fault of its parsers, and what is left for him: each thing that he
 * would do next works in a process without the walls, and doesn't behind them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/names.h"
#include "runtime/egress/broker/walls.h"

enum { DONE = 0, FAILED = 1, NO_WALLS = 2 };

static bool opens_a_file(void) {
    return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0;
}

static bool reads_a_folder(void) {
    return syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY) >= 0;
}

static bool runs_a_program(void) {
    char *const argv[] = {(char[]){"true"}, NULL};
    return execv("/bin/true", argv) == 0; /* which ends as one does that has succeeded */
}

static bool makes_a_process(void) {
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return child > 0 && waitpid(child, NULL, 0) == child;
}

static bool brings_code_along(void) {
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED;
}

static bool reaches_local_servers(void) {
    return socket(AF_UNIX, SOCK_STREAM, 0) >= 0;
}

static bool talks_to_the_kernel(void) {
    return socket(AF_NETLINK, SOCK_RAW, 0) >= 0;
}

static bool signals_its_parent(void) {
    return kill(getppid(), 0) == 0;
}

static bool is_traced(void) {
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

static bool makes_a_namespace(void) {
    return unshare(CLONE_FILES) == 0; /* what needs no privilege; with it the others come, too */
}

static bool reads_another_process(void) {
    char byte, copy;
    struct iovec here = {&byte, 1}, there = {&copy, 1};
    copy = 'x';
    return syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0) == 1 && byte == 'x';
}

static const struct attack {
    const char *name;
    bool (*works)(void);
} attacks[] = {
    {"open a file",           opens_a_file         },
    {"read a folder",         reads_a_folder       },
    {"run a program",         runs_a_program       },
    {"make a process",        makes_a_process      },
    {"bring code along",      brings_code_along    },
    {"reach local servers",   reaches_local_servers},
    {"talk to the kernel",    talks_to_the_kernel  },
    {"signal its parent",     signals_its_parent   },
    {"be traced",             is_traced            },
    {"make a namespace",      makes_a_namespace    },
    {"read another's memory", reads_another_process},
};

/* In a process of its own; its wait status. */
static int attempt(const struct attack *attack, bool walled) {
    pid_t child = fork();
    if (child == 0) {
        struct pin_error err = {0};
        uint32_t standing;
        if (walled && !walls_raise(NULL, &standing, &err))
            _exit(NO_WALLS);
        _exit(attack->works() ? DONE : FAILED);
    }
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void without_the_walls_each_of_them_works(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(attacks); i++) {
        int status = attempt(&attacks[i], false);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != DONE)
            fail_msg("%s: %#x", attacks[i].name, (unsigned)status);
    }
}

static void behind_the_walls_none_of_them_does(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(attacks); i++) {
        int status = attempt(&attacks[i], true);
        bool refused = WIFEXITED(status) && WEXITSTATUS(status) == FAILED;
        if (!refused && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS))
            fail_msg("%s: %#x", attacks[i].name, (unsigned)status);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_walls_each_of_them_works),
        cmocka_unit_test(behind_the_walls_none_of_them_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
