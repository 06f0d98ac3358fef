#include "images/store/layer_unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/text.h"
#include "images/store/layer_tree.h"

#define ATTRIBUTES_MAX 256

struct unpacking {
    struct pin_layer_stream *stream;
    struct pin_layer_tree *tree;
    struct pin_layer_losses lost;
    int64_t last_owner; /* that sandboxes of this store's images can have: 0 where owners are dropped */
};

static struct pin_layer_owner owner_of(struct archive_entry *entry) {
    return (struct pin_layer_owner){
        .user = archive_entry_uid(entry),
        .group = archive_entry_gid(entry),
        .mode = archive_entry_perm(entry),
        .time = {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)},
    };
}

static bool keep_attributes(struct unpacking *unpacking, struct archive_entry *entry, int fd,
                            struct pin_error *err) {
    static const int acls =
        ARCHIVE_ENTRY_ACL_TYPE_ACCESS | ARCHIVE_ENTRY_ACL_TYPE_DEFAULT | ARCHIVE_ENTRY_ACL_TYPE_NFS4;
    const char *name;
    const void *value;
    size_t size;
    bool lost = archive_entry_acl_reset(entry, acls) > 0;
    if (archive_entry_xattr_reset(entry) > ATTRIBUTES_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "the layer has an entry with too many extended attributes");
    while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
        lost |= name != NULL && !pin_layer_tree_keeps(name);
        if (name != NULL && !pin_layer_tree_attribute(fd, name, value, size, err))
            return false;
    }
    unpacking->lost.attributes += lost;
    return true;
}

