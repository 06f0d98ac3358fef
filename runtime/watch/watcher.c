#include "runtime/watch/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/magic.h>
#include <linux/seccomp.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "policy/syscalls.h"
#include "runtime/watch/watch_calls.h"
#include "runtime/watch/watch_command.h"
#include "runtime/watch/watch_path.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64) /* Linux 6.6 */
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

#define CALLS_MAX 512
#define THREADS 4096 /* places of a table by thread id: who falls into the same place is looked at again */
#define LOOK_AT_TMP_EVERY 64
#define FD_MAX (1 << 20)

struct watcher_row {
    unsigned first, count; /* in pin_watch_arguments */
    bool has_fd;           /* its first argument is a descriptor */
    bool is_socket_name;   /* its second argument is a socket's address */
    bool is_execve, is_exit;
};

struct pin_watcher {
    struct pin_watcher_options given;
    int stop;
    pthread_t thread;
    struct watcher_row rows[CALLS_MAX]; /* by number */
    struct {
        pid_t tid;
        bool counts;
    } threads[THREADS];
    struct seccomp_notif *call;
    struct seccomp_notif_resp *answer;
    size_t call_size, answer_size;
    uint64_t seen;
};

/* ioctl(2) itself: C libraries disagree on the type of its request. */
static long control(int listener, unsigned long request, void *argument) {
    return syscall(SYS_ioctl, listener, request, argument);
}

/* --- set-up --- */

static struct watcher_row *row_of(struct pin_watcher *watcher, const char *name) {
    int number = pin_syscall_number(watcher->given.arch, name);
    return number >= 0 && number < CALLS_MAX ? &watcher->rows[number] : NULL;
}

static void fill_rows(struct pin_watcher *watcher) {
    static const char *const by_fd[] = {"close", "read", "write", "fstat", "fcntl", "lseek", "ioctl", "dup"};
    static const char *const sockets[] = {"connect", "bind"}, *const execs[] = {"execve", "execveat"};
    struct watcher_row *row;
    for (unsigned i = 0; i < pin_watch_argument_count; i++)
        if ((row = row_of(watcher, pin_watch_arguments[i].call)) != NULL && row->count++ == 0)
            row->first = i;
    for (size_t i = 0; i < PIN_COUNT(by_fd); i++)
        if ((row = row_of(watcher, by_fd[i])) != NULL)
            row->has_fd = true;
    for (size_t i = 0; i < PIN_COUNT(sockets); i++)
        if ((row = row_of(watcher, sockets[i])) != NULL)
            row->is_socket_name = true;
    for (size_t i = 0; i < PIN_COUNT(execs); i++)
        if ((row = row_of(watcher, execs[i])) != NULL)
            row->is_execve = true;
    if ((row = row_of(watcher, "exit_group")) != NULL)
        row->is_exit = true;
}

static bool make_room(struct pin_watcher *watcher, struct pin_error *err) {
    struct seccomp_notif_sizes sizes;
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0)
        return pin_fail_errno(err, "ask for the size of a notification");
    watcher->call_size =
        sizes.seccomp_notif > sizeof(*watcher->call) ? sizes.seccomp_notif : sizeof(*watcher->call);
    watcher->answer_size = sizes.seccomp_notif_resp > sizeof(*watcher->answer) ? sizes.seccomp_notif_resp
                                                                               : sizeof(*watcher->answer);
    watcher->call = calloc(1, watcher->call_size);
    watcher->answer = calloc(1, watcher->answer_size);
    watcher->stop = eventfd(0, EFD_CLOEXEC);
    return (watcher->call != NULL && watcher->answer != NULL && watcher->stop >= 0) ||
           pin_fail_errno(err, "make room for notifications");
}

/* --- what is recorded --- */

/* Between fork and exec a child of init's still runs init's code. */
static bool runs_init(pid_t tid) {
    static const char init[] = "/memfd:pinfold-init";
    char link[64], program[64];
    (void)snprintf(link, sizeof(link), "/proc/%d/exe", (int)tid);
    ssize_t length = readlink(link, program, sizeof(program));
    return length >= (ssize_t)(sizeof(init) - 1) && memcmp(program, init, sizeof(init) - 1) == 0;
}

static bool counts(struct pin_watcher *watcher, pid_t tid) {
    if (tid == watcher->given.init)
        return false;
    size_t place = (size_t)tid % THREADS;
    if (watcher->threads[place].tid != tid) {
        watcher->threads[place].tid = tid;
        watcher->threads[place].counts = !runs_init(tid);
    }
    return watcher->threads[place].counts;
}

