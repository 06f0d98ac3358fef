#include "runtime/kept/home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/process.h"
#include "base/text.h"
#include "runtime/state/state_dir.h"
#include "runtime/state/tree.h"

#define FILE_LIMIT ((size_t)1024 * 1024)
#define BACKLOG 128
#define CLAIMS_MAX 200
#define CLAIM_STEP_US 1000
#define SIGNATURE_ROOM 64
#define CONNECT_S 10 /* for a supervisor that takes no connection */

static bool check_name(const char *name, struct pin_error *err) {
    if (pin_is_name(name))
        return true;
    (void)pin_fail(err, PIN_ERROR_INVALID, "'%.70s' is no name of a sandbox", name);
    return pin_hint(err, "letters, digits, '_', '.' and '-', at most 63, beginning with a letter or digit");
}

static bool take_lock(int fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static bool is_entry(int dir, const char *name, int fd) {
    struct stat held, now;
    return fstat(fd, &held) == 0 && fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_ino == now.st_ino && held.st_dev == now.st_dev;
}

/* False without an error: somebody has cleared it away, or is about to. */
static bool claim(int all, const char *name, struct pin_home *place, struct pin_error *err) {
    if (mkdirat(all, name, 0700) != 0)
        return pin_fail_errno(err, "make the sandbox '%s'", name);
    PIN_CLOSE int folder = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    PIN_CLOSE int lock =
        folder < 0 ? -1 : openat(folder, "lock", O_CREAT | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock >= 0 && take_lock(lock)) {
        if (!is_entry(folder, "lock", lock) || !is_entry(all, name, folder))
            return false;
        *place = (struct pin_home){pin_steal_fd(&folder), pin_steal_fd(&lock)};
        return true;
    }
    if (errno == ENOENT || errno == EAGAIN || errno == EACCES)
        return false;
    (void)pin_fail_errno(err, "lock the sandbox '%s'", name);
    (void)unlinkat(all, name, AT_REMOVEDIR);
    return false;
}

/* For who has to end it from outside: a name to be checked, the lock is what tells. */
static bool sign(int lock, struct pin_error *err) {
    char text[SIGNATURE_ROOM], state;
    uint64_t start_time;
    if (!pin_process_stat(getpid(), &state, &start_time))
        return pin_fail(err, PIN_ERROR_SYSTEM, "find when this process has started");
    (void)snprintf(text, sizeof(text), "%d %llu\n", (int)getpid(), (unsigned long long)start_time);
    return pin_write_all(lock, text, strlen(text), err);
}

/* Between its birth and its lock a directory looks like what a dead sandbox has left: whoever clears that
 * away may take it, and it is made again. */
bool pin_home_make(int state_dir, const char *name, struct pin_home *place, struct pin_error *err) {
    if (!check_name(name, err))
        return false;
    PIN_CLOSE int all = pin_state_folder(state_dir, PIN_HOME_FOLDER, true, err);
    if (all < 0)
        return false;
    for (int i = 0; i < CLAIMS_MAX; i++) {
        if (claim(all, name, place, err)) {
            if (sign(place->lock, err))
                return true;
            struct pin_error left = {0}; /* `rm` can do it later */
            pin_home_close(place);
            (void)pin_home_remove(state_dir, name, &left);
            return pin_wrap(err, "make the sandbox '%s'", name);
        }
        if (pin_is_set(err) && (i == 0 || err->kind != PIN_ERROR_EXISTS))
            break;
        pin_error_clear(err);
        (void)usleep(CLAIM_STEP_US);
    }
    if (!pin_is_set(err))
        return pin_fail(err, PIN_ERROR_BUSY, "the sandbox '%s' is being cleared away", name);
    return err->kind == PIN_ERROR_EXISTS
               ? pin_hint(err, "choose another name, or 'pinfold rm %s' first", name)
               : false;
}

void pin_home_close(struct pin_home *place) {
    pin_close_fd(&place->folder);
    pin_close_fd(&place->lock);
}

static bool no_such(const char *name, struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "there is no sandbox '%s'", name);
    return pin_hint(err, "'pinfold ls' names them");
}

int pin_home_open(int state_dir, const char *name, struct pin_error *err) {
    if (!check_name(name, err))
        return -1;
    PIN_CLOSE int all = pin_state_folder(state_dir, PIN_HOME_FOLDER, false, err);
    int folder = all < 0 ? -1 : openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 && (all >= 0 ? errno == ENOENT : err->kind == PIN_ERROR_NOT_FOUND)) {
        pin_error_clear(err);
        (void)no_such(name, err);
    } else if (folder < 0 && all >= 0) {
        (void)pin_fail_errno(err, "open the sandbox '%s'", name);
    }
    return folder;
}

