/* What is taken has a name and a target that lead nowhere else. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/secrets/secret_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_secret_spec spec;
    struct pin_error err = {0};
    char *text = strndup((const char *)data, size);
    if (text != NULL && pin_secret_spec_parse(text, &spec, &err)) {
        assert(spec.name[0] != '\0' && strpbrk(spec.name, "/:=\n") == NULL && spec.name[0] != '.');
        assert(spec.target[0] != '\0' && strpbrk(spec.target, "/:=\n") == NULL && spec.target[0] != '.');
    } else {
        assert(err.kind == PIN_ERROR_USAGE);
    }
    free(text);
    return 0;
}
