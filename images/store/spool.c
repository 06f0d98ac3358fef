#include "images/store/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "images/image_name.h"
#include "images/store/layer_path.h"
#include "images/store/layer_stream.h"
#include "images/store/oci.h"

#define MEMBERS_MAX 20000

char *pin_spool_name(char to[PIN_SPOOL_NAME], const char *path) {
    uint8_t digest[PIN_SHA256_SIZE];
    char text[PIN_DIGEST_TEXT];
    pin_sha256(path, strlen(path), digest);
    memcpy(to, pin_digest_print(text, digest) + strlen("sha256:"), PIN_SPOOL_NAME);
    return to;
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

/* Where a root filesystem begins: the rest of it needn't be read to know. */
static bool is_root_member(const char *path) {
    static const char *const names[] = {"bin",   "boot", "dev", "etc",  "home", "lib", "lib64",
                                        "media", "mnt",  "opt", "proc", "root", "run", "sbin",
                                        "srv",   "sys",  "tmp", "usr",  "var"};
    size_t size = strcspn(path, "/");
    for (size_t i = 0; i < PIN_COUNT(names); i++)
        if (strlen(names[i]) == size && memcmp(names[i], path, size) == 0)
            return true;
    return false;
}

/* Of `docker save`: a list of images with their layers, wherever these lie in the archive. */
static bool is_docker_manifest(struct pin_layer_stream *stream, bool *is, struct pin_error *err) {
    PIN_FREE char *text = malloc(PIN_OCI_DOCUMENT_MAX);
    size_t used = 0;
    if (text == NULL)
        abort();
    for (;;) {
        const void *data;
        size_t size;
        off_t offset;
        if (!pin_layer_stream_data(stream, &data, &size, &offset, err))
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, unseen */
            return false;
        if (data == NULL)
            break;
        if (size > PIN_OCI_DOCUMENT_MAX - used) /* too large for one, and then it is none */
            return true;
        memcpy(text + used, data, size);
        used += size;
    }
    json_t *list = json_loadb(text, used, 0, NULL);
    *is = json_is_array(json_object_get(json_array_get(list, 0), "Layers"));
    json_decref(list);
    return true;
}

/* What Docker wrote before it knew manifests: a file "repositories", and a folder for each layer. */
static bool is_legacy_layer(const char *path) {
    return strlen(path) == 64 + strlen("/layer.tar") && strcmp(path + 64, "/layer.tar") == 0;
}

static bool tell_rest(bool docker, bool legacy, enum pin_source_kind *kind, struct pin_error *err) {
    *kind = docker ? PIN_SOURCE_DOCKER : PIN_SOURCE_ROOTFS;
    if (docker || !legacy)
        return true;
    (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "the archive is of a Docker before 1.10, without a manifest");
    return pin_hint(err, "load it into a newer engine and save it again; --format rootfs takes it as files");
}

static bool tell(struct pin_layer_stream *stream, enum pin_source_kind *kind, struct pin_error *err) {
    bool docker = false, repositories = false, legacy = false;
    for (;;) {
        struct archive_entry *entry;
        char path[PATH_MAX] = "";
        if (!pin_layer_stream_next(stream, &entry, err))
            return false;
        if (entry == NULL)
            return tell_rest(docker, repositories && legacy, kind, err);
        if (!member_path(entry, path, err))
            return false;
        *kind = strcmp(path, "oci-layout") == 0 ? PIN_SOURCE_OCI
                : docker                        ? PIN_SOURCE_DOCKER
                                                : PIN_SOURCE_ROOTFS;
        if (*kind == PIN_SOURCE_OCI || is_root_member(path))
            return true;
        repositories |= strcmp(path, "repositories") == 0;
        legacy |= is_legacy_layer(path);
        if (strcmp(path, "manifest.json") == 0 && !is_docker_manifest(stream, &docker, err))
            return false;
    }
}

bool pin_spool_tell(int archive, enum pin_source_kind *kind, struct pin_error *err) {
    PIN_LAYER_STREAM struct pin_layer_stream *stream =
        pin_layer_stream_open(archive, NULL, &pin_layer_limits_default, err);
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
    PIN_LAYER_STREAM struct pin_layer_stream *stream = pin_layer_stream_open(archive, NULL, &limits, err);
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
