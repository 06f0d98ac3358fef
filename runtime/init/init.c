/* init.c: PID 1 of a sandbox: starts what the supervisor asks for, reaps, and takes everything with it.
 *
 * Runs inside the walls, as the sandbox's user, without capabilities, in the system call filter: it can do
 * nothing that the contained processes couldn't. They share its user id, so it is not dumpable (no ptrace, no
 * /proc/1/mem), blocks every signal and acts on SIGCHLD alone. When it exits, however it exits, the kernel
 * kills every process of the namespace (pid_namespaces(7)). It takes no memory from the heap: a request lies
 * in one mapping of bounded size. Contract with the supervisor: protocol.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/capability.h>

#include "runtime/init/protocol.h"

#define CHILDREN_MAX 512
#define REAP_BATCH 64 /* a flood of zombies must not keep us from the supervisor's requests */
#define QUEUE_MAX 64  /* messages that go together: who listens is woken once */
#define SMALL_REQUEST 4096
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

struct child {
    pid_t pid; /* 0: free */
    uint32_t id;
    bool last;
    bool other;   /* it has another user than we have, */
    uint32_t uid; /* this one */
};

static struct child children[CHILDREN_MAX];

static struct pin_init_message queue[QUEUE_MAX];
static size_t queued;

struct request {
    uint32_t id;
    struct pin_init_exec head;
    int fds[PIN_INIT_FDS_MAX];
    size_t fd_count;
    char *memory; /* the payload, then the two arrays; NULL: none */
    size_t size;
    bool is_mapped;
    const char *cwd;
    char **argv, **envp;
    int terminal; /* the slave, or -1 */
};

/* The control socket blocks, and takes what is this small whole. */
static void send_whole(const struct msghdr *message, size_t size) {
    ssize_t sent;
    do
        sent = sendmsg(PIN_INIT_CONTROL_FD, message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent != (ssize_t)size)
        _exit(1); /* the supervisor is gone, and so is the sandbox */
}

static void flush(void) {
    struct iovec all = {queue, queued * sizeof(queue[0])};
    if (queued > 0)
        send_whole(&(struct msghdr){.msg_iov = &all, .msg_iovlen = 1}, all.iov_len);
    queued = 0;
}

/* Sent with those that follow it, before anything is waited for. */
static void queue_message(uint32_t type, uint32_t id, int32_t value) {
    if (queued == QUEUE_MAX)
        flush();
    queue[queued++] = (struct pin_init_message){type, id, value, 0};
}

/* At once, and behind what is queued. */
static void send_message(uint32_t type, uint32_t id, int32_t value, const char *stage, int fd) {
    struct pin_init_message head = {type, id, value, stage != NULL};
    char byte = stage != NULL ? *stage : 0;
    struct iovec parts[2] = {
        {&head, sizeof(head)},
        {&byte, 1           }
    };
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = stage != NULL ? 2 : 1};
    flush();
    if (fd >= 0) {
        message.msg_control = control.room;
        message.msg_controllen = sizeof(control.room);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &fd, sizeof(int));
    }
    send_whole(&message, sizeof(head) + (stage != NULL));
}

static void send_not_started(uint32_t id, int error, enum pin_init_stage stage) {
    char byte = (char)stage;
    send_message(PIN_INIT_NOT_STARTED, id, error, &byte, -1);
}