static void forget(struct pin_watcher *watcher, pid_t tid) {
    watcher->threads[(size_t)tid % THREADS].tid = 0;
}

/* The thread may have died since, and its number be another's: what was read then says nothing. */
static bool still_waits(const struct pin_watcher *watcher) {
    return control(watcher->given.listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &watcher->call->id) == 0;
}

static void note_path(struct pin_watcher *watcher, int dirfd, const char *text, bool follow, unsigned uses,
                      bool makes) {
    struct pin_watch_path path;
    if (!pin_watch_resolve((pid_t)watcher->call->pid, dirfd, text, follow, &path) || !still_waits(watcher))
        return;
    if (path.exists && makes)
        uses = PIN_USE_LOOK;
    if (!path.exists)
        uses |= PIN_USE_MISSING | (path.fresh ? PIN_USE_NEW : 0);
    pin_recording_path(watcher->given.recording, path.text, uses);
}

static void note_argument(struct pin_watcher *watcher, const struct pin_watch_argument *argument) {
    const uint64_t *args = (const uint64_t *)watcher->call->data.args;
    char text[PIN_WATCH_PATH_MAX];
    bool follow = argument->follow;
    unsigned uses =
        argument->flags >= 0 ? pin_watch_open_uses(args[argument->flags], &follow) : argument->uses;
    int dirfd = argument->dirfd >= 0 ? (int)(uint32_t)args[argument->dirfd] : AT_FDCWD;
    if (pin_watch_text((pid_t)watcher->call->pid, args[argument->path], text, sizeof(text)) &&
        text[0] != '\0')
        note_path(watcher, dirfd, text, follow, uses, argument->makes);
}

/* Sockets that are files; those of networks are the broker's to tell. */
static void note_socket(struct pin_watcher *watcher, bool connects) {
    const uint64_t *args = (const uint64_t *)watcher->call->data.args;
    struct sockaddr_un name = {0};
    size_t size = args[2] < sizeof(name) ? (size_t)args[2] : sizeof(name) - 1;
    struct iovec here = {&name, size}, there = {(void *)(uintptr_t)args[1], size};
    if (process_vm_readv((pid_t)watcher->call->pid, &here, 1, &there, 1, 0) != (ssize_t)size ||
        name.sun_family != AF_UNIX || size <= offsetof(struct sockaddr_un, sun_path) ||
        name.sun_path[0] == '\0')
        return;
    note_path(watcher, AT_FDCWD, name.sun_path, true, connects ? PIN_USE_CONNECT : PIN_USE_WRITE, !connects);
}

static void look_at_tmp(struct pin_watcher *watcher) {
    char path[64];
    struct statfs fs;
    (void)snprintf(path, sizeof(path), "/proc/%d/root/tmp", (int)watcher->given.init);
    if (statfs(path, &fs) != 0 || fs.f_type != TMPFS_MAGIC)
        return;
    uint64_t used = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    if (used > watcher->given.recording->peaks.tmp_bytes)
        watcher->given.recording->peaks.tmp_bytes = used;
}

static void note_descriptor(struct pin_watcher *watcher) {
    uint64_t fd = (uint32_t)watcher->call->data.args[0];
    uint64_t *most = &watcher->given.recording->peaks.files;
    if (fd < FD_MAX && fd + 1 > *most)
        *most = fd + 1;
}

/* A number of another process by now says nothing: then it counts as the sandbox's own. */
static void tell_denied(const struct pin_watcher *watcher, const struct pin_syscall *call) {
    uint32_t command = pin_watch_command((pid_t)watcher->call->pid);
    if (command != 0 && !still_waits(watcher))
        command = 0;
    watcher->given.denied(watcher->given.self, command, call->name,
                          (const uint64_t *)watcher->call->data.args);
}

static void record(struct pin_watcher *watcher, const struct pin_syscall *call, bool denied) {
    const struct watcher_row *row = &watcher->rows[watcher->call->data.nr];
    if (watcher->given.denied != NULL) {
        tell_denied(watcher, call);
        return;
    }
    pin_recording_call(watcher->given.recording, call->name, (const uint64_t *)watcher->call->data.args,
                       denied);
    if (denied) /* whatever it names, it isn't touched */
        return;
    for (unsigned i = 0; i < row->count; i++)
        note_argument(watcher, &pin_watch_arguments[row->first + i]);
    if (row->is_socket_name)
        note_socket(watcher, strcmp(call->name, "connect") == 0);
    if (row->has_fd)
        note_descriptor(watcher);
    if (row->is_exit || ++watcher->seen % LOOK_AT_TMP_EVERY == 0)
        look_at_tmp(watcher);
}

