/* Unpacks a layer's blob below a directory, as the store does once the blob is its own and its digest known:
 * for unpack.py. */
#include <fcntl.h>
#include <stdio.h>

#include "images/store/layer_unpack.h"

int main(int argc, char **argv) {
    static const char digest[PIN_DIGEST_TEXT] = "sha256:"; /* no more than copied */
    struct pin_error err = {0};
    struct pin_layer_unpacked unpacked;
    int blob = argc == 3 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    int root = argc == 3 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (blob < 0 || root < 0) {
        (void)fputs("usage: bench-unpack-layer BLOB DIRECTORY\n", stderr);
        return 2;
    }
    if (!pin_layer_unpack(blob, digest, root, &pin_layer_limits_default, &unpacked, &err)) {
        (void)fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    return 0;
}
