#include "images/store/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "images/image_resolve.h"

void pin_record_merge(struct pin_arena *arena, const char ***items, size_t *count, const char *item) {
    for (size_t i = 0; i < *count; i++)
        if (strcmp((*items)[i], item) == 0)
            return;
    const char **more = pin_arena_array(arena, *count + 1, sizeof(*more));
    for (size_t i = 0; i < *count; i++)
        more[i] = (*items)[i];
    more[(*count)++] = pin_arena_strdup(arena, item);
    *items = more;
}

static bool write_record(int folder, const char *text, struct pin_error *err) {
    PIN_CLOSE int file = openat(folder, "record", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return pin_fail_errno(err, "write the image's record");
    if (!pin_write_all(file, text, strlen(text), err))
        return false;
    return (fsync(file) == 0 && fsync(folder) == 0) || pin_fail_errno(err, "sync the image's record");
}

static bool put_new(struct pin_store_work *work, const char *hex, const char *text, struct pin_error *err) {
    if (mkdirat(work->dir, "image", 0700) < 0 && errno != EEXIST)
        return pin_fail_errno(err, "make the image's folder");
    PIN_CLOSE int folder = openat(work->dir, "image", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return pin_fail_errno(err, "open the image's folder");
    (void)unlinkat(folder, "record", 0);
    return write_record(folder, text, err) && pin_store_publish(work, "image", "images", hex, err);
}

bool pin_record_put(struct pin_store_work *work, struct pin_arena *arena, struct pin_image_config *image,
                    struct pin_error *err) {
    struct pin_error ignored = {0};
    struct pin_image_config before;
    if (pin_image_find(work->store, arena, image->manifest, &before, NULL, &ignored)) {
        for (size_t i = 0; i < before.signature_count; i++)
            pin_record_merge(arena, &image->signatures, &image->signature_count, before.signatures[i]);
        for (size_t i = 0; i < before.signed_by_count; i++)
            pin_record_merge(arena, &image->signed_by, &image->signed_by_count, before.signed_by[i]);
        if (image->index == NULL)
            image->index = before.index;
    }
    const char *hex = image->manifest + strlen("sha256:");
    PIN_FREE char *text = pin_image_record_print(image, err);
    if (text == NULL)
        return false;
    if (put_new(work, hex, text, err))
        return true;
    if (err->kind != PIN_ERROR_EXISTS)
        return false;
    pin_error_clear(err);
    char folder[96]; /* the folder stays: sandboxes hold their locks on it */
    (void)snprintf(folder, sizeof(folder), "images/%s", hex);
    return pin_store_put(work, folder, "record", text, strlen(text), err);
}

bool pin_record_name(struct pin_store_work *work, const struct pin_image_name *name, const char *manifest,
                     struct pin_error *err) {
    char file[PIN_IMAGE_FILE], text[PIN_DIGEST_TEXT + 1];
    int size = snprintf(text, sizeof(text), "%s\n", manifest);
    return pin_store_put(work, "refs", pin_image_name_file(file, name), text, (size_t)size, err);
}

static void ref_of(char path[PIN_IMAGE_FILE + 8], const struct pin_image_name *name) {
    char file[PIN_IMAGE_FILE];
    (void)snprintf(path, PIN_IMAGE_FILE + 8, "refs/%s", pin_image_name_file(file, name));
}

static bool is_named(const struct pin_store_work *work, const struct pin_image_name *name,
                     struct pin_error *err) {
    char path[PIN_IMAGE_FILE + 8], text[PIN_IMAGE_TEXT];
    ref_of(path, name);
    if (faccessat(work->store->dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    if (errno != ENOENT)
        return pin_fail_errno(err, "look for the name '%s'", pin_image_name_print(text, name));
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "no image '%s' in the store", pin_image_name_print(text, name));
    return pin_hint(err, "see 'pinfold image ls'");
}

bool pin_record_forget(struct pin_store_work *work, const struct pin_image_name *names, size_t count,
                       struct pin_error *err) {
    char path[PIN_IMAGE_FILE + 8], text[PIN_IMAGE_TEXT];
    for (size_t i = 0; i < count; i++)
        if (!is_named(work, &names[i], err))
            return false;
    for (size_t i = 0; i < count; i++) {
        ref_of(path, &names[i]);
        if (unlinkat(work->store->dir, path, 0) < 0 && errno != ENOENT) /* named twice, or by another rm */
            return pin_fail_errno(err, "remove the name '%s'", pin_image_name_print(text, &names[i]));
    }
    return true;
}
