/* cache_file.h: one entry of the cache as bytes.
 *
 * Header: 8 bytes "pinbpf\0\1", the spec digest, the SHA-256 of the code; then the code, in the machine's
 * byte order. The reader takes any bytes. What it accepts is whole, and not yet trusted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/build/seccomp/compile.h"

#define PIN_CACHE_HEADER (8 + 2 * PIN_SHA256_SIZE)
#define PIN_CACHE_FILE_MAX (PIN_CACHE_HEADER + PIN_PROGRAM_MAX * sizeof(struct sock_filter))

/* The program in `data`, if it is an entry for this digest; `flags` are left 0. The caller frees the program.
 */
bool pin_cache_file_read(const void *data, size_t size, const uint8_t spec_digest[PIN_SHA256_SIZE],
                         struct pin_program *program);

/* The entry of a program, to be freed; NULL without memory. */
void *pin_cache_file_write(const struct pin_program *program, size_t *size);
