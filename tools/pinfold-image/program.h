/* program.h: running another program to its end: skopeo, apt, pinfold itself.
 *
 * It reads nothing, and gets our environment with what is set over it. What it prints is read to the end and
 * kept up to a bound: nothing that a program prints can fill our memory or make it wait. It is killed when we
 * die.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { PROGRAM_ARGUMENTS_MAX = 2048 };

struct program {
    const char *const *argv;        /* ended by NULL; the first is a path, or found by PATH */
    const char *const *environment; /* "K=V" over our own, ended by NULL; NULL: none */
    size_t output_max; /* bytes of its output that are kept; 0: none, it goes where `show` says */
    uint64_t file_max; /* bytes that a file may have that it writes; 0: as we ourselves */
    bool show;         /* output that isn't kept is shown on standard error, not thrown away */
};

struct program_output {
    char *out, *errors; /* NULL or ended by a zero byte */
    size_t out_size, errors_size;
    int code; /* its exit code; 128 and the signal where one ended it */
};

/* False where it couldn't be run at all: NOT_FOUND where it isn't there. */
bool program_run(const struct program *program, struct program_output *output, struct pin_error *err);
void program_output_free(struct program_output *output);
#define PROGRAM_OUTPUT __attribute__((cleanup(program_output_free)))

/* The last line that it printed as an error, without control characters. Returns `to`. */
char *program_last_words(const struct program_output *output, char *to, size_t room);