/* The rest of something whose first part has come: the supervisor is trusted to send all of it. */
static void receive_rest(void *to, size_t size) {
    for (char *at = to; size > 0;) {
        ssize_t got = recv(PIN_INIT_CONTROL_FD, at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            _exit(1);
        at += got;
        size -= (size_t)got;
    }
}

static void take_descriptors(struct msghdr *message, struct request *request) {
    struct cmsghdr *rights = CMSG_FIRSTHDR(message); /* the only kind of control data that we ask for */
    if (rights == NULL || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS)
        return;
    request->fd_count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(request->fds, CMSG_DATA(rights), request->fd_count * sizeof(int));
}

static void receive_head(struct pin_init_message *head, struct request *request) {
    struct iovec whole = {head, sizeof(*head)};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(PIN_INIT_FDS_MAX * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &whole, .msg_iovlen = 1};
    message.msg_control = control.room;
    message.msg_controllen = sizeof(control.room);
    ssize_t got;
    do
        got = recvmsg(PIN_INIT_CONTROL_FD, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got <= 0 || (message.msg_flags & MSG_CTRUNC))
        _exit(got == 0 ? 0 : 1);
    take_descriptors(&message, request);
    receive_rest((char *)head + got, sizeof(*head) - (size_t)got);
}

static char *next_string(char **at, const char *end) {
    char *text = *at;
    char *zero = memchr(text, '\0', (size_t)(end - text));
    if (zero == NULL)
        _exit(1); /* both ends come from one build: this is no request of ours */
    *at = zero + 1;
    return text;
}

static char **take_strings(char **at, const char *end, char **array, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        array[i] = next_string(at, end);
    array[count] = NULL;
    return array;
}

/* One at a time is served; what it was is wiped, since there may be secrets in its environment. */
static bool find_room(struct request *request, size_t size) {
    static _Alignas(char *) char small[SMALL_REQUEST];
    request->size = size;
    request->is_mapped = size > sizeof(small);
    request->memory = !request->is_mapped
                          ? small
                          : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (request->memory == MAP_FAILED)
        request->memory = NULL;
    return request->memory != NULL;
}

static void release(struct request *request) {
    if (request->memory != NULL && request->is_mapped)
        (void)munmap(request->memory, request->size);
    else if (request->memory != NULL)
        explicit_bzero(request->memory, request->size);
    for (size_t i = 0; i < request->fd_count; i++)
        (void)close(request->fds[i]);
    if (request->terminal >= 0)
        (void)close(request->terminal);
}

/* Every string has at least its zero, so the counts are bounded by the length of the payload. */
static bool take_request(struct request *request, uint32_t length) {
    uint64_t strings = (uint64_t)request->head.argc + request->head.envc;
    if (request->head.argc == 0 || strings >= length)
        _exit(1);
    size_t arrays = (size_t)(strings + 2) * sizeof(char *);
    size_t text = ((size_t)length + sizeof(char *) - 1) & ~(sizeof(char *) - 1);
    if (!find_room(request, text + arrays))
        return false;
    receive_rest(request->memory, length);
    char *at = request->memory;
    const char *end = request->memory + length;
    char **array = (char **)(void *)(request->memory + text);
    request->cwd = next_string(&at, end);
    request->argv = take_strings(&at, end, array, request->head.argc);
    request->envp = take_strings(&at, end, array + request->head.argc + 1, request->head.envc);
    return true;
}

static void discard(uint32_t length) {
    char room[512];
    for (uint32_t left = length; left > 0;) {
        uint32_t part = left < sizeof(room) ? left : (uint32_t)sizeof(room);
        receive_rest(room, part);
        left -= part;
    }
}

/* Up to become(): the child between vfork and exec. It shares our memory and only makes system calls. */

struct outcome {
    volatile int error; /* 0: the program runs */
    volatile enum pin_init_stage stage;
};

static void give_up(struct outcome *outcome, enum pin_init_stage stage) {
    outcome->error = errno;
    outcome->stage = stage;
    _exit(127);
}

/* Our own 0 to 4 (the last are the control socket and the signals) are always open, so that no descriptor
 * that was sent has one of these numbers. */
static void place_descriptors(const struct request *request, struct outcome *outcome) {
    size_t sent = 0;
    unsigned first_closed = 3;
    for (int to = 0; to < 4; to++) {
        int from = -1;
        if (request->head.flags & (1u << to)) /* PIN_INIT_STDIN is bit 0, … PIN_INIT_FRAME bit 3 */
            from = request->fds[sent++];
        else if (to < 3)
            from = request->terminal;
        if (from >= 0 && dup2(from, to) < 0)
            give_up(outcome, PIN_INIT_STAGE_FORK);
        if (from >= 0 && to == 3)
            first_closed = 4;
    }
    if (request->head.flags & PIN_INIT_MODULE) {
        if (dup2(request->fds[sent], 4) < 0)
            give_up(outcome, PIN_INIT_STAGE_FORK);
        first_closed = 5;
    }
    if (syscall(SYS_close_range, first_closed, ~0u, 0) < 0)
        give_up(outcome, PIN_INIT_STAGE_FORK);
}

static const char *find_path(char *const *envp) {
    for (; *envp != NULL; envp++)
        if (strncmp(*envp, "PATH=", 5) == 0)
            return *envp + 5;
    return DEFAULT_PATH;
}

/* As execvpe(3): a name with a slash is a path; otherwise the folders of PATH in turn, an empty one being the
 * working directory. A file that may not be executed is remembered and the search goes on. No shell is tried
 * for a file without a header. Leaves the errno that tells most. */
static void search_and_execute(const struct request *request) {
    static char path[PATH_MAX];
    const char *name = request->argv[0];
    size_t length = strlen(name);
    if (length == 0) {
        errno = ENOENT;
        return;
    }
    if (strchr(name, '/') != NULL) {
        execve(name, request->argv, request->envp);
        return;
    }
    int told = ENOENT;
    for (const char *at = find_path(request->envp), *end; at != NULL; at = *end == ':' ? end + 1 : NULL) {
        end = strchrnul(at, ':');
        size_t folder = (size_t)(end - at);
        if (folder + length + 2 > sizeof(path))
            continue;
        memcpy(path, at, folder);
        path[folder] = '/';
        memcpy(path + folder + (folder > 0), name, length + 1);
        execve(path, request->argv, request->envp);
        if (errno == EACCES)
            told = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR)
            return;
    }
    errno = told;
}

