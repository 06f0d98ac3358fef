/* skopeo.h: registry transport is skopeo's: it is run as a program, with the caller's environment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct skopeo {
    const char *authfile; /* NULL: skopeo's usual one */
    bool insecure;        /* no TLS, or a certificate that nobody knows */
    bool show_progress;   /* on standard error */
    uint64_t timeout_ns;  /* of a copy; a registry that doesn't say what it has is waited for less long */
};

/* The bytes of the manifest or index that `reference` ("docker://…") stands for; the caller frees them. */
char *skopeo_inspect_raw(const struct skopeo *skopeo, const char *reference, size_t *size,
                         struct pin_error *err);
/* Copies manifest and blobs as they are into a directory of skopeo's kind, "dir:". A blob that doesn't end
 * after `blob_max` bytes ends the copy. */
bool skopeo_copy(const struct skopeo *skopeo, const char *reference, const char *directory, uint64_t blob_max,
                 struct pin_error *err);