bool pin_home_is_live(int folder) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    PIN_CLOSE int fd = openat(folder, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* The number is of the one that holds the lock if that is held when the process has been opened. */
int pin_home_supervisor(int folder) {
    size_t size;
    struct pin_error unread = {0};
    PIN_FREE char *text = pin_read_file_at(folder, "lock", SIGNATURE_ROOM, &size, &unread);
    int pid;
    unsigned long long start_time;
    if (text == NULL || sscanf(text, "%d %llu", &pid, &start_time) != 2)
        return -1;
    PIN_CLOSE int pidfd = pin_process_open(pid, start_time);
    return pidfd >= 0 && pin_home_is_live(folder) ? pin_steal_fd(&pidfd) : -1;
}

/* What is no file has never been a supervisor's lock: somebody has put it there. */
static int open_lock(int folder, const char *name, struct pin_error *err) {
    struct stat facts;
    if (fstatat(folder, "lock", &facts, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(facts.st_mode) &&
        !pin_tree_remove(folder, "lock", err))
        return -1;
    int lock = openat(folder, "lock", O_CREAT | O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (lock < 0)
        (void)pin_fail_errno(err, "lock the sandbox '%s'", name);
    return lock;
}

/* The lock is held while the directory goes: nobody else removes it, and nobody takes it for alive for long.
 */
bool pin_home_remove(int state_dir, const char *name, struct pin_error *err) {
    PIN_CLOSE int folder = pin_home_open(state_dir, name, err);
    if (folder < 0)
        return false;
    PIN_CLOSE int lock = open_lock(folder, name, err);
    if (lock < 0)
        return false;
    if (!take_lock(lock)) {
        (void)pin_fail(err, PIN_ERROR_BUSY, "the sandbox '%s' is alive", name);
        return pin_hint(err, "'pinfold stop %s' ends it, 'pinfold rm --force %s' does both", name, name);
    }
    PIN_CLOSE int all = pin_state_folder(state_dir, PIN_HOME_FOLDER, false, err);
    return all >= 0 && pin_tree_remove(all, name, err);
}

bool pin_home_list(int state_dir, pin_home_each *each, void *context, struct pin_error *err) {
    PIN_CLOSE int all = pin_state_folder(state_dir, PIN_HOME_FOLDER, false, err);
    if (all < 0 && err->kind == PIN_ERROR_NOT_FOUND) {
        pin_error_clear(err);
        return true;
    }
    DIR *list = all < 0 ? NULL : fdopendir(all);
    if (list == NULL)
        return all < 0 ? false : pin_fail_errno(err, "list the sandboxes");
    (void)pin_steal_fd(&all);
    bool ok = true;
    const struct dirent *entry;
    while (ok && (entry = pin_next_entry(list, err)) != NULL) {
        if (!pin_is_name(entry->d_name))
            continue;
        PIN_CLOSE int folder =
            openat(dirfd(list), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        ok = folder < 0 || each(context, entry->d_name, folder);
    }
    (void)closedir(list);
    return ok && !pin_is_set(err);
}

bool pin_home_write(int folder, const char *file, const json_t *json, struct pin_error *err) {
    char fresh_name[64];
    PIN_FREE char *text = json_dumps(json, JSON_COMPACT);
    (void)snprintf(fresh_name, sizeof(fresh_name), "%s.new", file);
    PIN_CLOSE int fresh =
        openat(folder, fresh_name, O_CREAT | O_TRUNC | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (text == NULL || fresh < 0)
        return pin_fail_errno(err, "write '%s'", file);
    return pin_write_all(fresh, text, strlen(text), err) &&
           (renameat(folder, fresh_name, folder, file) == 0 || pin_fail_errno(err, "write '%s'", file));
}

json_t *pin_home_read(int folder, const char *file, struct pin_error *err) {
    size_t size;
    json_error_t fault;
    PIN_FREE char *text = pin_read_file_at(folder, file, FILE_LIMIT, &size, err);
    json_t *json = text == NULL ? NULL : json_loadb(text, size, 0, &fault);
    if (json == NULL && text != NULL)
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "'%s' isn't what pinfold writes", file);
    return json;
}

/* By the descriptor: the path of the state directory may be longer than an address has room. */
static void name_socket(int folder, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/control", folder);
}

int pin_home_listen(int folder, struct pin_error *err) {
    struct sockaddr_un address;
    name_socket(folder, &address);
    PIN_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
        fchmodat(folder, "control", 0700, 0) == 0 && listen(fd, BACKLOG) == 0)
        return pin_steal_fd(&fd);
    (void)pin_fail_errno(err, "make the control socket");
    return -1;
}

ino_t pin_home_socket(int folder) {
    struct stat facts;
    return fstatat(folder, "control", &facts, AT_SYMLINK_NOFOLLOW) == 0 ? facts.st_ino : 0;
}

static bool set_patience(int fd, time_t seconds) {
    const struct timeval patience = {.tv_sec = seconds};
    return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0;
}

int pin_home_connect(int folder, const char *name, struct pin_error *err) {
    struct sockaddr_un address;
    name_socket(folder, &address);
    PIN_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && set_patience(fd, CONNECT_S) &&
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 && set_patience(fd, 0))
        return pin_steal_fd(&fd);
    int cause = errno;
    if (fd >= 0 && cause == EAGAIN) {
        (void)pin_fail(err, PIN_ERROR_EXHAUSTED, "the supervisor of '%s' takes no connection", name);
        (void)pin_hint(err, "'pinfold kill %s' ends it in any case", name);
        return -1;
    }
    bool nobody = fd >= 0 && (cause == ECONNREFUSED || cause == ENOENT);
    if (nobody && pin_home_is_live(folder)) {
        (void)pin_fail(err, PIN_ERROR_BUSY, "the sandbox '%s' is being made, or is ending", name);
    } else if (nobody) {
        (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "the sandbox '%s' has ended", name);
        (void)pin_hint(err, "'pinfold rm %s' removes what is left of it", name);
    } else {
        errno = cause;
        (void)pin_fail_errno(err, "reach the sandbox '%s'", name);
    }
    return -1;
}
