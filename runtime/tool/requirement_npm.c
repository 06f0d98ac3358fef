/* npm's: a package of the registry, with a version, a range or a tag. */
#include <string.h>

#include "base/names.h"
#include "runtime/tool/requirement_text.h"

#define NAME_MAX_BYTES 214 /* npm's own */

static const char name_letters[] = PIN_LETTERS PIN_DIGITS "._~-";
/* no ':', '/' or '#': URLs, paths, aliases and repositories can't be written */
static const char range_letters[] = PIN_LETTERS PIN_CAPITALS PIN_DIGITS ".^~<>=|*+- ";
static const char version_letters[] = PIN_LETTERS PIN_CAPITALS PIN_DIGITS ".+-";
static const char integrity_mark[] = "--integrity=";

static bool take_part(struct pin_requirement_line *line) {
    size_t length = pin_requirement_span(line, name_letters);
    if (length == 0 || strchr("._-~", line->at[0]) != NULL)
        return false;
    pin_requirement_put(line, line->at, length);
    line->at += length;
    return true;
}

static bool take_name(struct pin_requirement_line *line, const char **name, struct pin_error *err) {
    const char *start = line->at;
    bool scoped = *line->at == '@', ok = true;
    if (scoped) {
        pin_requirement_put(line, line->at++, 1);
        ok = take_part(line) && *line->at == '/';
        if (ok)
            pin_requirement_put(line, line->at++, 1);
    }
    ok = ok && take_part(line) && line->size <= NAME_MAX_BYTES;
    if (!ok) {
        line->at = start;
        return pin_requirement_bad(line, err, "a package's name");
    }
    *name = pin_arena_strndup(line->arena, line->to, line->size);
    return true;
}

/* Spaces are one each, and none at the end. */
static void put_range(struct pin_requirement_line *line, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (line->at[i] != ' ' || (i + 1 < length && line->at[i + 1] != ' '))
            pin_requirement_put(line, line->at + i, 1);
    line->at += length;
}

static bool take_range(struct pin_requirement_line *line, bool *exact, struct pin_error *err) {
    *exact = false;
    if (*line->at != '@')
        return true;
    line->at++;
    pin_requirement_skip(line);
    const char *mark = strstr(line->at, " --"); /* what follows is no part of a range */
    size_t length = pin_requirement_span(line, range_letters);
    if (mark != NULL && line->at + length > mark)
        length = (size_t)(mark - line->at);
    while (length > 0 && line->at[length - 1] == ' ')
        length--;
    if (length == 0 || line->at[0] == '-')
        return pin_requirement_bad(line, err, "a version, a range or a tag");
    *exact = strchr(PIN_DIGITS, line->at[0]) != NULL && strspn(line->at, version_letters) >= length;
    pin_requirement_put(line, "@", 1);
    put_range(line, length);
    return true;
}

static bool take_integrity(struct pin_requirement_line *line, bool exact, struct pin_error *err) {
    static const struct {
        const char *start;
        size_t letters; /* of base64, with its "=" */
    } rows[] = {
        {"sha256-", 44},
        {"sha384-", 64},
        {"sha512-", 88}
    };
    line->at += strlen(integrity_mark);
    for (size_t i = 0; exact && i < PIN_COUNT(rows); i++) {
        size_t start = strlen(rows[i].start);
        if (strncmp(line->at, rows[i].start, start) != 0)
            continue;
        size_t length = strspn(line->at + start, PIN_LETTERS PIN_CAPITALS PIN_DIGITS "+/=");
        if (length != rows[i].letters)
            break;
        pin_requirement_put(line, " --integrity=", 13);
        pin_requirement_put(line, line->at, start + length);
        line->at += start + length;
        pin_requirement_skip(line);
        return true;
    }
    return pin_requirement_bad(line, err, "an integrity of a whole version, such as 'sha512-' and base64");
}

bool pin_requirement_npm(struct pin_requirement_line *line, const char **name, struct pin_error *err) {
    bool exact;
    if (!take_name(line, name, err) || !take_range(line, &exact, err))
        return false;
    pin_requirement_skip(line);
    if (strncmp(line->at, integrity_mark, strlen(integrity_mark)) == 0 && !take_integrity(line, exact, err))
        return false;
    if (*line->at == '\0')
        return true;
    (void)pin_requirement_bad(line, err, "a part of a requirement");
    return pin_hint(err, "write NAME@RANGE; URLs, paths and options of npm can't be given");
}
