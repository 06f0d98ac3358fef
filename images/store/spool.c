#include "images/store/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "images/image_name.h"
#include "images/store/layer_path.h"
#include "images/store/layer_stream.h"

#define MEMBERS_MAX 20000

char *pin_spool_name(char to[PIN_SPOOL_NAME], const char *path) {
    uint8_t digest[PIN_SHA256_SIZE];
    char text[PIN_DIGEST_TEXT];
    pin_sha256(path, strlen(path), digest);
    memcpy(to, pin_digest_print(text, digest) + strlen("sha256:"), PIN_SPOOL_NAME);
    return to;
}

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* What stands at the top of an image's archive and never at that of a root filesystem. */
static bool is_image_member(const char *path) {
    size_t hex = strspn(path, "0123456789abcdef");
    return strcmp(path, "oci-layout") == 0 || strcmp(path, "index.json") == 0 ||
           strcmp(path, "manifest.json") == 0 || strcmp(path, "repositories") == 0 ||
           strcmp(path, "blobs") == 0 || starts(path, "blobs/") ||
           (hex == 64 && strchr("./", path[64]) != NULL);
}

static bool member_path(struct archive_entry *entry, char path[PATH_MAX], struct pin_error *err) {
    struct pin_layer_path parsed;
    const char *name = archive_entry_pathname(entry);
    if (!pin_layer_path_parse(name == NULL ? "" : name, &parsed, err))
        return false;
    size_t parent = strlen(parsed.parent);
    if (parent + strlen(parsed.name) + 2 > PATH_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "the archive has a member with too long a path");
    memcpy(path, parsed.parent, parent);
    if (parent > 0)
        path[parent++] = '/';
    memcpy(path + parent, parsed.name, strlen(parsed.name) + 1);
    return true;
}

static bool tell(struct pin_layer_stream *stream, enum pin_source_kind *kind, struct pin_error *err) {
    bool manifest = false;
    for (;;) {
        struct archive_entry *entry;
        char path[PATH_MAX] = "";
        if (!pin_layer_stream_next(stream, &entry, err))
            return false;
        if (entry == NULL) {
            *kind = manifest ? PIN_SOURCE_DOCKER : PIN_SOURCE_ROOTFS;
            return true;
        }
        if (!member_path(entry, path, err))
            return false;
        if (strcmp(path, "oci-layout") == 0 || (path[0] != '\0' && !is_image_member(path))) {
            *kind = strcmp(path, "oci-layout") == 0 ? PIN_SOURCE_OCI : PIN_SOURCE_ROOTFS;
            return true;
        }
        manifest |= strcmp(path, "manifest.json") == 0;
    }
}

bool pin_spool_tell(int archive, enum pin_source_kind *kind, struct pin_error *err) {
    PIN_LAYER_STREAM struct pin_layer_stream *stream =
        pin_layer_stream_open(archive, &pin_layer_limits_default, err);
    return stream != NULL && tell(stream, kind, err);
}

/* Where a link of an archive leads, as a path from its top: "a/b" and "../c" is "c". */
static bool join_link(const char *link, const char *target, char to[PATH_MAX]) {
    size_t size = 0;
    const char *slash = strrchr(link, '/');
    if (target[0] == '/')
        return false;
    if (slash != NULL) {
        size = (size_t)(slash - link);
        memcpy(to, link, size);
    }
    for (const char *part = target; *part != '\0';) {
        size_t length = strcspn(part, "/");
        if (length == 2 && part[0] == '.' && part[1] == '.') {
            if (size == 0)
                return false;
            while (size > 0 && to[size - 1] != '/')
                size--;
            size -= size > 0;
        } else if (length > 0 && !(length == 1 && part[0] == '.')) {
            if (size + length + 2 > PATH_MAX)
                return false;
            if (size > 0)
                to[size++] = '/';
            memcpy(to + size, part, length);
            size += length;
        }
        part += length + (part[length] == '/');
    }
    to[size] = '\0';
    return size > 0;
}

static bool spool_file(struct pin_layer_stream *stream, int spool, const char *name, struct pin_error *err) {
    PIN_CLOSE int file = openat(spool, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return errno == EEXIST ? pin_fail(err, PIN_ERROR_INVALID, "the archive has a member twice")
                               : pin_fail_errno(err, "spool the archive");
    for (off_t end = 0;;) {
        const void *data;
        size_t size;
        off_t offset;
        if (!pin_layer_stream_data(stream, &data, &size, &offset, err))
            return false;
        if (data == NULL)
            return true;
        if (offset != end)
            return pin_fail(err, PIN_ERROR_INVALID, "the archive has a member with holes");
        if (!pin_write_all(file, data, size, err))
            return false;
        end += (off_t)size;
    }
}

/* The target counts from the folder of `base`: "" for a hard link, whose target counts from the top. */
static bool spool_link(int spool, const char *path, const char *base, const char *target,
                       struct pin_error *err) {
    char resolved[PATH_MAX], from[PIN_SPOOL_NAME], to[PIN_SPOOL_NAME];
    if (target == NULL || !join_link(base, target, resolved))
        return pin_fail(err, PIN_ERROR_INVALID, "the archive has a link '%.100s' that leads out of it", path);
    if (symlinkat(pin_spool_name(to, resolved), spool, pin_spool_name(from, path)) < 0)
        return pin_fail_errno(err, "spool the link '%.100s'", path);
    return true;
}

static bool spool_member(struct pin_layer_stream *stream, struct archive_entry *entry, int spool,
                         struct pin_error *err) {
    char path[PATH_MAX], name[PIN_SPOOL_NAME];
    if (!member_path(entry, path, err))
        return false;
    if (archive_entry_hardlink(entry) != NULL)
        return spool_link(spool, path, "", archive_entry_hardlink(entry), err);
    if (archive_entry_filetype(entry) == AE_IFLNK)
        return spool_link(spool, path, path, archive_entry_symlink(entry), err);
    if (archive_entry_filetype(entry) != AE_IFREG)
        return true;
    return spool_file(stream, spool, pin_spool_name(name, path), err) || pin_wrap(err, "'%.100s'", path);
}

static bool spool_all(struct pin_layer_stream *stream, int spool, struct pin_error *err) {
    for (;;) {
        struct archive_entry *entry;
        if (!pin_layer_stream_next(stream, &entry, err))
            return false;
        if (entry == NULL)
            return true;
        if (!spool_member(stream, entry, spool, err))
            return false;
    }
}

int pin_spool(struct pin_store_work *work, int archive, struct pin_error *err) {
    struct pin_layer_limits limits = pin_layer_limits_default;
    limits.entries = MEMBERS_MAX;
    PIN_LAYER_STREAM struct pin_layer_stream *stream = pin_layer_stream_open(archive, &limits, err);
    if (stream == NULL)
        return -1;
    if (mkdirat(work->dir, "spool", 0700) < 0) {
        (void)pin_fail_errno(err, "make the spool");
        return -1;
    }
    PIN_CLOSE int spool = openat(work->dir, "spool", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (spool < 0) {
        (void)pin_fail_errno(err, "open the spool");
        return -1;
    }
    return spool_all(stream, spool, err) ? pin_steal_fd(&spool) : -1;
}
