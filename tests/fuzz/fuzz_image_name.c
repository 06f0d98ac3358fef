/* A name that is taken prints to itself, and its file leads back to it and stays in its folder. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "images/image_name.h"

static void check(const struct pin_image_name *name) {
    char text[PIN_IMAGE_TEXT], file[PIN_IMAGE_FILE];
    struct pin_image_name again;
    struct pin_error err = {0};
    assert(pin_image_name_parse(pin_image_name_print(text, name), &again, &err));
    assert(strcmp(again.name, name->name) == 0 && strcmp(again.tag, name->tag) == 0);
    (void)pin_image_name_file(file, name);
    assert(strchr(file, '/') == NULL && file[0] != '.' && strlen(file) < 256);
    assert(pin_image_name_from_file(file, &again) && strcmp(again.name, name->name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size);
    struct pin_image_name name;
    struct pin_error err = {0};
    if (pin_image_name_parse(text, &name, &err) && name.name[0] != '\0')
        check(&name);
    (void)pin_image_name_from_file(text, &name);
    free(text);
    return 0;
}
