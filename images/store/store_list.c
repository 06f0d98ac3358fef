#include "images/store/store_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* NULL without an error: the folder isn't there yet, whoever was making the store was cut short. */
static DIR *open_list(const struct pin_image_store *store, const char *folder, struct pin_error *err) {
    int fd = openat(store->dir, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (list == NULL && errno != ENOENT)
        (void)pin_fail_errno(err, "list '%s' of the image store", folder);
    if (list == NULL)
        pin_close_slot(&fd);
    return list;
}

/* NULL at the end, and with the error set where it can't be read on: half a list would let gc take for
 * superfluous what the other half needs. */
static const struct dirent *next_entry(DIR *list, const char *folder, struct pin_error *err) {
    errno = 0;
    const struct dirent *entry = readdir(list);
    if (entry == NULL && errno != 0)
        (void)pin_fail_errno(err, "list '%s' of the image store", folder);
    return entry;
}

static bool read_name(DIR *list, const char *file, struct pin_store_name *name) {
    char text[PIN_DIGEST_TEXT + 1] = "";
    struct stat st;
    PIN_CLOSE int fd = openat(dirfd(list), file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (!pin_image_name_from_file(file, &name->name) || fd < 0 || fstat(fd, &st) < 0 ||
        read(fd, text, sizeof(text)) != PIN_DIGEST_TEXT)
        return false;
    text[PIN_DIGEST_TEXT - 1] = '\0';
    memcpy(name->digest, text, PIN_DIGEST_TEXT);
    name->since_s = st.st_mtim.tv_sec;
    return pin_image_is_digest(text);
}

static int by_name(const void *a, const void *b) {
    const struct pin_store_name *left = a, *right = b;
    int order = strcmp(left->name.name, right->name.name);
    return order != 0 ? order : strcmp(left->name.tag, right->name.tag);
}

bool pin_store_list_names(const struct pin_image_store *store, struct pin_arena *arena,
                          struct pin_store_names *names, struct pin_error *err) {
    DIR *list = open_list(store, "refs", err);
    *names = (struct pin_store_names){0};
    if (list == NULL)
        return !pin_is_set(err);
    const struct dirent *entry;
    while ((entry = next_entry(list, "refs", err)) != NULL) {
        struct pin_store_name name = {0};
        if (entry->d_name[0] == '.')
            continue;
        if (!read_name(list, entry->d_name, &name)) {
            (void)pin_fail(err, PIN_ERROR_SYNTAX, "the reference '%.200s' in the image store is damaged",
                           entry->d_name);
            (void)pin_hint(err, "remove %.100s/refs/%.40s", store->path, entry->d_name);
            (void)closedir(list);
            return false;
        }
        *(struct pin_store_name *)pin_arena_grow(arena, &names->items, &names->count, sizeof(name)) = name;
    }
    (void)closedir(list);
    if (names->count > 1)
        qsort(names->items, names->count, sizeof(*names->items), by_name);
    return !pin_is_set(err);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool pin_store_list_hex(const struct pin_image_store *store, const char *folder, struct pin_arena *arena,
                        const char ***items, size_t *count, struct pin_error *err) {
    DIR *list = open_list(store, folder, err);
    *items = NULL;
    *count = 0;
    if (list == NULL)
        return !pin_is_set(err);
    const struct dirent *entry;
    while ((entry = next_entry(list, folder, err)) != NULL)
        if (pin_image_is_hex(entry->d_name))
            *(const char **)pin_arena_grow(arena, items, count, sizeof(**items)) =
                pin_arena_strdup(arena, entry->d_name);
    (void)closedir(list);
    if (*count > 1)
        qsort(*items, *count, sizeof(**items), by_text);
    return !pin_is_set(err);
}

uint64_t pin_store_blob_bytes(const struct pin_image_store *store, const char *hex) {
    char path[80];
    struct stat st;
    (void)snprintf(path, sizeof(path), "blobs/%.64s", hex);
    return fstatat(store->dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_size : 0;
}
