#include "runtime/build/cgroup/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"

enum { PAUSE_MOST_NS = 5000000 };

static ssize_t read_all(int fd, char *text, size_t room) {
    size_t used = 0;
    while (used + 1 < room) {
        ssize_t got = read(fd, text + used, room - 1 - used);
        if (got < 0 && errno != EINTR)
            return -1;
        if (got == 0)
            break;
        used += got > 0 ? (size_t)got : 0;
    }
    text[used] = '\0';
    return (ssize_t)used;
}

ssize_t pin_cgroup_file_read(int dir, const char *file, char *text, size_t room) {
    PIN_CLOSE int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -1 : read_all(fd, text, room);
}

bool pin_cgroup_file_write(int dir, const char *file, const char *value) {
    PIN_CLOSE int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
}

bool pin_cgroup_take_number(const char *text, uint64_t *value) {
    char digits[24];
    size_t size = strcspn(text, "\n");
    errno = EINVAL;
    if (size == 0 || size >= sizeof(digits))
        return false;
    memcpy(digits, text, size);
    digits[size] = '\0';
    return pin_parse_u64(digits, value);
}

bool pin_cgroup_file_u64(int dir, const char *file, uint64_t *value) {
    char text[64];
    if (pin_cgroup_file_read(dir, file, text, sizeof(text)) < 0)
        return false;
    return pin_cgroup_take_number(text, value);
}

bool pin_cgroup_flat_key(const char *text, const char *key, uint64_t *value) {
    size_t size = strlen(key);
    for (const char *line = text; *line != '\0'; line += *line == '\n') {
        if (strncmp(line, key, size) == 0 && line[size] == ' ')
            return pin_cgroup_take_number(line + size + 1, value);
        line += strcspn(line, "\n");
    }
    return false;
}

static bool is_child(const struct dirent *entry) {
    return entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

bool pin_cgroup_children(int dir, pin_cgroup_each_child *each, void *context) {
    PIN_CLOSE int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (list == NULL)
        return errno == ENOENT; /* the group was removed meanwhile */
    (void)pin_steal_fd(&fd);
    bool ok = true;
    for (const struct dirent *entry = readdir(list); ok && entry != NULL; entry = readdir(list))
        ok = !is_child(entry) || each(context, dirfd(list), entry->d_name);
    (void)closedir(list);
    return ok;
}

bool pin_cgroup_pause(uint64_t deadline_ns, uint64_t *pause_ns) {
    if (pin_now_ns() >= deadline_ns)
        return false;
    (void)nanosleep(&(struct timespec){.tv_nsec = (long)*pause_ns}, NULL);
    *pause_ns = *pause_ns * 2 > PAUSE_MOST_NS ? PAUSE_MOST_NS : *pause_ns * 2;
    return true;
}
