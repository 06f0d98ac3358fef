#include "runtime/build/seccomp/cache_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "runtime/build/seccomp/simulate.h"

static const uint8_t magic[8] = {'p', 'i', 'n', 'b', 'p', 'f', 0, 1};

bool pin_cache_file_read(const void *data, size_t size, const uint8_t spec_digest[PIN_SHA256_SIZE],
                         struct pin_program *program) {
    struct pin_cursor in = {data, (const uint8_t *)data + size};
    const uint8_t *start, *spec, *digest;
    uint8_t actual[PIN_SHA256_SIZE];
    if (size > PIN_CACHE_FILE_MAX || !pin_take_bytes(&in, sizeof(magic), &start) ||
        !pin_take_bytes(&in, PIN_SHA256_SIZE, &spec) || !pin_take_bytes(&in, PIN_SHA256_SIZE, &digest) ||
        memcmp(start, magic, sizeof(magic)) != 0 || memcmp(spec, spec_digest, PIN_SHA256_SIZE) != 0)
        return false;
    size_t code_size = pin_left(&in), length = code_size / sizeof(struct sock_filter);
    pin_sha256(in.at, code_size, actual);
    if (length == 0 || code_size % sizeof(struct sock_filter) != 0 ||
        memcmp(actual, digest, PIN_SHA256_SIZE) != 0)
        return false;
    struct sock_filter *code = malloc(code_size);
    if (code == NULL)
        return false;
    memcpy(code, in.at, code_size);
    if (!pin_bpf_check(code, length)) {
        free(code);
        return false;
    }
    *program = (struct pin_program){.code = code, .length = (uint16_t)length};
    memcpy(program->spec_digest, spec_digest, PIN_SHA256_SIZE);
    return true;
}

void *pin_cache_file_write(const struct pin_program *program, size_t *size) {
    size_t code_size = program->length * sizeof(struct sock_filter);
    uint8_t *data = malloc(PIN_CACHE_HEADER + code_size);
    if (data == NULL)
        return NULL;
    memcpy(data, magic, sizeof(magic));
    memcpy(data + sizeof(magic), program->spec_digest, PIN_SHA256_SIZE);
    pin_sha256(program->code, code_size, data + sizeof(magic) + PIN_SHA256_SIZE);
    memcpy(data + PIN_CACHE_HEADER, program->code, code_size);
    *size = PIN_CACHE_HEADER + code_size;
    return data;
}
