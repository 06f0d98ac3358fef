/* Any bytes as an entry of the filter cache: what is accepted is a sound program, and is written back as it
 * was. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/build/seccomp/cache_file.h"
#include "runtime/build/seccomp/simulate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_back(const void *data, size_t size, const uint8_t *digest) {
    struct pin_program program = {0};
    if (!pin_cache_file_read(data, size, digest, &program)) {
        assert(program.code == NULL);
        return;
    }
    size_t again_size;
    assert(pin_bpf_check(program.code, program.length));
    void *again = pin_cache_file_write(&program, &again_size);
    assert(again != NULL && again_size == size && memcmp(again, data, size) == 0);
    free(again);
    pin_program_free(&program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t zeros[PIN_SHA256_SIZE];
    read_back(data, size, size >= 8 + PIN_SHA256_SIZE ? data + 8 : zeros);
    /* the same bytes as code behind a right header, which the fuzzer can't guess */
    struct pin_program program = {.length = (uint16_t)(size / sizeof(struct sock_filter))};
    if (program.length == 0 || program.length > PIN_PROGRAM_MAX)
        return 0;
    program.code = malloc(program.length * sizeof(struct sock_filter));
    assert(program.code != NULL);
    memcpy(program.code, data, program.length * sizeof(struct sock_filter));
    size_t whole_size;
    void *whole = pin_cache_file_write(&program, &whole_size);
    assert(whole != NULL);
    read_back(whole, whole_size, zeros);
    free(whole);
    pin_program_free(&program);
    return 0;
}
