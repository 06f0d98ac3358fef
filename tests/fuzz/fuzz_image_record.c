/* A record that is read is written and read again to the same text. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "images/image_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_arena arena = {0};
    struct pin_error err = {0};
    struct pin_image_config image, again;
    if (pin_image_record_parse(&arena, (const char *)data, size, &image, &err)) {
        char *text = pin_image_record_print(&image, &err);
        assert(text != NULL && pin_image_record_parse(&arena, text, strlen(text), &again, &err));
        char *second = pin_image_record_print(&again, &err);
        assert(second != NULL && strcmp(text, second) == 0);
        free(text);
        free(second);
    }
    char *pem = strndup((const char *)data, size);
    image = (struct pin_image_config){0};
    assert(!pin_image_signed_with(&image, pem)); /* nobody has signed this one */
    free(pem);
    pin_arena_free(&arena);
    return 0;
}
