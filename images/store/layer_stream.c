#include "images/store/layer_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/clock.h"
#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "images/store/layer_pipe.h"
#include "images/store/tar_check.h"

#define CHUNK ((size_t)256 * 1024)

const struct pin_layer_limits pin_layer_limits_default = {
    .bytes = 64 * PIN_GIB,
    .ratio = 200,
    .ratio_after = 256 * PIN_MIB,
    .entries = 2000000,
    .time_ns = 1800 * PIN_NS_PER_S,
};

struct compression {
    const char *media_type;
    uint8_t magic[4];
    size_t magic_size;
    int filter; /* libarchive's; ARCHIVE_FILTER_NONE: none */
};

static const struct compression compressions[] = {
    {"application/vnd.oci.image.layer.v1.tar+gzip", {0x1f, 0x8b},             2, ARCHIVE_FILTER_GZIP},
    {"application/vnd.oci.image.layer.v1.tar+zstd", {0x28, 0xb5, 0x2f, 0xfd}, 4, ARCHIVE_FILTER_ZSTD},
    {"application/vnd.oci.image.layer.v1.tar",      {0},                      0, ARCHIVE_FILTER_NONE},
};

/* What people have besides, to be told by its name. */
static const struct {
    const char *name, *magic;
} unknown[] = {
    {"xz",    "\xfd"
           "7zXZ"},
    {"bzip2", "BZh"        },
    {"lzip",  "LZIP"       },
};

struct pin_layer_stream {
    int fd;
    const char *digest; /* of what the pipe gives, where it is known beforehand; or NULL */
    const struct compression *compression;
    struct pin_layer_limits limits;
    struct pin_layer_pipe *pipe;
    struct archive *unpacker; /* NULL where nothing is compressed; the pipe's while it is open */
    const char *block;        /* what the unpacker gave, and isn't handed on yet */
    size_t block_size;
    uint64_t read; /* bytes of the blob; the pipe's */
    bool empty;    /* compressed nothing */
    struct archive *tar;
    struct pin_tar_check *check;
    uint64_t compressed, uncompressed, file_bytes, entries, deadline_ns;
    struct pin_error failure; /* of our read callback, which libarchive can't carry */
    bool at_end;
    char buffer[CHUNK]; /* of compressed bytes */
};

static bool too_much(const char *what, uint64_t limit, struct pin_error *err) {
    return pin_fail(err, PIN_ERROR_REFUSED, "the layer has more than %llu %s", (unsigned long long)limit,
                    what);
}

static bool count_bytes(struct pin_layer_stream *stream, const struct pin_layer_piece *piece,
                        struct pin_error *err) {
    const struct pin_layer_limits *limits = &stream->limits;
    stream->uncompressed += piece->size;
    stream->compressed = piece->taken;
    if (stream->uncompressed > limits->bytes)
        return too_much("bytes", limits->bytes, err);
    if (stream->uncompressed > limits->ratio_after &&
        stream->uncompressed / limits->ratio > stream->compressed)
        return pin_fail(err, PIN_ERROR_REFUSED, "the layer unpacks to more than %llu times its size",
                        (unsigned long long)limits->ratio);
    if (pin_now_ns() > stream->deadline_ns)
        return pin_fail(err, PIN_ERROR_REFUSED, "the layer takes more than %llu s to unpack",
                        (unsigned long long)(limits->time_ns / PIN_NS_PER_S));
    return true;
}

static ssize_t read_at(struct pin_layer_stream *stream, void *to, size_t room) {
    ssize_t got;
    do
        got = pread(stream->fd, to, room, (off_t)stream->read);
    while (got < 0 && errno == EINTR);
    stream->read += got > 0 ? (uint64_t)got : 0;
    return got;
}

static la_ssize_t read_blob(struct archive *archive, void *context, const void **data) {
    struct pin_layer_stream *stream = context;
    ssize_t got = read_at(stream, stream->buffer, CHUNK);
    if (got < 0) {
        archive_set_error(archive, errno, "read: %s", strerrordesc_np(errno));
        return ARCHIVE_FATAL;
    }
    *data = stream->buffer;
    return got;
}

static bool unsound(struct archive *archive, struct pin_error *err) {
    const char *why = archive_error_string(archive);
    char shown[160];
    (void)pin_escape(shown, sizeof(shown), why == NULL ? "?" : why, strnlen(why == NULL ? "?" : why, 512));
    return pin_fail(err, PIN_ERROR_SYNTAX, "the layer isn't a sound tar archive: %s", shown);
}