/* By itself: moving another process would wait for a lock of the whole system. */
static void enter_cgroup(const struct request *request, struct outcome *outcome) {
    for (size_t i = request->fd_count - request->head.entrances; i < request->fd_count; i++)
        if (write(request->fds[i], "0", 1) != 1)
            give_up(outcome, PIN_INIT_STAGE_CGROUP);
}

/* Giving up the permitted ones gives up the ambient ones, which would be kept over execve(2). */
static bool drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    static const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
    return syscall(SYS_capset, &header, none) == 0;
}

/* The plain calls: a library's would reach for threads. A new user makes our memory, which the child shares,
 * what fs.suid_dumpable says. */
static void become_user(const struct pin_init_exec *head, struct outcome *outcome) {
    if (!(head->flags & PIN_INIT_USER))
        return;
    if ((getgroups(0, NULL) > 0 && syscall(SYS_setgroups, 0, NULL) != 0) ||
        syscall(SYS_setresgid, head->gid, head->gid, head->gid) != 0 ||
        syscall(SYS_setresuid, head->uid, head->uid, head->uid) != 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || (head->uid != 0 && !drop_capabilities()))
        give_up(outcome, PIN_INIT_STAGE_USER);
}

static void become(const struct request *request, struct outcome *outcome) {
    enter_cgroup(request, outcome);
    (void)setsid(); /* can't fail: a new child leads no group */
    if (request->terminal >= 0 && ioctl(request->terminal, TIOCSCTTY, 0) < 0)
        give_up(outcome, PIN_INIT_STAGE_TTY);
    place_descriptors(request, outcome);
    (void)umask((mode_t)request->head.umask & 0777);
    become_user(&request->head, outcome);
    if (chdir(request->cwd) < 0)
        give_up(outcome, PIN_INIT_STAGE_CWD);
    static const uint64_t none = 0;
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
    search_and_execute(request);
    give_up(outcome, PIN_INIT_STAGE_EXEC);
}

static pid_t __attribute__((noinline)) start_child(const struct request *request, struct outcome *outcome) {
    /* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): it only makes system calls */
    pid_t pid = vfork();
    if (pid == 0)
        become(request, outcome); /* NOLINT(clang-analyzer-unix.Vfork): the same */
    if (pid < 0) {
        outcome->error = errno;
        outcome->stage = PIN_INIT_STAGE_FORK;
    }
    return pid;
}

static bool open_terminal(const struct pin_init_exec *head, int *master, int *slave) {
    int unlocked = 0;
    struct winsize size = {.ws_row = head->rows, .ws_col = head->columns};
    *master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*master < 0)
        return false;
    /* The slave comes from the master itself, not from a path that the contained processes could replace. */
    if (ioctl(*master, TIOCSPTLCK, &unlocked) == 0 && ioctl(*master, TIOCSWINSZ, &size) == 0)
        *slave = ioctl(*master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*slave >= 0)
        return true;
    int cause = errno;
    (void)close(*master);
    *master = -1;
    errno = cause;
    return false;
}

static struct child *free_place(void) {
    for (size_t i = 0; i < CHILDREN_MAX; i++)
        if (children[i].pid == 0)
            return &children[i];
    return NULL;
}

static bool reap(void);

static void start(struct request *request) {
    struct child *place = free_place();
    if (place == NULL) {
        (void)reap(); /* who has ended has a place until then */
        place = free_place();
    }
    int master = -1;
    if (place == NULL) {
        send_not_started(request->id, EAGAIN, PIN_INIT_STAGE_FORK);
        return;
    }
    if ((request->head.flags & PIN_INIT_TTY) && !open_terminal(&request->head, &master, &request->terminal)) {
        send_not_started(request->id, errno, PIN_INIT_STAGE_TTY);
        return;
    }
    struct outcome outcome = {0, PIN_INIT_STAGE_FORK};
    pid_t pid = start_child(request, &outcome);
    if (outcome.error != 0) { /* a child that gave up is reaped as an unknown one */
        send_not_started(request->id, outcome.error, outcome.stage);
    } else {
        *place = (struct child){pid, request->id, (request->head.flags & PIN_INIT_LAST) != 0,
                                (request->head.flags & PIN_INIT_USER) != 0, request->head.uid};
        if (master >= 0)
            send_message(PIN_INIT_STARTED, request->id, pid, NULL, master);
        else
            queue_message(PIN_INIT_STARTED, request->id, pid);
    }
    if (master >= 0)
        (void)close(master);
}

