#include "runtime/tool/requirement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "runtime/tool/requirement_text.h"

static const char *const installers[] = {
    [PIN_INSTALLER_PIP] = "pip",
    [PIN_INSTALLER_NPM] = "npm",
};
_Static_assert(PIN_COUNT(installers) == PIN_INSTALLER_COUNT, "every installer has a name");

const char *pin_installer_name(enum pin_installer installer) {
    return installers[installer];
}

void pin_requirement_put(struct pin_requirement_line *line, const char *text, size_t size) {
    if (size >= sizeof(line->to) - line->size)
        abort(); /* the line's length is bounded, and each token grows by a few bytes at most */
    memcpy(line->to + line->size, text, size);
    line->size += size;
    line->to[line->size] = '\0';
}

void pin_requirement_skip(struct pin_requirement_line *line) {
    line->at += strspn(line->at, " ");
}

size_t pin_requirement_span(const struct pin_requirement_line *line, const char *allowed) {
    return strspn(line->at, allowed);
}

bool pin_requirement_bad(const struct pin_requirement_line *line, struct pin_error *err, const char *what) {
    char shown[64];
    (void)pin_escape(shown, sizeof(shown), line->at, strnlen(line->at, 40));
    return pin_fail(err, PIN_ERROR_INVALID, "'%s' isn't %s", shown, what);
}

static bool is_plain(const char *text, struct pin_error *err) {
    size_t size = strnlen(text, PIN_REQUIREMENT_MAX + 1);
    if (size > PIN_REQUIREMENT_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "a requirement has at most %d bytes", PIN_REQUIREMENT_MAX);
    for (size_t i = 0; i < size; i++)
        if (text[i] < ' ' || text[i] > '~')
            return pin_fail(err, PIN_ERROR_INVALID, "a requirement is one line of printable ASCII");
    return true;
}

bool pin_requirement_parse(enum pin_installer installer, const char *text, struct pin_arena *arena,
                           struct pin_requirement *requirement, struct pin_error *err) {
    static bool (*const grammars[])(struct pin_requirement_line *, const char **, struct pin_error *) = {
        [PIN_INSTALLER_PIP] = pin_requirement_pip,
        [PIN_INSTALLER_NPM] = pin_requirement_npm,
    };
    struct pin_requirement_line line = {.at = text, .arena = arena};
    const char *name;
    if (!is_plain(text, err))
        return false;
    pin_requirement_skip(&line);
    if (!grammars[installer](&line, &name, err))
        return false;
    if (line.size > PIN_REQUIREMENT_MAX) /* spaces between the parts of a marker */
        return pin_fail(err, PIN_ERROR_INVALID, "a requirement has at most %d bytes", PIN_REQUIREMENT_MAX);
    *requirement = (struct pin_requirement){name, pin_arena_strndup(arena, line.to, line.size)};
    return true;
}

static bool names(const struct pin_requirements *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return true;
    return false;
}

static int compare(const void *a, const void *b) {
    const struct pin_requirement *first = a, *second = b;
    return strcmp(first->text, second->text);
}

void pin_requirements_merge(const struct pin_requirements *under, const struct pin_requirements *over,
                            struct pin_arena *arena, struct pin_requirements *merged) {
    size_t count = 0, kept = 0;
    struct pin_requirement *items = pin_arena_array(arena, under->count + over->count + 1, sizeof(*items));
    for (size_t i = 0; i < under->count; i++)
        if (!names(over, under->items[i].name))
            items[count++] = under->items[i];
    for (size_t i = 0; i < over->count; i++)
        items[count++] = over->items[i];
    qsort(items, count, sizeof(*items), compare);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(items[kept - 1].text, items[i].text) != 0)
            items[kept++] = items[i];
    *merged = (struct pin_requirements){items, kept};
}
