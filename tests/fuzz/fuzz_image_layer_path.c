/* A name of an entry that is taken has no part that leads up, and no empty one. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "images/store/layer_path.h"

static void check_part(const char *part, size_t size) {
    assert(size > 0 && size <= 255);
    assert(!(size == 1 && part[0] == '.') && !(size == 2 && part[0] == '.' && part[1] == '.'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_layer_path *path = malloc(sizeof(*path));
    struct pin_error err = {0};
    char *text = strndup((const char *)data, size);
    if (pin_layer_path_parse(text, path, &err) && path->kind != PIN_LAYER_ROOT) {
        assert(strchr(path->name, '/') == NULL);
        check_part(path->name, strlen(path->name));
        for (const char *part = path->parent; *part != '\0';) {
            size_t length = strcspn(part, "/");
            check_part(part, length);
            part += length;
            assert(*part == '\0' || part[1] != '\0');
            part += *part == '/';
        }
    }
    free(text);
    free(path);
    return 0;
}
