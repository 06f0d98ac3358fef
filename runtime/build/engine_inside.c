#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/build/engine.h"
#include "runtime/build/mounts.h"

/* By the host's procfs, which shows the settings of the namespaces that we are in. */
bool pin_engine_set_system(const struct pin_plan *plan, struct pin_error *err) {
    const struct pin_plan_engine *engine = &plan->engine;
    char path[PATH_MAX];
    for (size_t i = 0; i < engine->sysctl_count; i++) {
        (void)snprintf(path, sizeof(path), "/proc/sys/%s", engine->sysctls[i].key);
        if (!pin_write_value_at(AT_FDCWD, path, engine->sysctls[i].value, err))
            return false;
    }
    return engine->label_file == NULL || pin_write_value_at(AT_FDCWD, engine->label_file, engine->label, err);
}

static bool send_master(int console, int master, struct pin_error *err) {
    static char name[] = "/dev/ptmx";
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } ancillary = {0};
    struct iovec part = {name, sizeof(name) - 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof(ancillary)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &master, sizeof(int));
    if (sendmsg(console, &message, MSG_NOSIGNAL) < 0)
        return pin_fail_errno(err, "send the terminal to the console socket");
    return true;
}

/* The terminal is the container's own; a root file system may bring a /dev/pts that is none. */
static bool open_pair(const struct pin_plan *plan, int *master, int *slave, struct pin_error *err) {
    struct statfs fs;
    int unlocked = 0;
    const struct winsize size = {.ws_row = plan->bundle->process.console_rows,
                                 .ws_col = plan->bundle->process.console_columns};
    *master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
    if (*master < 0)
        return pin_fail_errno(err, "open '/dev/pts/ptmx'");
    if (fstatfs(*master, &fs) != 0 || fs.f_type != DEVPTS_SUPER_MAGIC)
        return pin_fail(err, PIN_ERROR_REFUSED, "the container's /dev/pts is no devpts");
    *slave = ioctl(*master, TIOCSPTLCK, &unlocked) != 0
                 ? -1
                 : ioctl(*master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*slave < 0 || (size.ws_row > 0 && ioctl(*master, TIOCSWINSZ, &size) != 0))
        return pin_fail_errno(err, "make a terminal");
    return true;
}

