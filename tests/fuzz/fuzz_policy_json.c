/* The scanner of places walks whatever jansson takes for JSON, finds each value once, and stays in the text.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "policy/json_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct pin_json *node, uint32_t lines, bool *duplicates) {
    size_t count = 0;
    assert(node->line >= 1 && node->line <= lines && node->column >= 1);
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        assert(child->parent == node && child->index == count);
        assert((child->key != NULL) == json_is_object(node->value) || node->value == NULL);
        *duplicates = *duplicates || child->value == NULL;
        walk(child, lines, duplicates);
        count++;
    }
    assert(count == node->count);
    if (json_is_array(node->value))
        assert(count == json_array_size(node->value));
    if (json_is_object(node->value))
        assert(count >= json_object_size(node->value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct pin_findings found;
    struct pin_json_source source = {0};
    char *text = malloc(size + 1); /* of its own, so that a read past its end is found */
    uint32_t lines = 1;
    bool duplicates = false;
    assert(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    text = realloc(text, size > 0 ? size : 1);
    memset(&found, 0, sizeof(found));
    if (pin_json_read(&source, "f", text, size, &found)) {
        assert(json_is_object(source.root->value) || json_is_array(source.root->value));
        walk(source.root, lines, &duplicates);
        assert(duplicates == pin_found_any(&found));
    } else {
        assert(found.count == 1);
    }
    pin_json_free(&source);
    free(text);
    return 0;
}
