/* Unpacks a layer's blob below a directory and prints the milliseconds that it took: for unpack.py. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#include "images/store/layer_unpack.h"

int main(int argc, char **argv) {
    struct pin_error err = {0};
    struct pin_layer_unpacked unpacked;
    struct timespec start, end;
    int blob = argc == 3 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    int root = argc == 3 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (blob < 0 || root < 0) {
        (void)fputs("usage: bench-unpack-layer BLOB DIRECTORY\n", stderr);
        return 2;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    if (!pin_layer_unpack(blob, root, &pin_layer_limits_default, &unpacked, &err)) {
        (void)fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    (void)printf("%.3f\n", seconds * 1e3);
    return 0;
}
