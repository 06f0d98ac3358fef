#include "images/image_root.h"

#include <string.h>

static void add(struct pin_arena *arena, struct pin_rootfs *rootfs, const struct pin_rootfs_entry *entry) {
    struct pin_rootfs_entry *slot =
        pin_arena_grow(arena, &rootfs->entries, &rootfs->entry_count, sizeof(*slot));
    *slot = *entry;
}

static void add_file(struct pin_arena *arena, struct pin_rootfs *rootfs, const char *path, const char *text) {
    add(arena, rootfs,
        &(struct pin_rootfs_entry){
            .kind = PIN_ENTRY_FILE, .path = path, .content = text, .size = strlen(text), .mode = 0644});
}

/* "/a//b/./c/" as "a/b/c"; NULL: the root itself, or a path that climbs. */
static const char *below_root(struct pin_arena *arena, const char *path) {
    char *clean = pin_arena_strdup(arena, path), *to = clean;
    for (const char *part = path; *part != '\0';) {
        size_t length = strcspn(part, "/");
        if (length == 2 && part[0] == '.' && part[1] == '.')
            return NULL;
        if (length > 0 && !(length == 1 && part[0] == '.')) {
            if (to != clean)
                *to++ = '/';
            memmove(to, part, length);
            to += length;
        }
        part += length + (part[length] == '/');
    }
    *to = '\0';
    return to == clean ? NULL : clean;
}

static void add_directory(struct pin_arena *arena, struct pin_rootfs *rootfs, const char *path) {
    const char *clean = path[0] == '/' ? below_root(arena, path) : NULL;
    if (clean != NULL)
        add(arena, rootfs,
            &(struct pin_rootfs_entry){.kind = PIN_ENTRY_DIRECTORY, .path = clean, .mode = 0755});
}

void pin_image_complete(struct pin_arena *arena, const char *hostname, const struct pin_image_config *config,
                        struct pin_rootfs *rootfs) {
    add_file(arena, rootfs, "etc/hosts",
             pin_arena_printf(arena, "127.0.0.1 localhost %s\n::1 localhost ip6-localhost ip6-loopback\n",
                              hostname));
    add_file(arena, rootfs, "etc/hostname", pin_arena_printf(arena, "%s\n", hostname));
    add_file(arena, rootfs, "etc/resolv.conf", "# names are answered by the sandbox's own network, if any\n");
    add_directory(arena, rootfs, config->workdir);
    for (size_t i = 0; i < config->volume_count; i++)
        add_directory(arena, rootfs, config->volumes[i]);
}