static bool show_console(int slave, struct pin_error *err) {
    int made =
        open("/dev/console", O_CREAT | O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_CLOEXEC, 0600);
    if (made >= 0) /* else what is there is looked at below */
        (void)close(made);
    PIN_CLOSE int target = open("/dev/console", O_PATH | O_NOFOLLOW | O_CLOEXEC);
    PIN_CLOSE int tree = open_tree(slave, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (target < 0 || tree < 0)
        return pin_fail_errno(err, "make '/dev/console'");
    return pin_mounts_attach(tree, target, err);
}

/* Who runs as an ordinary user may open its own stdio by /dev/stdout, too. */
static void give_stdio(uint32_t uid) {
    for (int fd = 0; fd <= 2; fd++) {
        struct stat st;
        if (fstat(fd, &st) != 0 || st.st_uid == uid)
            continue;
        bool null = S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
        if (!null && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
            pin_ignore(fchown(fd, uid, st.st_gid)); /* a socket, or another's file: then it stays as it is */
    }
}

bool pin_engine_open_terminal(const struct pin_plan *plan, int console, struct pin_error *err) {
    PIN_CLOSE int master = -1;
    PIN_CLOSE int slave = -1;
    if (!plan->engine.terminal) {
        give_stdio(plan->bundle->process.uid);
        return true;
    }
    if (console < 0)
        return pin_fail(err, PIN_ERROR_USAGE,
                        "cannot allocate tty if it will detach without setting console socket");
    if (!open_pair(plan, &master, &slave, err) ||
        (!plan->engine.joins_container && !show_console(slave, err)) || !send_master(console, master, err))
        return false;
    pin_ignore(fchown(slave, plan->bundle->process.uid, (gid_t)-1));
    for (int fd = 0; fd <= 2; fd++)
        if (dup2(slave, fd) != fd)
            return pin_fail_errno(err, "take the terminal");
    if (ioctl(STDIN_FILENO, TIOCSCTTY, 0) != 0)
        return pin_fail_errno(err, "make the terminal the controlling one");
    return true;
}

struct scheduling { /* struct sched_attr of sched_setattr(2), its first version */
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

bool pin_engine_set_scheduling(const struct pin_plan *plan, struct pin_error *err) {
    const struct pin_plan_engine *engine = &plan->engine;
    const struct pin_bundle *bundle = plan->bundle;
    if (engine->has_personality && personality(engine->personality) == -1)
        return pin_fail_errno(err, "set the personality") || pin_point(err, "/linux/personality");
    if (engine->has_io_priority && syscall(SYS_ioprio_set, 1 /* a process */, 0, engine->io_priority) != 0)
        return pin_fail_errno(err, "set the I/O priority") || pin_point(err, "/process/ioPriority");
    struct scheduling attributes = {
        .size = sizeof(attributes),
        .policy = engine->scheduler_policy,
        .flags = engine->scheduler_flags,
        .nice = bundle->process.scheduler_nice,
        .priority = (uint32_t)bundle->process.scheduler_priority,
        .runtime = bundle->process.scheduler_runtime,
        .deadline = bundle->process.scheduler_deadline,
        .period = bundle->process.scheduler_period,
    };
    if (engine->has_scheduler && syscall(SYS_sched_setattr, 0, &attributes, 0) != 0)
        return pin_fail_errno(err, "set the scheduler") || pin_point(err, "/process/scheduler");
    return true;
}

bool pin_engine_close_unlisted(const struct pin_plan *plan, int *control, int *start, int *listener,
                               struct pin_error *err) {
    enum { MOVED = 3 };
    int first = 3 + (int)plan->engine.kept_descriptors;
    for (int fd = 3; fd < first; fd++)
        if (fcntl(fd, F_SETFD, 0) != 0)
            return pin_fail_errno(err, "keep descriptor %d", fd);
    int *moved[MOVED] = {control, start, listener};
    for (int i = 0; i < MOVED; i++) {
        int high = *moved[i] < 0 ? -1 : fcntl(*moved[i], F_DUPFD_CLOEXEC, first + MOVED);
        if (*moved[i] >= 0 && high < 0)
            return pin_fail_errno(err, "move a descriptor");
        *moved[i] = high;
    }
    for (int i = 0; i < MOVED; i++) {
        if (*moved[i] >= 0 && dup3(*moved[i], first + i, O_CLOEXEC) != first + i)
            return pin_fail_errno(err, "move a descriptor");
        if (*moved[i] < 0)
            (void)close(first + i);
        else
            *moved[i] = first + i;
    }
    if (syscall(SYS_close_range, first + MOVED, ~0u, 0) != 0)
        return pin_fail_errno(err, "close the descriptors");
    return true;
}

static bool enter_directory(const struct pin_plan *plan, struct pin_error *err) {
    const char *cwd = plan->bundle->process.cwd;
    char path[PATH_MAX];
    size_t length = strlen(cwd);
    if (length >= sizeof(path))
        return pin_fail(err, PIN_ERROR_INVALID, "cwd is too long");
    memcpy(path, cwd, length + 1);
    for (size_t i = 1; !plan->engine.joins_container && i <= length; i++) {
        if (i < length && path[i] != '/')
            continue;
        path[i] = '\0';
        (void)mkdir(path, 0755); /* what is there stays, and what can't be made fails below */
        path[i] = cwd[i];
    }
    if (chdir(cwd) != 0)
        return pin_fail_errno(err, "chdir to cwd (\"%s\") set in config.json failed", cwd);
    /* a directory outside the root would be the way out */
    if (syscall(SYS_getcwd, path, sizeof(path)) < 0 || path[0] != '/')
        return pin_fail(err, PIN_ERROR_REFUSED, "the working directory is outside the container");
    return true;
}

/* HOME from the container's own list of users, as login would set it. */
static void complete_environment(const struct pin_plan *plan) {
    static char users[64 * 1024], home[PATH_MAX + 8];
    const struct pin_plan_engine *engine = &plan->engine;
    for (size_t i = 0; i < engine->env_count; i++)
        if (strncmp(engine->envp[i], "HOME=", 5) == 0)
            return;
    (void)snprintf(home, sizeof(home), "HOME=/");
    PIN_CLOSE int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t size = fd < 0 ? -1 : read(fd, users, sizeof(users) - 1);
    users[size < 0 ? 0 : size] = '\0';
    char *rest = users;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        const char *fields[7] = {NULL};
        for (int i = 0; i < 7 && line != NULL; i++)
            fields[i] = strsep(&line, ":");
        char *end;
        if (fields[5] == NULL || fields[2][0] == '\0' ||
            strtoul(fields[2], &end, 10) != plan->bundle->process.uid || *end != '\0')
            continue;
        (void)snprintf(home, sizeof(home), "HOME=%s", fields[5]);
        break;
    }
    engine->envp[engine->env_count] = home;
}

/* 0, or an errno: what executing it would say. */
static int judge(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    if (!S_ISREG(st.st_mode))
        return EACCES;
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static bool search_path(const struct pin_plan *plan, const char *name, char program[PATH_MAX],
                        struct pin_error *err) {
    const char *path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    bool denied = false;
    for (size_t i = 0; i < plan->engine.env_count; i++)
        if (strncmp(plan->engine.envp[i], "PATH=", 5) == 0)
            path = plan->engine.envp[i] + 5;
    for (;;) {
        size_t size = strcspn(path, ":");
        int length = snprintf(program, PATH_MAX, "%.*s%s%s", (int)size, path, size > 0 ? "/" : "./", name);
        int cause = length < PATH_MAX ? judge(program) : ENAMETOOLONG;
        if (cause == 0)
            return true;
        denied |= cause == EACCES;
        if (path[size] == '\0')
            break;
        path += size + 1;
    }
    return denied
               ? pin_fail(err, PIN_ERROR_NOT_EXECUTABLE, "exec: \"%s\": permission denied", name)
               : pin_fail(err, PIN_ERROR_NOT_FOUND, "exec: \"%s\": executable file not found in $PATH", name);
}

static bool find_program(const struct pin_plan *plan, char program[PATH_MAX], struct pin_error *err) {
    const char *name = plan->engine.argv[0];
    if (strchr(name, '/') == NULL)
        return search_path(plan, name, program, err);
    int cause = judge(name);
    (void)snprintf(program, PATH_MAX, "%s", name);
    if (cause == 0)
        return true;
    if (cause == EISDIR)
        return pin_fail(err, PIN_ERROR_NOT_EXECUTABLE, "exec: \"%s\": is a directory: permission denied",
                        name);
    errno = cause;
    return pin_fail_errno(err, "exec: \"%s\": stat %s", name, name);
}

bool pin_engine_find_program(const struct pin_plan *plan, char program[PATH_MAX], struct pin_error *err) {
    uint32_t uid = plan->bundle->process.uid, gid = plan->bundle->process.gid;
    uid_t own_uid = geteuid();
    gid_t own_gid = getegid();
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_DFL);
    if (!enter_directory(plan, err))
        return false;
    complete_environment(plan);
    /* the effective ids alone, so that we can come back */
    bool other = uid != own_uid && syscall(SYS_setresgid, -1, gid, -1) == 0 &&
                 syscall(SYS_setresuid, -1, uid, -1) == 0;
    bool ok = find_program(plan, program, err);
    if (other &&
        (syscall(SYS_setresuid, -1, own_uid, -1) != 0 || syscall(SYS_setresgid, -1, own_gid, -1) != 0))
        return pin_is_set(err) ? false : pin_fail_errno(err, "return to the set-up's user");
    return ok;
}

bool pin_engine_await_start(int start, int *report, struct pin_error *err) {
    for (;;) {
        char byte;
        PIN_CLOSE int connection = accept4(start, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0 && errno == EINTR)
            continue;
        if (connection < 0)
            return pin_fail_errno(err, "wait for the start");
        if (recv(connection, &byte, 1, 0) != 1)
            continue; /* whoever wanted to start it is gone */
        (void)close(start);
        *report = pin_steal_fd(&connection);
        return true;
    }
}

/* False with *bind set: the node can't be made here, and the host's is to be bound in its place. */
bool pin_engine_make_device(const struct pin_op *op, int parent, const char *name, int *bind,
                            struct pin_error *err) {
    const struct pin_bundle_device *device = &op->device;
    mode_t type = device->type == 'b' ? S_IFBLK : device->type == 'p' ? S_IFIFO : S_IFCHR;
    dev_t number = device->type == 'p' ? 0 : makedev((unsigned)device->major, (unsigned)device->minor);
    struct stat st;
    *bind = -1;
    if (mknodat(parent, name, type | (device->mode & 07777), number) == 0)
        return fchownat(parent, name, device->uid, device->gid, AT_SYMLINK_NOFOLLOW) == 0 ||
               pin_fail_errno(err, "chown '%s'", device->path);
    int cause = errno;
    if (cause == EEXIST && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        (st.st_mode & S_IFMT) == type && st.st_rdev == number)
        return true;
    if (cause != EEXIST && cause != EPERM) {
        errno = cause;
        return pin_fail_errno(err, "make the node '%s'", device->path);
    }
    *bind = open_tree(AT_FDCWD, device->path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    return *bind >= 0 || pin_fail_errno(err, "bind the node '%s'", device->path);
}
