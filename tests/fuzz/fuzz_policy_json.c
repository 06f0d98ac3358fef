/* The walk over a text finds each value of what jansson takes for JSON once, and a fault in whatever jansson
 * refuses; it stays in the text. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "policy/json_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct pin_json *node, uint32_t lines, bool *faults) {
    size_t count = 0;
    assert(node->line >= 1 && node->line <= lines && node->column >= 1);
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        assert(child->parent == node && child->index == count);
        assert((child->key != NULL) == json_is_object(node->value) || node->value == NULL);
        *faults = *faults || child->value == NULL;
        walk(child, lines, faults);
        count++;
    }
    assert(count == node->count);
    if (json_is_array(node->value))
        assert(count == json_array_size(node->value));
    if (json_is_object(node->value))
        assert(count >= json_object_size(node->value));
}

/* A fault of the text is found in whatever jansson refuses, and in nothing else but what is too deep. */
static void judge(const char *text, size_t size, const struct pin_findings *found) {
    json_t *value = json_loadb(text, size, 0, NULL);
    bool syntax = false;
    for (size_t i = 0; i < found->count; i++) {
        syntax = syntax || found->list[i].kind == PIN_ERROR_SYNTAX;
        assert(strcmp(found->list[i].message, "not JSON") != 0); /* a fault that the walk doesn't know */
        if (value != NULL && found->list[i].kind == PIN_ERROR_SYNTAX)
            assert(strstr(found->list[i].message, "32 levels") != NULL);
    }
    assert(value != NULL || syntax);
    json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct pin_findings found;
    struct pin_json_source source = {0};
    char *text = malloc(size + 1); /* of its own, so that a read past its end is found */
    uint32_t lines = 1;
    bool faults = false;
    assert(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    text = realloc(text, size > 0 ? size : 1);
    memset(&found, 0, sizeof(found));
    if (pin_json_read(&source, "f", text, size, &found)) {
        assert(json_is_object(source.root->value) || json_is_array(source.root->value));
        walk(source.root, lines, &faults);
        assert(!faults || pin_found_any(&found));
    } else {
        assert(pin_found_any(&found));
    }
    judge(text, size, &found);
    pin_json_free(&source);
    free(text);
    return 0;
}
