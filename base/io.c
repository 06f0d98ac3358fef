#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/openat2.h>

#include "base/cleanup.h"

#define TRIES 1000 /* a race that is lost so often isn't one */

int pin_openat2(int root, const char *path, int flags, mode_t mode, uint64_t resolve) {
    struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC), .resolve = resolve};
    if (flags & (O_CREAT | O_TMPFILE))
        how.mode = mode;
    long fd;
    int tries = 0;
    do /* a rename on the way makes RESOLVE_IN_ROOT give up with EAGAIN: openat2(2); so does somebody's lease
        * on the file with O_NONBLOCK, until the kernel breaks it, which takes 45 s */
        fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
    while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < TRIES)));
    return (int)fd;
}

static int open_with(int root, const char *path, int flags, mode_t mode, uint64_t resolve,
                     struct pin_error *err) {
    int fd = pin_openat2(root, path, flags, mode, resolve);
    if (fd < 0) {
        (void)pin_fail_errno(err, "open '%s'", path);
        (void)pin_point(err, "%s", path);
    }
    return fd;
}

int pin_open_in_root(int root, const char *path, int how_flags, mode_t mode, struct pin_error *err) {
    return open_with(root, path, how_flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, err);
}

int pin_open_beneath(int root, const char *path, int how_flags, mode_t mode, struct pin_error *err) {
    return open_with(root, path, how_flags, mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS, err);
}

char *pin_read_all(int fd, size_t limit, size_t *size, struct pin_error *err) {
    struct stat st;
    size_t room = 4096;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && (size_t)st.st_size <= limit)
        room = (size_t)st.st_size + 2;
    PIN_FREE char *text = malloc(room);
    size_t used = 0;
    while (text != NULL) {
        ssize_t got = read(fd, text + used, room - used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            (void)pin_fail_errno(err, "read");
            return NULL;
        }
        used += (size_t)got;
        if (used > limit) {
            (void)pin_fail(err, PIN_ERROR_INVALID, "larger than %zu bytes", limit);
            return NULL;
        }
        if (got == 0) {
            text[used] = '\0';
            *size = used;
            return pin_steal_ptr(&text);
        }
        if (used + 1 == room) {
            char *more = realloc(text, room * 2);
            if (more == NULL)
                break;
            text = more;
            room *= 2;
        }
    }
    errno = ENOMEM;
    (void)pin_fail_errno(err, "read");
    return NULL;
}

char *pin_read_file_at(int dir, const char *path, size_t limit, size_t *size, struct pin_error *err) {
    PIN_CLOSE int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        (void)pin_fail_errno(err, "open '%s'", path);
        (void)pin_point(err, "%s", path);
        return NULL;
    }
    char *text = pin_read_all(fd, limit, size, err);
    if (text == NULL) {
        (void)pin_wrap(err, "'%s'", path);
        (void)pin_point(err, "%s", path);
    }
    return text;
}

struct dirent *pin_next_entry(DIR *list, struct pin_error *err) {
    for (;;) {
        errno = 0; /* the only way to tell a failure from the end */
        struct dirent *entry = readdir(list);
        if (entry == NULL && errno != 0)
            (void)pin_fail_errno(err, "read a directory");
        if (entry == NULL || (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0))
            return entry;
    }
}

bool pin_write_all(int fd, const void *data, size_t size, struct pin_error *err) {
    const char *at = data;
    while (size > 0) {
        ssize_t put = write(fd, at, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return pin_fail_errno(err, "write");
        at += put;
        size -= (size_t)put;
    }
    return true;
}

bool pin_write_value_at(int dir, const char *path, const char *value, struct pin_error *err) {
    PIN_CLOSE int fd = openat(dir, path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
    size_t size = strlen(value);
    if (fd < 0 || write(fd, value, size) != (ssize_t)size) {
        (void)pin_fail_errno(err, "write '%.40s' to '%s'", value, path);
        return pin_point(err, "%s", path);
    }
    return true;
}
