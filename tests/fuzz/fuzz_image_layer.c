/* A layer of any bytes: its entries come within the bounds, each data block in its file, or there is one
 * error; a stream that was read to its end has counted every byte. Nothing is written: the unpacker has its
 * own tests. */
#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "images/store/layer_path.h"
#include "images/store/layer_stream.h"

static const struct pin_layer_limits limits = {
    .bytes = 1 << 20, .ratio = 1000, .ratio_after = 1 << 16, .entries = 200, .time_ns = UINT64_C(5000000000)};

static bool read_data(struct pin_layer_stream *stream, struct pin_error *err) {
    for (uint64_t sum = 0;;) {
        const void *data;
        size_t size;
        off_t offset;
        if (!pin_layer_stream_data(stream, &data, &size, &offset, err) || data == NULL)
            return !pin_is_set(err);
        sum += size;
        assert(sum <= limits.bytes + 65536);
    }
}

static bool read_all(struct pin_layer_stream *stream, struct pin_error *err) {
    for (;;) {
        struct archive_entry *entry;
        struct pin_layer_path path;
        struct pin_error doubt = {0};
        if (!pin_layer_stream_next(stream, &entry, err))
            return false;
        if (entry == NULL)
            return true;
        const char *name = archive_entry_pathname(entry);
        (void)pin_layer_path_parse(name == NULL ? "" : name, &path, &doubt);
        assert(pin_layer_stream_entries(stream) <= limits.entries);
        if (!read_data(stream, err))
            return false;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_error err = {0};
    char diff_id[PIN_DIGEST_TEXT];
    uint64_t bytes = 0;
    int fd = memfd_create("layer", MFD_CLOEXEC);
    if (write(fd, data, size) != (ssize_t)size)
        return 0;
    PIN_LAYER_STREAM struct pin_layer_stream *stream = pin_layer_stream_open(fd, NULL, &limits, &err);
    bool done =
        stream != NULL && read_all(stream, &err) && pin_layer_stream_finish(stream, diff_id, &bytes, &err);
    assert(done != pin_is_set(&err));
    assert(bytes <= limits.bytes);
    (void)close(fd);
    return 0;
}
