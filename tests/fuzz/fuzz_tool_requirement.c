/* Any text is a requirement or an error; the canonical text of one is itself, is no option, names no file. */
#undef NDEBUG /* the laws below are asserted in every build */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tool/requirement.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(enum pin_installer installer, const char *text) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_requirement one, again;
    struct pin_error err = {0};
    if (!pin_requirement_parse(installer, text, &arena, &one, &err)) {
        assert(err.kind == PIN_ERROR_INVALID);
        return;
    }
    assert(one.text[0] != '-' && one.text[0] != '.' && one.text[0] != '/');
    assert(strstr(one.text, "://") == NULL && strpbrk(one.text, "\r\n\t$`\\#%?&{}") == NULL);
    for (const char *at = one.text; (at = strstr(at, " --")) != NULL; at++)
        assert(strncmp(at, " --hash=sha", 11) == 0 || strncmp(at, " --integrity=sha", 16) == 0);
    assert(pin_requirement_parse(installer, one.text, &arena, &again, &err));
    assert(strcmp(one.text, again.text) == 0 && strcmp(one.name, again.name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    assert(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    judge(PIN_INSTALLER_PIP, text);
    judge(PIN_INSTALLER_NPM, text);
    free(text);
    return 0;
}
