#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <linux/sched.h>

#include "runtime/build/engine.h"

/* Once the filter is loaded, each of our own calls may be one that the agent must answer, who hasn't got the
 * listener yet. So another process sends it, which was made before, shares our descriptors, and is under no
 * filter; we only wait for a word in memory. */
struct word {
    _Atomic int listener; /* NONE until it is there; GIVEN_UP: it won't be */
    _Atomic int answer;   /* WAITING, then 0 or an errno */
};
enum { NONE = -1, GIVEN_UP = -2, WAITING = -1 };

static int send_listener(int socket, int listener, struct iovec told) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } ancillary = {0};
    struct msghdr message = {
        .msg_iov = &told, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof(ancillary)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &listener, sizeof(int));
    return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

_Noreturn static void be_messenger(struct word *word, int socket, struct iovec told) {
    const struct timespec moment = {.tv_nsec = 100000};
    int listener;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while ((listener = atomic_load(&word->listener)) == NONE)
        (void)nanosleep(&moment, NULL);
    if (listener >= 0)
        atomic_store(&word->answer, send_listener(socket, listener, told));
    _exit(0);
}

/* Nobody waits for the messenger, and its zombie would be the container's: the flag ends with execve(2). */
static pid_t start_messenger(struct word *word, int socket, struct iovec told) {
    struct sigaction unheeded = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    struct clone_args args = {.flags = CLONE_FILES, .exit_signal = SIGCHLD};
    (void)sigaction(SIGCHLD, &unheeded, NULL);
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        be_messenger(word, socket, told);
    return pid;
}

bool pin_engine_load_notify(const struct pin_program *program, int socket, const void *told, size_t size,
                            struct pin_error *err) {
    struct word *word = mmap(NULL, sizeof(*word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (word == MAP_FAILED)
        return pin_fail_errno(err, "map the word for the listener");
    atomic_store(&word->listener, NONE);
    atomic_store(&word->answer, WAITING);
    if (start_messenger(word, socket, (struct iovec){(void *)(uintptr_t)told, size}) < 0)
        return pin_fail_errno(err, "start the messenger of the listener");
    int listener = pin_program_load_notify(program, err);
    if (listener < 0) {
        atomic_store(&word->listener, GIVEN_UP);
        return false;
    }
    atomic_store(&word->listener, listener);
    int answer;
    while ((answer = atomic_load(&word->answer)) == WAITING)
        ;
    errno = answer; /* the mapping and the descriptors end with execve(2) */
    return answer == 0 || pin_fail_errno(err, "send the listener to its agent");
}
