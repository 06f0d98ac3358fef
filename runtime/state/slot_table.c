#include "runtime/state/slot_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

static const char table_name[] = "slots";

enum { REPAIR_TRIES = 100, REPAIR_PAUSE_NS = 2000000 };

static bool lock_bytes(int fd, short type, off_t start, off_t length) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool pin_slot_table_lock(int table, uint32_t number, bool *taken, struct pin_error *err) {
    *taken = lock_bytes(table, F_WRLCK, number, 1);
    return *taken || errno == EAGAIN || errno == EACCES || pin_fail_errno(err, "lock slot %u", number);
}

void pin_slot_table_unlock(int table, uint32_t number) {
    (void)lock_bytes(table, F_UNLCK, number, 1); /* closing the descriptor does it anyway */
}

bool pin_slot_table_is_locked(int table, uint32_t number, bool *locked, struct pin_error *err) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
    if (fcntl(table, F_OFD_GETLK, &lock) != 0)
        return pin_fail_errno(err, "ask for the lock of slot %u", number);
    *locked = lock.l_type != F_UNLCK;
    return true;
}

static bool torn(struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_SYNTAX, "the slot table of the state directory is torn");
    return pin_point(err, "%s", table_name);
}

bool pin_slot_table_read(int table, uint8_t *bytes, struct pin_error *err) {
    ssize_t got = pread(table, bytes, PIN_SLOT_COUNT, 0);
    if (got < 0)
        return pin_fail_errno(err, "read the slot table");
    return (size_t)got == PIN_SLOT_COUNT || torn(err);
}

bool pin_slot_table_get(int table, uint32_t number, uint8_t *byte, struct pin_error *err) {
    ssize_t got = pread(table, byte, 1, number);
    if (got < 0)
        return pin_fail_errno(err, "read slot %u", number);
    return got == 1 || torn(err);
}

bool pin_slot_table_set(int table, uint32_t number, uint8_t byte, struct pin_error *err) {
    return pwrite(table, &byte, 1, number) == 1 || pin_fail_errno(err, "write slot %u", number);
}

static bool check_file(const struct stat *facts, struct pin_error *err) {
    if (!S_ISREG(facts->st_mode))
        (void)pin_fail(err, PIN_ERROR_REFUSED, "the slot table is not a regular file");
    else if (facts->st_uid != geteuid())
        (void)pin_fail(err, PIN_ERROR_REFUSED, "the slot table belongs to uid %u", (unsigned)facts->st_uid);
    else if ((facts->st_mode & 0022) != 0 || facts->st_nlink > 1)
        (void)pin_fail(err, PIN_ERROR_REFUSED, "others can write the slot table (mode %04o, %u links)",
                       (unsigned)(facts->st_mode & 07777), (unsigned)facts->st_nlink);
    else
        return true;
    (void)pin_point(err, "%s", table_name);
    return pin_hint(err, "end the sandboxes of this state directory, then remove the file");
}

static bool has_size(int fd, bool *right, struct pin_error *err) {
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return pin_fail_errno(err, "look at the slot table");
    *right = facts.st_size == (off_t)PIN_SLOT_COUNT;
    return check_file(&facts, err);
}

static bool fill(int fd, uint8_t byte, struct pin_error *err) {
    uint8_t bytes[PIN_SLOT_COUNT];
    memset(bytes, byte, sizeof(bytes));
    if (pwrite(fd, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes) ||
        ftruncate(fd, (off_t)sizeof(bytes)) != 0)
        return pin_fail_errno(err, "write the slot table");
    return true;
}

/* In place, so that those who have it open keep seeing one and the same file; and only under the locks of all
 * slots, which an owner that is alive doesn't let us have. */
static bool rebuild(int fd, bool *repaired, struct pin_error *err) {
    for (int tries = 0; tries < REPAIR_TRIES; tries++) {
        bool right = false, locked = lock_bytes(fd, F_WRLCK, 0, 0);
        bool ok = has_size(fd, &right, err);
        if (ok && !right && locked) {
            ok = fill(fd, 1, err);
            *repaired = right = ok;
        }
        if (locked)
            (void)lock_bytes(fd, F_UNLCK, 0, 0);
        if (!ok || right)
            return ok;
        (void)nanosleep(&(struct timespec){.tv_nsec = REPAIR_PAUSE_NS}, NULL); /* another one repairs it */
    }
    (void)pin_fail(err, PIN_ERROR_BUSY, "the slot table is torn, and sandboxes still run under it");
    (void)pin_point(err, "%s", table_name);
    return pin_hint(err, "end the sandboxes of this state directory, then try again");
}

/* A file without a name that gets its name when it is whole. Where the file system has none (9p), an empty
 * file is made, which is a torn table and rebuilt as one. */
static bool create(int state_dir, struct pin_error *err) {
    PIN_CLOSE int fresh = openat(state_dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fresh < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
        fresh = openat(state_dir, table_name, O_CREAT | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
        return fresh >= 0 || pin_fail_errno(err, "make the slot table");
    }
    if (fresh < 0)
        return pin_fail_errno(err, "make the slot table");
    if (fchmod(fresh, 0600) != 0) /* whatever the umask says */
        return pin_fail_errno(err, "make the slot table");
    if (!fill(fresh, 0, err))
        return false;
    char self[64];
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fresh);
    return linkat(AT_FDCWD, self, state_dir, table_name, AT_SYMLINK_FOLLOW) == 0 || errno == EEXIST ||
           pin_fail_errno(err, "name the slot table");
}

static int open_existing(int state_dir) {
    return openat(state_dir, table_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static bool refuse_open(struct pin_error *err) {
    (void)pin_fail_errno(err, "open the slot table");
    (void)pin_point(err, "%s", table_name);
    return err->os_errno == EROFS
               ? false /* with the cause's own hint: the file is as it should be */
               : pin_hint(err, "it must be a regular file of mode 0600; remove it once no sandbox runs");
}

int pin_slot_table_open(int state_dir, bool *repaired, struct pin_error *err) {
    PIN_CLOSE int fd = open_existing(state_dir);
    if (fd < 0 && errno == ENOENT) {
        if (!create(state_dir, err))
            return -1;
        fd = open_existing(state_dir);
    }
    if (fd < 0) {
        (void)refuse_open(err);
        return -1;
    }
    bool right = false;
    if (!has_size(fd, &right, err) || (!right && !rebuild(fd, repaired, err)))
        return -1;
    return pin_steal_fd(&fd);
}
