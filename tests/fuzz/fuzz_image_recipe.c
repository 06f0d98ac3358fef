/* A lock that is read is printed and read again as the same; what a recipe names is fit for apt's arguments.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "images/store/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_arena arena = {0};
    struct pin_error err = {0}, none = {0};
    struct pin_recipe recipe;
    struct pin_lock lock, again;
    if (pin_recipe_parse(&arena, (const char *)data, size, &recipe, &none))
        for (size_t i = 0; i < recipe.package_count; i++)
            assert(strpbrk(recipe.packages[i], "/=~?* ") == NULL && recipe.packages[i][0] != '-');
    if (pin_lock_parse(&arena, (const char *)data, size, &lock, &err)) {
        const char *text = pin_lock_print(&arena, &lock);
        assert(pin_lock_parse(&arena, text, strlen(text), &again, &err) && again.count == lock.count);
        assert(strcmp(pin_lock_print(&arena, &again), text) == 0);
        for (size_t i = 0; i < lock.count; i++)
            assert(strchr(pin_package_file(&arena, &lock.packages[i]), '/') == NULL);
    }
    pin_arena_free(&arena);
    return 0;
}
