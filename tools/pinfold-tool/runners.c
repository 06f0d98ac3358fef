#include "tools/pinfold-tool/runners.h"

#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/names.h"
#include "pin_tool_runners.h"

#define WORDS_MAX 5
#define VM_MODULES "--experimental-vm-modules" /* module.js: a module without Node's loader */

struct language {
    const char *name, *program;
    const char *words[PIN_RUNNER_MODE_COUNT][WORDS_MAX]; /* after the program; with a '.': an embedded file */
    bool has_preface;
};

static const struct language python = {
    .name = "python3",
    .program = "python3",
    .words = {[PIN_RUNNER_COLD] = {"-S", "-c", "boot.py"}, /* site comes when it is needed: runner.py */
              [PIN_RUNNER_AHEAD] = {"-c", "runner.py", "more.py"},
              [PIN_RUNNER_FORKS] = {"-c", "zygote.py", "runner.py", "more.py"}},
    .has_preface = true,
};
static const struct language node = {
    .name = "node",
    .program = "node",
    .words = {[PIN_RUNNER_COLD] = {VM_MODULES, "-e", "runner.js"},
              [PIN_RUNNER_AHEAD] = {VM_MODULES, "-e", "runner.js", "ahead"}},
};
static const struct language typescript = {
  /* what strips types is started ahead too */
    .name = "typescript",
    .program = "node",
    .words = {[PIN_RUNNER_COLD] = {VM_MODULES, "-e", "runner.js"},
              [PIN_RUNNER_AHEAD] = {VM_MODULES, "-e", "runner.js", "ahead", "typescript"}},
};
static const struct language *const languages[] = {
    [PIN_TOOL_PYTHON] = &python,
    [PIN_TOOL_TYPESCRIPT] = &typescript,
    [PIN_TOOL_JAVASCRIPT] = &node,
};
_Static_assert(PIN_COUNT(languages) == PIN_TOOL_LANGUAGE_COUNT, "every language has runners");

static const struct pin_embedded *find(const char *name) {
    for (size_t i = 0; i < pin_tool_runners_count; i++)
        if (strcmp(pin_tool_runners[i].name, name) == 0)
            return &pin_tool_runners[i];
    return NULL;
}

static const char *embedded(const char *name) {
    const struct pin_embedded *file = find(name);
    return file != NULL ? (const char *)file->data : name;
}

char **pin_runner_argv(enum pin_tool_language language, enum pin_runner_mode mode, struct pin_arena *arena,
                       size_t *count) {
    const char *const *words = languages[language]->words[mode];
    char **argv = pin_arena_array(arena, WORDS_MAX + 2, sizeof(*argv));
    *count = 0;
    if (words[0] == NULL)
        return NULL;
    argv[(*count)++] = pin_arena_strdup(arena, languages[language]->program);
    for (size_t i = 0; i < WORDS_MAX && words[i] != NULL; i++)
        argv[(*count)++] = pin_arena_strdup(arena, embedded(words[i]));
    argv[*count] = NULL;
    return argv;
}

const char *pin_runner_name(enum pin_tool_language language) {
    return languages[language]->name;
}

const char *pin_runners_digest(void) {
    return pin_tool_runners_digest;
}

static bool write_python(int to, struct pin_error *err) {
    const struct pin_embedded *const parts[] = {find("runner.pyc"), find("runner.py"), find("more.py")};
    char sizes[80];
    int length =
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what is embedded is there */
        snprintf(sizes, sizeof(sizes), "%zu %zu %zu\n", parts[0]->size, parts[1]->size, parts[2]->size);
    bool ok = pin_write_all(to, sizes, (size_t)length, err);
    for (size_t i = 0; ok && i < PIN_COUNT(parts); i++)
        ok = pin_write_all(to, parts[i]->data, parts[i]->size, err);
    return ok;
}

bool pin_runner_preface(enum pin_tool_language language, enum pin_runner_mode mode, int to,
                        struct pin_error *err) {
    if (!languages[language]->has_preface)
        return true;
    return mode == PIN_RUNNER_COLD ? write_python(to, err) : pin_write_all(to, "", 1, err);
}
