#include "runtime/kept/log_file.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

#ifndef MADV_POPULATE_WRITE /* musl; since Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

#define WORTH_A_MAP ((size_t)8 * 1024)
#define PAGE ((uintptr_t)4096)

/* Whatever a killed writer leaves behind its last record, it is no record: bytes from inside stand there,
 * which may look like one. */
static bool put_end(const struct pin_log_file *file, uint64_t at) {
    static const uint8_t none[4];
    return at >= file->stale || pwrite(file->fd, none, sizeof(none), (off_t)at) == (ssize_t)sizeof(none);
}

static void map(struct pin_log_file *file) {
    if (file->map != NULL || file->no_map)
        return;
    void *memory = mmap(NULL, (size_t)file->stale, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    file->no_map = memory == MAP_FAILED;
    if (memory == MAP_FAILED)
        return;
    file->map = memory;
    file->map_size = (size_t)file->stale;
}

/* The kernel is asked first: a page that it can't give (the disk is full, and copies on write) would be
 * SIGBUS. */
static bool is_writable(const uint8_t *from, size_t size) {
    uintptr_t start = (uintptr_t)from & ~(PAGE - 1), end = ((uintptr_t)from + size + PAGE - 1) & ~(PAGE - 1);
    return madvise((void *)start, end - start, MADV_POPULATE_WRITE) == 0;
}

/* The head is written, which also tells those who wait for a change of the file. */
static bool put_by_memory(struct pin_log_file *file, uint64_t at, const uint8_t head[PIN_LOG_HEAD],
                          const void *data, size_t size) {
    uint64_t from = at + PIN_LOG_HEAD;
    if (size < WORTH_A_MAP || from + size > file->stale)
        return false;
    map(file);
    if (file->map == NULL || from + size > file->map_size)
        return false;
    if (!is_writable(file->map + from, size)) {
        pin_log_file_rest(file);
        file->no_map = true;
        return false;
    }
    memcpy(file->map + from, data, size);
    return pwrite(file->fd, head, PIN_LOG_HEAD, (off_t)at) == (ssize_t)PIN_LOG_HEAD;
}

/* The half record goes again, or nothing after it could be read. */
static void take_back(struct pin_log_file *file, uint64_t at) {
    int cause = errno;
    pin_log_file_rest(file); /* beyond the end of its file it would be SIGBUS */
    pin_ignore(ftruncate(file->fd, (off_t)at));
    file->stale = at < file->stale ? at : file->stale;
    errno = cause;
}

bool pin_log_file_put(struct pin_log_file *file, uint64_t at, const uint8_t head[PIN_LOG_HEAD],
                      const void *data, size_t size) {
    const struct iovec parts[] = {
        {(void *)(uintptr_t)head, PIN_LOG_HEAD},
        {(void *)(uintptr_t)data, size        }
    };
    if (!put_end(file, at + PIN_LOG_HEAD + size))
        return false;
    if (put_by_memory(file, at, head, data, size))
        return true;
    ssize_t wrote = pwritev(file->fd, parts, size > 0 ? 2 : 1, (off_t)at);
    if (wrote == (ssize_t)(PIN_LOG_HEAD + size))
        return true;
    if (wrote > 0) {
        errno = ENOSPC;
        take_back(file, at);
    }
    return false;
}

bool pin_log_file_begin_again(struct pin_log_file *file) {
    struct stat info;
    if (fstat(file->fd, &info) < 0)
        return false;
    file->stale = (uint64_t)info.st_size;
    return put_end(file, 0);
}

void pin_log_file_rest(struct pin_log_file *file) {
    if (file->map != NULL)
        (void)munmap(file->map, file->map_size);
    file->map = NULL;
}

void pin_log_file_close(struct pin_log_file *file) {
    pin_log_file_rest(file);
    pin_close_fd(&file->fd);
}
