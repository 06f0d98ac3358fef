#include "tools/pinfold-tool/runners.h"

#include <string.h>

#include "base/names.h"
#include "pin_tool_runners.h"

#define WORDS_MAX 5

struct language {
    const char *program;
    const char *words[PIN_RUNNER_MODE_COUNT][WORDS_MAX]; /* after the program; with a '.': an embedded file */
    const char *preface;
};

static const struct language python = {
    .program = "python3",
    .words = {[PIN_RUNNER_COLD] = {"-c", "runner.py"},
              [PIN_RUNNER_AHEAD] = {"-c", "runner.py", "more.py"},
              [PIN_RUNNER_FORKS] = {"-c", "zygote.py", "runner.py", "more.py"}},
    .preface = "more.py",
};
static const struct language node = {
    .program = "node",
    .words = {[PIN_RUNNER_COLD] = {"-e", "runner.js"}, [PIN_RUNNER_AHEAD] = {"-e", "runner.js", "ahead"}},
};
static const struct language *const languages[] = {
    [PIN_TOOL_PYTHON] = &python,
    [PIN_TOOL_TYPESCRIPT] = &node,
    [PIN_TOOL_JAVASCRIPT] = &node,
};
_Static_assert(PIN_COUNT(languages) == PIN_TOOL_LANGUAGE_COUNT, "every language has runners");

static const char *embedded(const char *name) {
    for (size_t i = 0; i < pin_tool_runners_count; i++)
        if (strcmp(pin_tool_runners[i].name, name) == 0)
            return (const char *)pin_tool_runners[i].data;
    return name;
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

const char *pin_runner_program(enum pin_tool_language language) {
    return languages[language]->program;
}

const char *pin_runner_preface(enum pin_tool_language language) {
    const char *name = languages[language]->preface;
    return name == NULL ? NULL : embedded(name);
}