static void execute(struct request *request, uint32_t length) {
    uint32_t wanted = 0;
    if (length < sizeof(request->head) || length > PIN_INIT_REQUEST_MAX)
        _exit(1);
    receive_rest(&request->head, sizeof(request->head));
    length -= (uint32_t)sizeof(request->head);
    for (uint32_t bit = 1; bit <= PIN_INIT_FRAME; bit <<= 1)
        wanted += (request->head.flags & bit) != 0;
    wanted += (request->head.flags & PIN_INIT_MODULE) != 0;
    if (request->head.entrances > PIN_INIT_FDS_MAX || wanted + request->head.entrances != request->fd_count)
        _exit(1);
    if (take_request(request, length)) {
        start(request);
    } else {
        int cause = errno;
        discard(length);
        send_not_started(request->id, cause, PIN_INIT_STAGE_FORK);
    }
}

/* By a child of ours that becomes the other's user: whether we may signal that one is not for us to say. */
static void signal_as(uint32_t uid, pid_t whom, int signal) {
    /* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): it only makes system calls */
    pid_t pid = vfork();
    if (pid != 0)
        return; /* reaped as an unknown one */
    /* NOLINTNEXTLINE(clang-analyzer-unix.Vfork): the same */
    if (syscall(SYS_setresuid, uid, uid, uid) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
        (void)kill(whom, signal);
    _exit(0);
}

static void signal_all(int signal) {
    (void)kill(-1, signal); /* all but ourselves; none there: nothing to do */
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        bool told = false;
        for (size_t j = 0; j < i; j++)
            told = told || (children[j].pid != 0 && children[j].other && children[j].uid == children[i].uid);
        if (children[i].pid != 0 && children[i].other && !told)
            signal_as(children[i].uid, -1, signal);
    }
}

/* A child leads its own session and group. Its number isn't given to another process before we reap it, and
 * then it is no longer in the table: no signal can go astray. */
static void pass_signal(uint32_t id, int signal) {
    if (id == 0) {
        signal_all(signal);
        return;
    }
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        if (children[i].pid == 0 || children[i].id != id)
            continue;
        if (children[i].other)
            signal_as(children[i].uid, -children[i].pid, signal);
        else
            (void)kill(-children[i].pid, signal); /* the group may be gone between */
    }
}

static void serve(struct request *request) {
    struct pin_init_message head;
    receive_head(&head, request);
    request->id = head.id;
    switch (head.type) {
    case PIN_INIT_EXEC: execute(request, head.length); break;
    case PIN_INIT_SIGNAL: pass_signal(head.id, head.value); break;
    default: _exit(1);
    }
}

static void report(pid_t pid, int status) {
    for (size_t i = 0; i < CHILDREN_MAX; i++) {
        if (children[i].pid != pid)
            continue;
        bool last = children[i].last;
        uint32_t id = children[i].id;
        children[i] = (struct child){0};
        queue_message(PIN_INIT_EXITED, id, status);
        if (last) {
            flush();
            _exit(0);
        }
        return;
    }
}

/* True when there may be more to reap. */
static bool reap(void) {
    for (int i = 0; i < REAP_BATCH; i++) {
        int status = 0;
        pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
        if (pid <= 0)
            return false;
        report(pid, status);
    }
    return true;
}

static int prepare(void) {
    static const uint64_t all = ~UINT64_C(0);
    sigset_t child;
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "pinfold-init", 0, 0, 0);
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof(all));
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(void) {
    int signals = prepare();
    if (signals < 0)
        return 1;
    send_message(PIN_INIT_READY, 0, 0, NULL, -1);
    struct pollfd ready[2] = {
        {.fd = PIN_INIT_CONTROL_FD, .events = POLLIN},
        {.fd = signals,             .events = POLLIN}
    };
    static const struct timespec at_once = {0, 0};
    for (bool more = true;;) {
        if (ppoll(ready, 2, more ? &at_once : NULL, NULL) < 0)
            return 1;
        struct request request = {.terminal = -1};
        if (ready[0].revents != 0)
            serve(&request);
        struct signalfd_siginfo info; /* one read: processes inside may send SIGCHLD without end */
        (void)!read(signals, &info, sizeof(info));
        more = reap(); /* what was started may have ended by now: then both are told at once */
        flush();
        release(&request);
    }
}
