#include "runtime/watch/watch_path.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/openat2.h>

#include "base/cleanup.h"
#include "base/io.h"

#define PAGE 4096u

bool pin_watch_text(pid_t tid, uint64_t address, char *to, size_t room) {
    for (size_t done = 0; done < room;) {
        size_t part = PAGE - (size_t)((address + done) % PAGE); /* the next page may not be there */
        if (part > room - done)
            part = room - done;
        struct iovec here = {to + done, part};
        struct iovec there = {(void *)(uintptr_t)(address + done), part};
        ssize_t got = process_vm_readv(tid, &here, 1, &there, 1, 0);
        if (got <= 0)
            return false;
        if (memchr(to + done, '\0', (size_t)got) != NULL)
            return true;
        done += (size_t)got;
    }
    return false;
}

static bool read_link(const char *path, char *to, size_t room) {
    ssize_t length = readlink(path, to, room - 1);
    if (length <= 0 || (size_t)length >= room - 1)
        return false;
    to[length] = '\0';
    return to[0] == '/';
}

/* Where a relative path starts. */
static bool find_base(pid_t tid, int dirfd, char *to, size_t room) {
    char link[64];
    if (dirfd == AT_FDCWD)
        (void)snprintf(link, sizeof(link), "/proc/%d/cwd", (int)tid);
    else
        (void)snprintf(link, sizeof(link), "/proc/%d/fd/%d", (int)tid, dirfd);
    return read_link(link, to, room);
}

static int open_inside(int root, const char *path, int flags) {
    return pin_openat2(root, path, flags, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

static bool name_of(int fd, char *to, size_t room) {
    char link[48];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return read_link(link, to, room);
}

static bool is_empty(int root, const char *path) {
    int fd = open_inside(root, path, O_RDONLY | O_DIRECTORY);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    int entries = 0;
    if (directory == NULL) {
        if (fd >= 0)
            (void)close(fd);
        return false;
    }
    while (entries <= 2 && readdir(directory) != NULL)
        entries++;
    (void)closedir(directory);
    return entries <= 2;
}

/* "/a//b/./c/../d" as text, where nothing of it can be asked. */
static void make_plain(const char *text, char *to) {
    size_t size = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, "/");
        bool dots = length == 2 && text[0] == '.' && text[1] == '.';
        if (dots) {
            while (size > 0 && to[--size] != '/')
                ;
        } else if (length > 0 && !(length == 1 && text[0] == '.')) {
            to[size++] = '/';
            memmove(to + size, text, length);
            size += length;
        }
        text += length + (text[length] == '/');
    }
    if (size == 0)
        to[size++] = '/';
    to[size] = '\0';
}

/* It isn't there: its folder, resolved, and its last part. */
static bool resolve_missing(int root, struct pin_watch_path *path) {
    char plain[PIN_WATCH_PATH_MAX], folder[PIN_WATCH_PATH_MAX];
    make_plain(path->text, plain);
    char *slash = strrchr(plain, '/');
    (void)snprintf(folder, sizeof(folder), "%.*s", slash == plain ? 1 : (int)(slash - plain), plain);
    PIN_CLOSE int parent = open_inside(root, folder, O_PATH | O_DIRECTORY);
    path->exists = false;
    path->fresh = parent < 0 || is_empty(root, folder);
    if (parent < 0 || !name_of(parent, folder, sizeof(folder))) {
        memcpy(path->text, plain, sizeof(plain));
        return true;
    }
    return (size_t)snprintf(path->text, sizeof(path->text), "%s%s", strcmp(folder, "/") == 0 ? "" : folder,
                            slash) < sizeof(path->text);
}

bool pin_watch_resolve(pid_t tid, int dirfd, const char *text, bool follow, struct pin_watch_path *path) {
    char base[PIN_WATCH_PATH_MAX] = "", link[48];
    if (text[0] != '/' && !find_base(tid, dirfd, base, sizeof(base)))
        return false;
    if ((size_t)snprintf(path->text, sizeof(path->text), "%s/%s", base, text) >= sizeof(path->text))
        return false;
    (void)snprintf(link, sizeof(link), "/proc/%d/root", (int)tid);
    PIN_CLOSE int root = open(link, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return false;
    path->exists = true;
    path->fresh = false;
    if (strncmp(path->text, "/proc/", 6) == 0 || strncmp(path->text, "//proc/", 7) == 0) {
        char plain[PIN_WATCH_PATH_MAX]; /* whose process a link there means is another's to say */
        make_plain(path->text, plain);
        memcpy(path->text, plain, sizeof(plain));
        return true;
    }
    PIN_CLOSE int found = open_inside(root, path->text, O_PATH | (follow ? 0 : O_NOFOLLOW));
    if (found >= 0)
        return name_of(found, path->text, sizeof(path->text));
    return resolve_missing(root, path);
}
