#include "images/store/work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "images/image_name.h"
#include "images/remove.h"

/* An empty folder, for when the disk has no room for another: what removes things needs one to work in. */
#define SPARE "spare"

static bool lock_within(int fd, int how, unsigned wait_s, struct pin_error *err) {
    for (unsigned tenths = 0;; tenths++) {
        if (flock(fd, how | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return pin_fail_errno(err, "lock the image store");
        if (tenths >= wait_s * 10) {
            (void)pin_fail(err, PIN_ERROR_BUSY, "the image store is in use by another 'pinfold image'");
            return pin_hint(err, "wait until it has ended");
        }
        static const struct timespec pause = {.tv_nsec = 100000000};
        (void)nanosleep(&pause, NULL);
    }
}

/* Leftovers of processes that were killed: nobody holds their lock any more. */
static void sweep(const struct pin_image_store *store) {
    int tmp = openat(store->dir, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = tmp < 0 ? NULL : fdopendir(tmp);
    if (list == NULL) {
        pin_close_slot(&tmp);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(list)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        PIN_CLOSE int left = openat(tmp, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct pin_error ignored = {0}; /* what can't be removed now is tried again by the next one */
        if (left >= 0 && flock(left, LOCK_EX | LOCK_NB) == 0)
            (void)pin_remove_tree(tmp, entry->d_name, &ignored);
    }
    (void)closedir(list);
}

static void keep_spare(const struct pin_image_store *store) {
    (void)mkdirat(store->dir, SPARE, 0700); /* it is there, or the disk is full, or who comes next makes it */
}

static bool new_folder(const struct pin_image_store *store, const char *path, struct pin_error *err) {
    if (mkdirat(store->dir, path, 0700) == 0)
        return true;
    int cause = errno;
    if ((cause == ENOSPC || cause == EDQUOT) && renameat(store->dir, SPARE, store->dir, path) == 0)
        return true;
    errno = cause;
    return pin_fail_errno(err, "make '%s' in the image store", path);
}

/* False with no error set: it was swept away before we had its lock. */
static bool make_folder(struct pin_store_work *work, struct pin_error *err) {
    uint64_t random;
    char path[40];
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return pin_fail_errno(err, "choose a name");
    (void)snprintf(work->name, sizeof(work->name), "w%016llx", (unsigned long long)random);
    (void)snprintf(path, sizeof(path), "tmp/%s", work->name);
    if (!new_folder(work->store, path, err))
        return false;
    PIN_CLOSE int dir = openat(work->store->dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0 || fstat(dir, &st) < 0 || st.st_nlink == 0)
        return false;
    work->dir = pin_steal_fd(&dir);
    return true;
}

bool pin_store_work_begin(struct pin_store_work *work, const struct pin_image_store *store,
                          enum pin_store_lock lock, unsigned wait_s, struct pin_error *err) {
    *work = (struct pin_store_work){.store = store, .lock = -1, .dir = -1};
    if (!pin_image_store_complete(store, err))
        return false;
    sweep(store);
    keep_spare(store);
    PIN_CLOSE int fd = openat(store->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return pin_fail_errno(err, "open the lock of the image store");
    if (!lock_within(fd, lock == PIN_STORE_ALONE ? LOCK_EX : LOCK_SH, wait_s, err))
        return false;
    while (!make_folder(work, err))
        if (pin_is_set(err))
            return false;
    work->lock = pin_steal_fd(&fd);
    return true;
}

void pin_store_work_end(struct pin_store_work *work) {
    if (work->dir >= 0) {
        PIN_CLOSE int tmp = openat(work->store->dir, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct pin_error ignored = {0}; /* the next work sweeps what is left */
        (void)pin_remove_tree(tmp, work->name, &ignored);
        keep_spare(work->store);
    }
    pin_close_fd(&work->dir);
    pin_close_fd(&work->lock);
}

int pin_store_claim(const struct pin_image_store *store, const char *name, bool *waited,
                    struct pin_error *err) {
    char path[96];
    (void)snprintf(path, sizeof(path), "locks/%.80s", name);
    *waited = false;
    for (;;) {
        PIN_CLOSE int fd = openat(store->dir, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        struct stat st;
        if (fd < 0) {
            (void)pin_fail_errno(err, "open the lock '%s'", path);
            return -1;
        }
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            *waited = true;
            while (flock(fd, LOCK_EX) < 0)
                if (errno != EINTR) {
                    (void)pin_fail_errno(err, "lock '%s'", path);
                    return -1;
                }
        }
        if (fstat(fd, &st) == 0 && st.st_nlink > 0) /* gc may have removed the file between */
            return pin_steal_fd(&fd);
    }
}

bool pin_store_sync(const struct pin_image_store *store, const char *folder, struct pin_error *err) {
    PIN_CLOSE int dir = openat(store->dir, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return (dir >= 0 && fsync(dir) == 0) || pin_fail_errno(err, "sync '%s' of the image store", folder);
}

bool pin_store_put(struct pin_store_work *work, const char *folder, const char *name, const void *data,
                   size_t size, struct pin_error *err) {
    char path[320];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    PIN_CLOSE int file =
        openat(work->dir, "put", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return pin_fail_errno(err, "make '%s' in the image store", path);
    if (!pin_write_all(file, data, size, err))
        return pin_wrap(err, "'%s' of the image store", path);
    if (fsync(file) < 0 || renameat(work->dir, "put", work->store->dir, path) < 0)
        return pin_fail_errno(err, "write '%s' of the image store", path);
    return pin_store_sync(work->store, folder, err);
}

bool pin_store_publish(struct pin_store_work *work, const char *name, const char *folder, const char *to,
                       struct pin_error *err) {
    char path[320];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, to);
    if (renameat2(work->dir, name, work->store->dir, path, RENAME_NOREPLACE) < 0)
        return pin_fail_errno(err, "publish '%s' in the image store", path);
    return pin_store_sync(work->store, folder, err);
}

bool pin_store_discard(struct pin_store_work *work, const char *folder, const char *name,
                       struct pin_error *err) {
    char path[320];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (renameat(work->store->dir, path, work->dir, "gone") < 0)
        return errno == ENOENT || pin_fail_errno(err, "remove '%s' from the image store", path);
    return pin_store_sync(work->store, folder, err) && pin_remove_tree(work->dir, "gone", err);
}