/* In the pipe's thread, as all that the unpacker does once it is open. */
static ptrdiff_t take_unpacked(struct pin_layer_stream *stream, void *to, size_t room,
                               struct pin_error *err) {
    while (stream->block_size == 0) {
        const void *block = NULL;
        la_int64_t offset;
        int code = archive_read_data_block(stream->unpacker, &block, &stream->block_size, &offset);
        if (code == ARCHIVE_EOF)
            return 0;
        if (code != ARCHIVE_OK) {
            (void)unsound(stream->unpacker, err);
            return -1;
        }
        stream->block = block;
    }
    size_t size = stream->block_size < room ? stream->block_size : room;
    memcpy(to, stream->block, size);
    stream->block += size;
    stream->block_size -= size;
    return (ptrdiff_t)size;
}

static ptrdiff_t fill_pipe(void *context, void *to, size_t room, uint64_t *taken, struct pin_error *err) {
    struct pin_layer_stream *stream = context;
    ptrdiff_t got = 0;
    if (stream->unpacker == NULL)
        got = read_at(stream, to, room);
    else if (!stream->empty)
        got = take_unpacked(stream, to, room, err);
    if (got < 0 && !pin_is_set(err))
        (void)pin_fail_errno(err, "read the layer");
    *taken = stream->read;
    return got;
}

/* What libarchive calls for the tar's bytes: this is where they are counted. */
static la_ssize_t read_tar(struct archive *archive, void *context, const void **data) {
    struct pin_layer_stream *stream = context;
    struct pin_layer_piece piece = {.data = ""};
    if (stream->at_end) {
        *data = "";
        return 0;
    }
    if (!pin_layer_pipe_take(stream->pipe, &piece, &stream->failure) ||
        (piece.size > 0 && (!count_bytes(stream, &piece, &stream->failure) ||
                            !pin_tar_check_feed(stream->check, piece.data, piece.size, &stream->failure)))) {
        archive_set_error(archive, EIO, "refused");
        return ARCHIVE_FATAL;
    }
    stream->at_end = piece.size == 0;
    *data = piece.data;
    return (la_ssize_t)piece.size;
}

static bool archive_failed(struct pin_layer_stream *stream, struct archive *archive, struct pin_error *err) {
    if (!pin_is_set(&stream->failure))
        return unsound(archive, err);
    *err = stream->failure;
    return false;
}

static bool choose_compression(struct pin_layer_stream *stream, struct pin_error *err) {
    uint8_t magic[6] = {0};
    ssize_t got = pread(stream->fd, magic, sizeof(magic), 0);
    if (got < 0)
        return pin_fail_errno(err, "read the layer");
    for (size_t i = 0; i + 1 < PIN_COUNT(compressions); i++)
        if (compressions[i].magic_size <= (size_t)got &&
            memcmp(magic, compressions[i].magic, compressions[i].magic_size) == 0)
            stream->compression = &compressions[i];
    for (size_t i = 0; i < PIN_COUNT(unknown); i++)
        if (memcmp(magic, unknown[i].magic, strlen(unknown[i].magic)) == 0) {
            (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "it is compressed by %s", unknown[i].name);
            return pin_hint(err, "gzip and zstd are known, and none: decompress it first");
        }
    return true;
}

/* One filter exactly, without libarchive's own guessing: it would unpack a gzip in a gzip as well. */
static bool open_unpacker(struct pin_layer_stream *stream, struct pin_error *err) {
    struct archive_entry *entry;
    stream->unpacker = archive_read_new();
    if (archive_read_append_filter(stream->unpacker, stream->compression->filter) != ARCHIVE_OK ||
        archive_read_support_format_raw(stream->unpacker) != ARCHIVE_OK ||
        archive_read_open(stream->unpacker, stream, NULL, read_blob, NULL) != ARCHIVE_OK)
        return archive_failed(stream, stream->unpacker, err);
    int code = archive_read_next_header(stream->unpacker, &entry);
    stream->empty = code == ARCHIVE_EOF;
    return stream->empty || code == ARCHIVE_OK || archive_failed(stream, stream->unpacker, err);
}

