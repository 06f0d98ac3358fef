#include "images/image_resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "images/image_name.h"

static bool no_such(const char *name, struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "no image '%.200s' in the store", name);
    return pin_hint(err, "see 'pinfold image ls'; get it with 'pinfold image pull' or 'import'");
}

/* "sha256:…\n", no more. */
static bool read_reference(const struct pin_image_store *store, const struct pin_image_name *name,
                           const char *asked, char digest[PIN_DIGEST_TEXT], struct pin_error *err) {
    char file[PIN_IMAGE_FILE], path[PIN_IMAGE_FILE + 8], text[PIN_DIGEST_TEXT + 1];
    (void)snprintf(path, sizeof(path), "refs/%s", pin_image_name_file(file, name));
    PIN_CLOSE int fd = openat(store->dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return no_such(asked, err);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (got < 0)
        return pin_fail_errno(err, "read the reference '%s'", path);
    text[got > 0 ? got - 1 : 0] = '\0'; /* the line's end */
    if (got != PIN_DIGEST_TEXT || !pin_image_is_digest(text)) {
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "the reference of image '%.200s' is damaged", asked);
        return pin_hint(err, "import or pull the image again");
    }
    memcpy(digest, text, PIN_DIGEST_TEXT);
    return true;
}

static bool find_digest(const struct pin_image_store *store, const char *asked, char digest[PIN_DIGEST_TEXT],
                        struct pin_image_name *name, struct pin_error *err) {
    if (!pin_image_name_parse(asked, name, err))
        return false;
    if (name->name[0] == '\0') {
        memcpy(digest, name->digest, PIN_DIGEST_TEXT);
        return true;
    }
    if (!read_reference(store, name, asked, digest, err))
        return false;
    if (name->digest[0] == '\0' || strcmp(name->digest, digest) == 0)
        return true;
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "the image '%.100s' in the store is %s", asked, digest);
    return pin_hint(err, "ask for that digest, or pull the one that you want");
}

static bool lock_shared(int fd) {
    while (flock(fd, LOCK_SH) < 0)
        if (errno != EINTR)
            return false;
    return true;
}

/* Locks the image's folder. `gc` removes one only under the exclusive lock, and that of an image that has a
 * name it never takes; so what still has its record after we got our lock stays. Who mends a layer has the
 * lock for a moment. */
static int hold_image(const struct pin_image_store *store, const char *hex, const char *asked,
                      struct pin_error *err) {
    char path[96];
    (void)snprintf(path, sizeof(path), "images/%s", hex);
    PIN_CLOSE int fd = openat(store->dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno != ENOENT)
        (void)pin_fail_errno(err, "open the image '%.200s'", asked);
    else if (fd < 0 || !lock_shared(fd) || faccessat(fd, "record", F_OK, 0) < 0)
        (void)no_such(asked, err);
    else
        return pin_steal_fd(&fd);
    return -1;
}

bool pin_image_find(const struct pin_image_store *store, struct pin_arena *arena, const char *name,
                    struct pin_image_config *config, int *hold, struct pin_error *err) {
    char digest[PIN_DIGEST_TEXT] = "", text[PIN_IMAGE_TEXT];
    struct pin_image_name parsed = {0};
    if (!find_digest(store, name, digest, &parsed, err))
        return false;
    PIN_CLOSE int image = hold_image(store, digest + strlen("sha256:"), name, err);
    if (image < 0)
        return false;
    size_t size;
    PIN_FREE char *data = pin_read_file_at(image, "record", PIN_IMAGE_RECORD_MAX, &size, err);
    struct pin_image_config found = {0};
    if (data == NULL || !pin_image_record_parse(arena, data, size, &found, err))
        return pin_wrap(err, "image '%.100s'", name);
    if (strcmp(found.manifest, digest) != 0)
        return pin_fail(err, PIN_ERROR_SYNTAX, "the record of image '%.100s' is that of another image", name);
    found.name = parsed.name[0] == '\0' ? NULL : pin_arena_strdup(arena, pin_image_name_print(text, &parsed));
    *config = found;
    if (hold != NULL)
        *hold = pin_steal_fd(&image);
    return true;
}

/* Builders make one and the same layer more than once: an empty one, of steps that change nothing. Where it
 * stands again further up, it covers or removes there all that it brought below; overlayfs takes a directory
 * only once (ELOOP). */
static bool comes_again(const struct pin_image_config *config, size_t index) {
    for (size_t i = index + 1; i < config->layer_count; i++)
        if (strcmp(config->layers[i].diff_id, config->layers[index].diff_id) == 0)
            return true;
    return false;
}

static bool list_layers(const struct pin_image_store *store, struct pin_arena *arena,
                        const struct pin_image_config *config, struct pin_rootfs *rootfs,
                        struct pin_error *err) {
    const char **layers = pin_arena_array(arena, config->layer_count + 1, sizeof(*layers));
    size_t count = 0;
    for (size_t i = 0; i < config->layer_count; i++) {
        if (comes_again(config, i))
            continue;
        const char *hex = config->layers[i].diff_id + strlen("sha256:");
        layers[count] = pin_arena_printf(arena, "%s/layers/%s/root", store->path, hex);
        struct stat st;
        const char *in_store = layers[count++] + strlen(store->path) + 1;
        if (fstatat(store->dir, in_store, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode)) {
            (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "layer '%s' isn't in the store",
                           config->layers[i].diff_id);
            return pin_hint(err, "import or pull the image again");
        }
    }
    *rootfs = (struct pin_rootfs){.kind = PIN_ROOTFS_LAYERS, .layers = layers, .layer_count = count};
    return true;
}

bool pin_image_resolve(const struct pin_image_store *store, struct pin_arena *arena, const char *name,
                       struct pin_rootfs *rootfs, struct pin_image_config *config, int *hold,
                       struct pin_error *err) {
    struct pin_image_config found = {0};
    PIN_CLOSE int held = -1;
    if (!pin_image_find(store, arena, name, &found, &held, err))
        return false;
    if (!list_layers(store, arena, &found, rootfs, err))
        return pin_wrap(err, "image '%.100s'", name);
    *config = found;
    *hold = pin_steal_fd(&held);
    return true;
}
