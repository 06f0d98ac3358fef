/* A tar of any bytes: the verdict comes without reading beyond them, and is the same wherever pieces end. */
#include <assert.h>
#include <stdint.h>

#include "images/store/tar_check.h"

static bool check(const uint8_t *data, size_t size, size_t piece) {
    struct pin_tar_check *check = pin_tar_check_new();
    struct pin_error err = {0};
    bool sound = true;
    for (size_t at = 0; sound && at < size; at += piece)
        sound = pin_tar_check_feed(check, data + at, size - at < piece ? size - at : piece, &err);
    assert(sound != pin_is_set(&err));
    pin_tar_check_free(check);
    return sound;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bool sound = check(data, size, size + 1);
    assert(check(data, size, 1) == sound);
    assert(check(data, size, 509) == sound);
    return 0;
}