/* --- the answers --- */

/* A call that the filter ends a process for fails here: the record says what it was. */
static int error_of(const struct pin_filter_verdict *verdict) {
    switch (verdict->action) {
    case PIN_FILTER_ALLOW:
    case PIN_FILTER_LOG: return 0;
    case PIN_FILTER_ERRNO:
    case PIN_FILTER_TRACE: return verdict->error != 0 ? verdict->error : EPERM;
    case PIN_FILTER_KILL_PROCESS:
    case PIN_FILTER_KILL_THREAD:
    case PIN_FILTER_TRAP:
    case PIN_FILTER_NOTIFY:
    case PIN_FILTER_ACTION_COUNT: break;
    }
    return EPERM;
}

static void answer(struct pin_watcher *watcher) {
    const struct seccomp_data *data = &watcher->call->data;
    pid_t tid = (pid_t)watcher->call->pid;
    uint32_t number = (uint32_t)data->nr;
    struct pin_filter_verdict verdict =
        pin_filter_judge(watcher->given.filter, watcher->given.arch, number, (const uint64_t *)data->args);
    const struct pin_syscall *call = pin_syscall_at(watcher->given.arch, number);
    int error = error_of(&verdict);
    bool executes = number < CALLS_MAX && watcher->rows[number].is_execve;
    if (call != NULL && number < CALLS_MAX && (error != 0 || watcher->given.denied == NULL) &&
        (counts(watcher, tid) || (executes && tid != watcher->given.init)))
        record(watcher, call, error != 0);
    if (executes)
        forget(watcher, tid);
    memset(watcher->answer, 0, watcher->answer_size);
    watcher->answer->id = watcher->call->id;
    watcher->answer->error = -error;
    watcher->answer->flags = error == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
    (void)control(watcher->given.listener, SECCOMP_IOCTL_NOTIF_SEND,
                  watcher->answer); /* it may be dead by now */
}

static void *watch(void *self) {
    struct pin_watcher *watcher = self;
    struct pollfd waits[] = {
        {.fd = watcher->given.listener, .events = POLLIN},
        {.fd = watcher->stop,           .events = POLLIN},
    };
    while (poll(waits, PIN_COUNT(waits), -1) >= 0 || errno == EINTR) {
        if ((waits[0].revents & POLLIN) != 0) {
            memset(watcher->call, 0, watcher->call_size);
            if (control(watcher->given.listener, SECCOMP_IOCTL_NOTIF_RECV, watcher->call) == 0)
                answer(watcher);
        } else if (waits[1].revents != 0 || (waits[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
            break; /* nobody is left */
        }
    }
    return NULL;
}

static bool start_thread(struct pin_watcher *watcher, struct pin_error *err) {
    sigset_t all, before;
    (void)sigfillset(&all); /* signals are the supervisor's */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&watcher->thread, NULL, watch, watcher);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = code;
    return code == 0 || pin_fail_errno(err, "start the watcher");
}

static void release(struct pin_watcher *watcher) {
    free(watcher->call);
    free(watcher->answer);
    pin_close_fd(&watcher->stop);
    free(watcher);
}

struct pin_watcher *pin_watcher_start(const struct pin_watcher_options *options, struct pin_error *err) {
    uint64_t sync = SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP;
    struct pin_watcher *watcher = calloc(1, sizeof(*watcher));
    if (watcher == NULL) {
        (void)pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory for the watcher");
        return NULL;
    }
    watcher->given = *options;
    watcher->stop = -1;
    fill_rows(watcher);
    (void)control(options->listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                  (void *)(uintptr_t)sync); /* before Linux 6.6: slower */
    if (make_room(watcher, err) && start_thread(watcher, err))
        return watcher;
    release(watcher);
    return NULL;
}

void pin_watcher_end(struct pin_watcher *watcher) {
    uint64_t one = 1;
    if (watcher == NULL)
        return;
    pin_ignore(write(watcher->stop, &one, sizeof(one)));
    (void)pthread_join(watcher->thread, NULL);
    release(watcher);
}
