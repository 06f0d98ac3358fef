/* pip's requirements: PEP 508 without direct references, and hashes. */
#include <ctype.h>
#include <string.h>

#include "base/names.h"
#include "runtime/tool/requirement_text.h"

static const char name_letters[] = PIN_LETTERS PIN_CAPITALS PIN_DIGITS "._-";
static const char version_letters[] = PIN_LETTERS PIN_CAPITALS PIN_DIGITS ".*+!_-";

/* Lower case, and each run of "-_." is one "-": PEP 503. A name begins and ends with a letter or a digit. */
static const char *take_name(struct pin_requirement_line *line) {
    size_t length = pin_requirement_span(line, name_letters), from = line->size;
    if (length == 0 || !isalnum((unsigned char)line->at[0]) || !isalnum((unsigned char)line->at[length - 1]))
        return NULL;
    for (size_t i = 0; i < length; i++) {
        bool mark = strchr("-_.", line->at[i]) != NULL;
        char letter = mark ? '-' : (char)tolower((unsigned char)line->at[i]);
        if (!mark || line->to[line->size - 1] != '-')
            pin_requirement_put(line, &letter, 1);
    }
    line->at += length;
    return pin_arena_strndup(line->arena, line->to + from, line->size - from);
}

static bool take_extras(struct pin_requirement_line *line, struct pin_error *err) {
    pin_requirement_skip(line);
    if (*line->at != '[')
        return true;
    do {
        pin_requirement_put(line, *line->at == '[' ? "[" : ",", 1);
        line->at++;
        pin_requirement_skip(line);
        if (take_name(line) == NULL)
            return pin_requirement_bad(line, err, "an extra's name");
        pin_requirement_skip(line);
    } while (*line->at == ',');
    if (*line->at != ']')
        return pin_requirement_bad(line, err, "the end of a list of extras");
    line->at++;
    pin_requirement_put(line, "]", 1);
    pin_requirement_skip(line);
    return true;
}

static const char *operator_here(const struct pin_requirement_line *line) {
    static const char *const operators[] = {"===", "==", "!=", "<=", ">=", "~=", "<", ">"};
    for (size_t i = 0; i < PIN_COUNT(operators); i++)
        if (strncmp(line->at, operators[i], strlen(operators[i])) == 0)
            return operators[i];
    return NULL;
}

static bool take_version(struct pin_requirement_line *line, struct pin_error *err) {
    const char *sign = operator_here(line);
    if (sign == NULL)
        return pin_requirement_bad(line, err, "a comparison such as '==1.2'");
    pin_requirement_put(line, sign, strlen(sign));
    line->at += strlen(sign);
    pin_requirement_skip(line);
    size_t length = pin_requirement_span(line, version_letters);
    if (length == 0 || !isalnum((unsigned char)line->at[0]))
        return pin_requirement_bad(line, err, "a version");
    pin_requirement_put(line, line->at, length);
    line->at += length;
    pin_requirement_skip(line);
    return true;
}

static bool take_versions(struct pin_requirement_line *line, struct pin_error *err) {
    if (operator_here(line) == NULL)
        return true;
    if (!take_version(line, err))
        return false;
    while (*line->at == ',') {
        line->at++;
        pin_requirement_put(line, ",", 1);
        pin_requirement_skip(line);
        if (!take_version(line, err))
            return false;
    }
    return true;
}

static bool is_marker_word(const char *at, size_t length) {
    static const char *const words[] = {"and",
                                        "or",
                                        "in",
                                        "not",
                                        "extra",
                                        "python_version",
                                        "python_full_version",
                                        "os_name",
                                        "sys_platform",
                                        "platform_release",
                                        "platform_system",
                                        "platform_version",
                                        "platform_machine",
                                        "platform_python_implementation",
                                        "implementation_name",
                                        "implementation_version"};
    for (size_t i = 0; i < PIN_COUNT(words); i++)
        if (strlen(words[i]) == length && memcmp(words[i], at, length) == 0)
            return true;
    return false;
}

/* The length of a quoted text with its quotes; 0: there is none. No spaces: pip looks for options in a line
 * before it looks for quotes. */
static size_t quoted(const char *at) {
    static const char inside[] = PIN_LETTERS PIN_CAPITALS PIN_DIGITS "._+*-";
    size_t length = *at == '"' || *at == '\'' ? strspn(at + 1, inside) : 0;
    return *at != '\0' && (*at == '"' || *at == '\'') && at[length + 1] == *at ? length + 2 : 0;
}

/* One token of a marker; what they mean together is pip's to say. */
static bool take_marker_token(struct pin_requirement_line *line, struct pin_error *err) {
    const char *sign = operator_here(line);
    size_t word = pin_requirement_span(line, PIN_LETTERS "_"), text = quoted(line->at);
    size_t length = sign != NULL ? strlen(sign) : text > 0 ? text : word;
    if (*line->at == '(' || *line->at == ')')
        length = 1;
    else if (sign == NULL && text == 0 && !is_marker_word(line->at, word))
        return pin_requirement_bad(line, err, "a part of an environment marker");
    pin_requirement_put(line, " ", 1);
    pin_requirement_put(line, text > 0 ? "\"" : line->at, 1);
    pin_requirement_put(line, line->at + 1, text > 0 ? length - 2 : length - 1);
    pin_requirement_put(line, "\"", text > 0);
    line->at += length;
    pin_requirement_skip(line);
    return true;
}

static bool take_marker(struct pin_requirement_line *line, struct pin_error *err) {
    if (*line->at != ';')
        return true;
    line->at++;
    pin_requirement_put(line, " ;", 2);
    pin_requirement_skip(line);
    do {
        if (!take_marker_token(line, err))
            return false;
    } while (*line->at != '\0' && strncmp(line->at, "--", 2) != 0);
    return true;
}

static bool take_hash(struct pin_requirement_line *line, struct pin_error *err) {
    static const struct {
        const char *start;
        size_t digits;
    } rows[] = {
        {"--hash=sha256:", 64 },
        {"--hash=sha384:", 96 },
        {"--hash=sha512:", 128}
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        size_t start = strlen(rows[i].start);
        if (strncmp(line->at, rows[i].start, start) != 0)
            continue;
        size_t digits = strspn(line->at + start, PIN_DIGITS "abcdef");
        if (digits != rows[i].digits)
            break;
        pin_requirement_put(line, " ", 1);
        pin_requirement_put(line, line->at, start + digits);
        line->at += start + digits;
        if (*line->at != '\0' && *line->at != ' ')
            break;
        pin_requirement_skip(line);
        return true;
    }
    return pin_requirement_bad(line, err, "a hash such as '--hash=sha256:' and its digits");
}

bool pin_requirement_pip(struct pin_requirement_line *line, const char **name, struct pin_error *err) {
    *name = take_name(line);
    if (*name == NULL)
        return pin_requirement_bad(line, err, "a package's name");
    if (!take_extras(line, err) || !take_versions(line, err) || !take_marker(line, err))
        return false;
    while (strncmp(line->at, "--", 2) == 0)
        if (!take_hash(line, err))
            return false;
    if (*line->at == '\0')
        return true;
    (void)pin_requirement_bad(line, err, "a part of a requirement");
    return pin_hint(err, "write NAME[EXTRA]==VERSION; URLs, paths and options of pip can't be given");
}