static bool open_tar(struct pin_layer_stream *stream, struct pin_error *err) {
    stream->tar = archive_read_new();
    if (archive_read_append_filter(stream->tar, ARCHIVE_FILTER_NONE) != ARCHIVE_OK ||
        archive_read_support_format_tar(stream->tar) != ARCHIVE_OK ||
        archive_read_support_format_empty(stream->tar) != ARCHIVE_OK ||
        archive_read_open(stream->tar, stream, NULL, read_tar, NULL) != ARCHIVE_OK)
        return archive_failed(stream, stream->tar, err);
    return true;
}

static bool start(struct pin_layer_stream *stream, struct pin_error *err) {
    if (!choose_compression(stream, err))
        return false;
    if (stream->compression->filter != ARCHIVE_FILTER_NONE && !open_unpacker(stream, err))
        return false;
    if (stream->unpacker != NULL)
        stream->digest = NULL;
    stream->pipe = pin_layer_pipe_open(fill_pipe, stream, stream->digest == NULL, err);
    return stream->pipe != NULL && open_tar(stream, err);
}

struct pin_layer_stream *pin_layer_stream_open(int fd, const char *digest,
                                               const struct pin_layer_limits *limits, struct pin_error *err) {
    struct pin_layer_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        abort();
    *stream = (struct pin_layer_stream){
        .fd = fd, .digest = digest, .limits = *limits, .check = pin_tar_check_new()};
    stream->compression = &compressions[PIN_COUNT(compressions) - 1];
    stream->deadline_ns = pin_now_ns() + limits->time_ns;
    if (start(stream, err))
        return stream;
    pin_layer_stream_close(stream);
    return NULL;
}

/* The one warning that is none: a name that the locale has no characters for is kept byte for byte, as we
 * want it. */
static bool only_kept_bytes(struct archive *tar) {
    static const char ending[] = "can't be converted from UTF-8 to current locale.";
    const char *why = archive_error_string(tar);
    size_t size = why == NULL ? 0 : strlen(why), tail = strlen(ending);
    return size >= tail && strcmp(why + size - tail, ending) == 0;
}

bool pin_layer_stream_next(struct pin_layer_stream *stream, struct archive_entry **entry,
                           struct pin_error *err) {
    int code = archive_read_next_header(stream->tar, entry);
    if (code == ARCHIVE_EOF) {
        *entry = NULL;
        return true;
    }
    if (code != ARCHIVE_OK && !(code == ARCHIVE_WARN && only_kept_bytes(stream->tar)))
        return archive_failed(stream, stream->tar, err);
    if (++stream->entries > stream->limits.entries)
        return too_much("entries", stream->limits.entries, err);
    la_int64_t size = archive_entry_size(*entry);
    if (size < 0 || __builtin_add_overflow(stream->file_bytes, (uint64_t)size, &stream->file_bytes) ||
        stream->file_bytes > stream->limits.bytes)
        return too_much("bytes in its files", stream->limits.bytes, err);
    return true;
}

bool pin_layer_stream_data(struct pin_layer_stream *stream, const void **data, size_t *size, off_t *offset,
                           struct pin_error *err) {
    la_int64_t at = 0;
    int code = archive_read_data_block(stream->tar, data, size, &at);
    *offset = at;
    if (code == ARCHIVE_EOF) {
        *data = NULL;
        return true;
    }
    return code == ARCHIVE_OK || archive_failed(stream, stream->tar, err);
}

bool pin_layer_stream_finish(struct pin_layer_stream *stream, char diff_id[PIN_DIGEST_TEXT], uint64_t *bytes,
                             struct pin_error *err) {
    while (!stream->at_end) {
        const void *data;
        if (read_tar(stream->tar, stream, &data) < 0)
            return archive_failed(stream, stream->tar, err);
    }
    if (stream->digest == NULL)
        pin_layer_pipe_digest(stream->pipe, diff_id);
    else
        memcpy(diff_id, stream->digest, PIN_DIGEST_TEXT);
    *bytes = stream->uncompressed;
    return true;
}

uint64_t pin_layer_stream_entries(const struct pin_layer_stream *stream) {
    return stream->entries;
}

const char *pin_layer_stream_media_type(const struct pin_layer_stream *stream) {
    return stream->compression->media_type;
}

void pin_layer_stream_close(struct pin_layer_stream *stream) {
    if (stream == NULL)
        return;
    pin_layer_pipe_close(stream->pipe);
    (void)archive_read_free(stream->tar);
    (void)archive_read_free(stream->unpacker);
    pin_tar_check_free(stream->check);
    free(stream);
}

void pin_layer_stream_close_slot(struct pin_layer_stream **stream) {
    pin_layer_stream_close(*stream);
}