static bool write_at(int file, const char *data, size_t size, off_t offset, struct pin_error *err) {
    while (size > 0) {
        ssize_t put = pwrite(file, data, size, offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return pin_fail_errno(err, "write a file of the layer");
        data += put;
        size -= (size_t)put;
        offset += put;
    }
    return true;
}

/* Holes of a sparse file stay holes. */
static bool copy_data(struct unpacking *unpacking, struct archive_entry *entry, int file,
                      struct pin_error *err) {
    off_t whole = archive_entry_size(entry), end = 0;
    for (;;) {
        const void *data;
        size_t size;
        off_t offset;
        if (!pin_layer_stream_data(unpacking->stream, &data, &size, &offset, err))
            return false;
        if (data == NULL)
            break;
        if (offset < end || offset > whole || (off_t)size > whole - offset)
            return pin_fail(err, PIN_ERROR_SYNTAX, "the layer has data outside of its file");
        if (!write_at(file, data, size, offset, err))
            return false;
        end = offset + (off_t)size;
    }
    if (end < whole && ftruncate(file, whole) < 0)
        return pin_fail_errno(err, "set the size of a file of the layer");
    return true;
}

static bool unpack_file(struct unpacking *unpacking, const struct pin_layer_path *path,
                        struct archive_entry *entry, struct pin_error *err) {
    struct pin_layer_owner owner = owner_of(entry);
    PIN_CLOSE int file = -1;
    unpacking->lost.set_ids += (owner.mode & (S_ISUID | S_ISGID)) != 0;
    return pin_layer_tree_file(unpacking->tree, path, &file, err) && copy_data(unpacking, entry, file, err) &&
           keep_attributes(unpacking, entry, file, err) &&
           pin_layer_tree_complete(unpacking->tree, file, &owner, err);
}

static bool unpack_directory(struct unpacking *unpacking, const struct pin_layer_path *path,
                             struct archive_entry *entry, struct pin_error *err) {
    struct pin_layer_owner owner = owner_of(entry);
    PIN_CLOSE int directory = -1;
    return pin_layer_tree_directory(unpacking->tree, path, &owner, &directory, err) &&
           keep_attributes(unpacking, entry, directory, err);
}

static bool unpack_symlink(struct unpacking *unpacking, const struct pin_layer_path *path,
                           struct archive_entry *entry, struct pin_error *err) {
    struct pin_layer_owner owner = owner_of(entry);
    const char *target = archive_entry_symlink(entry);
    return pin_layer_tree_symlink(unpacking->tree, path, target == NULL ? "" : target, &owner, err);
}

static bool unpack_fifo(struct unpacking *unpacking, const struct pin_layer_path *path,
                        struct archive_entry *entry, struct pin_error *err) {
    struct pin_layer_owner owner = owner_of(entry);
    return pin_layer_tree_fifo(unpacking->tree, path, &owner, err);
}

/* An empty file without permissions hides what is below, as the device would, and is none. */
static bool unpack_device(struct unpacking *unpacking, const struct pin_layer_path *path,
                          struct archive_entry *entry, struct pin_error *err) {
    struct pin_layer_owner owner = owner_of(entry);
    owner.mode = 0;
    unpacking->lost.devices++;
    PIN_CLOSE int file = -1;
    return pin_layer_tree_file(unpacking->tree, path, &file, err) &&
           pin_layer_tree_complete(unpacking->tree, file, &owner, err);
}

static const struct {
    unsigned type;
    bool (*unpack)(struct unpacking *unpacking, const struct pin_layer_path *path,
                   struct archive_entry *entry, struct pin_error *err);
} types[] = {
    {AE_IFREG, unpack_file     },
    {AE_IFDIR, unpack_directory},
    {AE_IFLNK, unpack_symlink  },
    {AE_IFIFO, unpack_fifo     },
    {AE_IFCHR, unpack_device   },
    {AE_IFBLK, unpack_device   },
};

static bool unpack_hardlink(struct unpacking *unpacking, const struct pin_layer_path *path,
                            struct archive_entry *entry, struct pin_error *err) {
    struct pin_layer_path target;
    if (archive_entry_size(entry) > 0)
        return pin_fail(err, PIN_ERROR_INVALID, "the layer has a hard link with data of its own");
    if (!pin_layer_path_parse(archive_entry_hardlink(entry), &target, err))
        return false;
    if (target.kind != PIN_LAYER_PLAIN)
        return pin_fail(err, PIN_ERROR_INVALID, "the layer links '%.100s' to what isn't a file", path->name);
    return pin_layer_tree_hardlink(unpacking->tree, path, &target, err);
}

static bool unpack_plain(struct unpacking *unpacking, const struct pin_layer_path *path,
                         struct archive_entry *entry, struct pin_error *err) {
    if (archive_entry_hardlink(entry) != NULL)
        return unpack_hardlink(unpacking, path, entry, err);
    unpacking->lost.owners +=
        archive_entry_uid(entry) > unpacking->last_owner || archive_entry_gid(entry) > unpacking->last_owner;
    for (size_t i = 0; i < PIN_COUNT(types); i++)
        if (types[i].type == archive_entry_filetype(entry))
            return types[i].unpack(unpacking, path, entry, err);
    return pin_fail(err, PIN_ERROR_INVALID, "the layer has an entry '%.100s' of an unknown kind", path->name);
}

static bool unpack_root(struct unpacking *unpacking, const struct pin_layer_path *path,
                        struct archive_entry *entry, struct pin_error *err) {
    if (archive_entry_filetype(entry) != AE_IFDIR || archive_entry_hardlink(entry) != NULL)
        return pin_fail(err, PIN_ERROR_INVALID, "the layer's root isn't a directory");
    return unpack_directory(unpacking, path, entry, err);
}

static bool unpack_entry(struct unpacking *unpacking, struct archive_entry *entry, struct pin_error *err) {
    struct pin_layer_path path;
    const char *name = archive_entry_pathname(entry);
    if (!pin_layer_path_parse(name == NULL ? "" : name, &path, err))
        return false;
    switch (path.kind) {
    case PIN_LAYER_ROOT: return unpack_root(unpacking, &path, entry, err);
    case PIN_LAYER_PLAIN: return unpack_plain(unpacking, &path, entry, err);
    case PIN_LAYER_WHITEOUT: return pin_layer_tree_whiteout(unpacking->tree, &path, err);
    case PIN_LAYER_OPAQUE: return pin_layer_tree_opaque(unpacking->tree, &path, err);
    case PIN_LAYER_SKIP: return true;
    }
    return false;
}

static bool unpack_all(struct unpacking *unpacking, struct pin_error *err) {
    for (;;) {
        struct archive_entry *entry;
        if (!pin_layer_stream_next(unpacking->stream, &entry, err))
            return false;
        if (entry == NULL)
            return pin_layer_tree_finish(unpacking->tree, err);
        if (!unpack_entry(unpacking, entry, err)) {
            char shown[100];
            const char *name = archive_entry_pathname(entry);
            (void)pin_escape(shown, sizeof(shown), name == NULL ? "" : name,
                             name == NULL ? 0 : strnlen(name, PATH_MAX));
            return pin_wrap(err, "entry '%s'", shown);
        }
    }
}

static bool unpack(int blob, const char *digest, int root, const struct pin_layer_limits *limits,
                   struct pin_layer_unpacked *unpacked, struct pin_error *err) {
    PIN_LAYER_STREAM struct pin_layer_stream *stream = pin_layer_stream_open(blob, digest, limits, err);
    PIN_LAYER_TREE struct pin_layer_tree *tree = pin_layer_tree_open(root);
    if (stream == NULL)
        return false;
    struct unpacking unpacking = {
        .stream = stream, .tree = tree, .last_owner = geteuid() == 0 ? PIN_LAYER_OWNER_LAST : 0};
    struct pin_layer_unpacked done = {0};
    if (!unpack_all(&unpacking, err) || !pin_layer_stream_finish(stream, done.diff_id, &done.bytes, err))
        return false;
    done.entries = pin_layer_stream_entries(stream);
    done.lost = unpacking.lost;
    done.media_type = pin_layer_stream_media_type(stream);
    *unpacked = done;
    return true;
}

bool pin_layer_unpack(int blob, const char *digest, int root, const struct pin_layer_limits *limits,
                      struct pin_layer_unpacked *unpacked, struct pin_error *err) {
    /* In a locale of UTF-8, libarchive composes letters with their accents anew and so changes names; in "C"
     * it hands them on as they are (and warns, see layer_stream.c). */
    locale_t plain = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0)
        return pin_fail_errno(err, "choose the locale 'C'");
    locale_t before = uselocale(plain);
    bool done = unpack(blob, digest, root, limits, unpacked, err);
    (void)uselocale(before);
    freelocale(plain);
    return done;
}
