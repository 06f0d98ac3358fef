/* Masked whole, or byte by byte: the same comes out, and no value is in it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/secrets/mask.h"

struct kept {
    uint8_t bytes[3 * 8192];
    size_t size;
};

static void keep(void *self, const uint8_t *data, size_t size) {
    struct kept *kept = self;
    assert(kept->size + size <= sizeof(kept->bytes));
    memcpy(kept->bytes + kept->size, data, size);
    kept->size += size;
}

static struct pin_mask *mask_of_tests(void) {
    static const char *const specs[] = {"A", "B", "C"}, *const variables[] = {"A=PIN_A", "B=PIN_B",
                                                                              "C=PIN_C"};
    struct pin_secrets secrets = {0};
    struct pin_error err = {0};
    (void)setenv("PIN_A", "aaaab", 1);
    (void)setenv("PIN_B", "abaab", 1);
    (void)setenv("PIN_C", "a\n\"b", 1);
    if (!pin_secrets_find(&secrets, specs, 3, variables, 3, &err))
        abort();
    struct pin_mask *mask = pin_mask_new(&secrets, &err);
    pin_secrets_free(&secrets);
    return mask;
}

static void feed(const struct pin_mask *mask, const uint8_t *data, size_t size, size_t chunk,
                 struct kept *kept) {
    const struct pin_mask_sink sink = {kept, keep};
    struct pin_mask_stream *stream = pin_mask_stream_new(mask, &sink);
    assert(stream != NULL);
    for (size_t at = 0; at < size; at += chunk)
        pin_mask_stream_feed(stream, data + at, size - at < chunk ? size - at : chunk);
    pin_mask_stream_end(stream);
    pin_mask_stream_free(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct pin_mask *mask;
    static struct kept whole, split;
    if (mask == NULL)
        mask = mask_of_tests();
    if (size > 8192)
        return 0;
    whole.size = split.size = 0;
    feed(mask, data, size, size + 1, &whole);
    feed(mask, data, size, 1, &split);
    assert(whole.size == split.size && memcmp(whole.bytes, split.bytes, whole.size) == 0);
    assert(memmem(whole.bytes, whole.size, "aaaab", 5) == NULL);
    assert(memmem(whole.bytes, whole.size, "abaab", 5) == NULL);
    return 0;
}
