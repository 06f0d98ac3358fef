#include "init_harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/sched.h>

#include "base/cleanup.h"
#include "runtime/init/image.h"
#include "runtime/init/protocol.h"

static int image(void) {
    int fd = memfd_create("pinfold-init", MFD_CLOEXEC);
    for (size_t at = 0; at < pin_init_image_size;) {
        ssize_t wrote = write(fd, pin_init_image + at, pin_init_image_size - at);
        assert_true(wrote > 0);
        at += (size_t)wrote;
    }
    return fd;
}

static void enter(int control, int program, void (*inside)(void)) {
    char name[] = "pinfold-init", *argv[] = {name, NULL}, *envp[] = {NULL};
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        (void)dup2(null, fd);
    int moved = fcntl(program, F_DUPFD_CLOEXEC, 10); /* out of the way of 3 */
    (void)dup2(control, PIN_INIT_CONTROL_FD);
    (void)syscall(SYS_close_range, 4, ~0u, inside != NULL ? 0 : 1u << 2 /* CLOSE_RANGE_CLOEXEC */);
    if (geteuid() == 0 && (setresgid(BARE_SANDBOX_ID, BARE_SANDBOX_ID, BARE_SANDBOX_ID) < 0 ||
                           setresuid(BARE_SANDBOX_ID, BARE_SANDBOX_ID, BARE_SANDBOX_ID) < 0))
        _exit(98);
    if (inside != NULL)
        inside();
    else
        (void)syscall(SYS_execveat, moved, "", argv, envp, AT_EMPTY_PATH);
    _exit(99);
}

void bare_sandbox_start_fake(struct bare_sandbox *sandbox, void (*inside)(void)) {
    int ends[2];
    PIN_CLOSE int program = image();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    struct clone_args args = {
        .flags = CLONE_NEWPID | CLONE_PIDFD | (geteuid() != 0 ? CLONE_NEWUSER : 0),
        .pidfd = (uintptr_t)&sandbox->pidfd,
        .exit_signal = SIGCHLD,
    };
    sandbox->init = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (sandbox->init == 0)
        enter(ends[1], program, inside);
    if (sandbox->init < 0)
        fail_msg("no pid namespace on this host: %s", strerror(errno));
    (void)close(ends[1]);
    sandbox->control = ends[0];
}

void bare_sandbox_start(struct bare_sandbox *sandbox) {
    bare_sandbox_start_fake(sandbox, NULL);
}

void bare_sandbox_end(struct bare_sandbox *sandbox) {
    struct pollfd end = {.fd = sandbox->pidfd, .events = POLLIN};
    (void)syscall(SYS_pidfd_send_signal, sandbox->pidfd, SIGKILL, NULL, 0);
    assert_int_equal(poll(&end, 1, 60000), 1);
    (void)waitpid(sandbox->init, NULL, 0);
    pin_close_fd(&sandbox->pidfd);
    pin_close_fd(&sandbox->control);
}

bool is_gone(pid_t pid) {
    return kill(pid, 0) < 0 && errno == ESRCH;
}
