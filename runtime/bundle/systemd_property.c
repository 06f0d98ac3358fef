#include "runtime/bundle/systemd_property.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"

#define US_PER_S 1000000
#define NUMBER_ROOM 64

struct reading {
    const char *at; /* in a text of less than PIN_SYSTEMD_TEXT_ROOM bytes */
    struct pin_systemd_property *property;
    size_t used; /* of its room: a string is never longer than what it is written as */
};

static const struct type {
    const char *word;
    char letter;
    uint64_t most; /* of whole numbers */
    int64_t least;
} types[] = {
    {"boolean",    'b', 0,          0        },
    {"byte",       'y', UINT8_MAX,  0        },
    {"int16",      'n', INT16_MAX,  INT16_MIN},
    {"uint16",     'q', UINT16_MAX, 0        },
    {"int32",      'i', INT32_MAX,  INT32_MIN},
    {"uint32",     'u', UINT32_MAX, 0        },
    {"int64",      'x', INT64_MAX,  INT64_MIN},
    {"uint64",     't', UINT64_MAX, 0        },
    {"double",     'd', 0,          0        },
    {"string",     's', 0,          0        },
    {"objectpath", 'o', 0,          0        },
    {"signature",  'g', 0,          0        },
};

static const struct type *find_letter(char letter) {
    for (size_t i = 0; i < PIN_COUNT(types); i++)
        if (types[i].letter == letter)
            return &types[i];
    return NULL;
}

static const struct type *find_word(const char *word, size_t length) {
    for (size_t i = 0; i < PIN_COUNT(types); i++)
        if (strlen(types[i].word) == length && strncmp(types[i].word, word, length) == 0)
            return &types[i];
    return NULL;
}

static void skip_blanks(struct reading *in) {
    while (*in->at == ' ' || *in->at == '\t' || *in->at == '\n' || *in->at == '\r')
        in->at++;
}

static bool take(struct reading *in, char sign) {
    skip_blanks(in);
    if (*in->at != sign)
        return false;
    in->at++;
    return true;
}

static bool fail(const struct reading *in, struct pin_error *err, const char *what) {
    return pin_fail(err, PIN_ERROR_SYNTAX, "%s at '%.24s'", what, in->at);
}

static bool is_word(char sign) {
    return isalnum((unsigned char)sign) || sign == '_';
}

/* "@t 5", "uint64 5"; NULL: no type is named. What is left is the value. */
static bool take_type(struct reading *in, bool *list, const struct type **type, struct pin_error *err) {
    *type = NULL;
    skip_blanks(in);
    if (*in->at == '@') {
        const char *letter = in->at[1] == 'a' ? in->at + 2 : in->at + 1;
        *list = in->at[1] == 'a';
        *type = *letter != '\0' ? find_letter(*letter) : NULL;
        if (*type == NULL || is_word(letter[1]))
            return fail(in, err, "a type that isn't taken");
        in->at = letter + 1;
        return true;
    }
    size_t length = 0;
    while (is_word(in->at[length]))
        length++;
    *type = find_word(in->at, length);
    if (*type != NULL)
        in->at += length;
    return true;
}

static bool take_boolean(struct reading *in, int64_t *value) {
    static const char *const words[] = {"false", "true"};
    for (size_t i = 0; i < PIN_COUNT(words); i++) {
        size_t length = strlen(words[i]);
        if (strncmp(in->at, words[i], length) == 0 && !is_word(in->at[length])) {
            in->at += length;
            *value = (int64_t)i;
            return true;
        }
    }
    return false;
}

/* 'it\'s', "so"; of GVariant's escapes those of one byte */
static bool take_string(struct reading *in, const char **words, struct pin_error *err) {
    static const char written[] = "abfnrtv\\'\"", meant[] = "\a\b\f\n\r\t\v\\'\"";
    char quote = *in->at, *to = in->property->room + in->used;
    if (quote != '\'' && quote != '"')
        return fail(in, err, "expected a string in quotes");
    *words = to;
    for (in->at++; *in->at != quote; in->at++) {
        const char *found = NULL;
        if (*in->at == '\\') {
            in->at++;
            found = *in->at != '\0' ? strchr(written, *in->at) : NULL;
            if (found == NULL)
                return fail(in, err, "an escape that isn't taken");
        }
        if (*in->at == '\0')
            return fail(in, err, "a string without an end");
        *to++ = found != NULL ? meant[found - written] : *in->at;
    }
    in->at++;
    *to++ = '\0';
    in->used = (size_t)(to - in->property->room);
    return true;
}

static bool copy_number(struct reading *in, char text[NUMBER_ROOM], struct pin_error *err) {
    size_t length = strspn(in->at, "+-.0123456789abcdefABCDEFxXpPin");
    if (length == 0 || length >= NUMBER_ROOM || isalpha((unsigned char)in->at[length]))
        return fail(in, err, "expected a value");
    (void)snprintf(text, NUMBER_ROOM, "%.*s", (int)length, in->at);
    return true;
}

static bool take_whole(struct reading *in, const struct type *type, union pin_systemd_item *item,
                       struct pin_error *err) {
    char text[NUMBER_ROOM] = "", *end = text;
    if (!copy_number(in, text, err))
        return false;
    bool negative = text[0] == '-';
    const char *digits = text + (negative || text[0] == '+');
    errno = 0;
    uint64_t size = isdigit((unsigned char)digits[0]) ? strtoull(digits, &end, 0) : 0;
    if (!isdigit((unsigned char)digits[0]) || *end != '\0')
        return fail(in, err, "expected a whole number");
    /* -(least + 1) has room in a signed number, and -least in an unsigned one */
    uint64_t most = !negative ? type->most : type->least == 0 ? 0 : (uint64_t) - (type->least + 1) + 1;
    if (errno != 0 || size > most)
        return fail(in, err, "a number that its type can't have");
    if (type->least == 0)
        item->natural = size;
    else
        item->number = !negative ? (int64_t)size : size == 0 ? 0 : -(int64_t)(size - 1) - 1;
    in->at += strlen(text);
    return true;
}

static bool take_real(struct reading *in, union pin_systemd_item *item, struct pin_error *err) {
    char text[NUMBER_ROOM], *end;
    if (!copy_number(in, text, err))
        return false;
    item->real = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(item->real))
        return fail(in, err, "expected a number");
    in->at += strlen(text);
    return true;
}

/* What GVariant takes a value for that has no type in front. */
static char guess(const struct reading *in) {
    if (*in->at == '\'' || *in->at == '"')
        return 's';
    if (isalpha((unsigned char)*in->at))
        return 'b';
    size_t length = strcspn(in->at, ",] \t\r\n");
    bool hexadecimal = in->at[0] == '0' && tolower((unsigned char)in->at[1]) == 'x';
    return !hexadecimal && strcspn(in->at, ".eE") < length ? 'd' : 'i';
}

static bool take_item(struct reading *in, struct pin_error *err) {
    struct pin_systemd_property *property = in->property;
    const struct type *named;
    bool list = false;
    if (!take_type(in, &list, &named, err))
        return false;
    skip_blanks(in);
    char letter = named != NULL ? named->letter : property->type != '\0' ? property->type : guess(in);
    if (list || (property->type != '\0' && property->type != letter))
        return fail(in, err, "values of more than one type");
    if (property->count == PIN_SYSTEMD_ITEMS_MAX)
        return fail(in, err, "too many values");
    union pin_systemd_item *item = &property->items[property->count];
    property->type = letter;
    bool ok;
    switch (letter) {
    case 'b': ok = take_boolean(in, &item->number) || fail(in, err, "expected true or false"); break;
    case 'd': ok = take_real(in, item, err); break;
    case 's':
    case 'o':
    case 'g': ok = take_string(in, &item->words, err); break;
    default: ok = take_whole(in, find_letter(letter), item, err); break;
    }
    property->count += ok;
    return ok;
}

static bool take_list(struct reading *in, struct pin_error *err) {
    if (take(in, ']'))
        return in->property->type != '\0' || fail(in, err, "an empty list of no type");
    do {
        if (!take_item(in, err))
            return false;
    } while (take(in, ','));
    return take(in, ']') || fail(in, err, "expected ',' or ']'");
}

static bool take_value(struct reading *in, struct pin_error *err) {
    struct pin_systemd_property *property = in->property;
    const char *start = in->at;
    const struct type *named;
    if (!take_type(in, &property->list, &named, err))
        return false;
    if (take(in, '[')) {
        if (named != NULL && !property->list)
            return fail(in, err, "expected one value");
        property->list = true;
        property->type = named != NULL ? named->letter : '\0';
        return take_list(in, err);
    }
    if (property->list)
        return fail(in, err, "expected a list");
    in->at = start;
    return take_item(in, err);
}

/* "TimeoutStopSec" is how people know it; the bus has "TimeoutStopUSec". */
static bool convert_seconds(struct pin_systemd_property *property, struct pin_error *err) {
    size_t length = strlen(property->name);
    union pin_systemd_item *item = &property->items[0];
    if (length < 4 || strcmp(property->name + length - 3, "Sec") != 0 ||
        !islower((unsigned char)property->name[length - 4]))
        return true;
    const struct type *type = find_letter(property->type);
    bool whole = type->most > 0, real = property->type == 'd';
    if (property->list || (!whole && !real) || length + 2 > sizeof(property->name))
        return pin_fail(err, PIN_ERROR_INVALID, "expected a number of seconds");
    if (real ? !(item->real >= 0 && item->real < (double)(UINT64_MAX / US_PER_S))
             : (type->least != 0 && item->number < 0) || item->natural > UINT64_MAX / US_PER_S)
        return pin_fail(err, PIN_ERROR_INVALID, "a time that is out of range");
    item->natural = real ? (uint64_t)(item->real * US_PER_S) : item->natural * US_PER_S;
    property->type = 't';
    memcpy(property->name + length - 3, "USec", sizeof("USec"));
    return true;
}

static bool is_name(const char *name) {
    size_t length = 0;
    while (isalpha((unsigned char)name[length]))
        length++;
    return name[length] == '\0' && length >= 3 && length < PIN_SYSTEMD_NAME_ROOM;
}

bool pin_systemd_property_parse(const char *name, const char *text, struct pin_systemd_property *property,
                                struct pin_error *err) {
    struct reading in = {.at = text, .property = property};
    property->type = '\0';
    property->list = false;
    property->count = 0;
    if (!is_name(name))
        return pin_fail(err, PIN_ERROR_INVALID, "'%.64s' is no name of a property", name);
    (void)snprintf(property->name, sizeof(property->name), "%s", name);
    if (strlen(text) >= PIN_SYSTEMD_TEXT_ROOM)
        return pin_fail(err, PIN_ERROR_INVALID, "longer than %d bytes", PIN_SYSTEMD_TEXT_ROOM - 1);
    if (!take_value(&in, err))
        return false;
    skip_blanks(&in);
    return (*in.at == '\0' || fail(&in, err, "more than one value")) && convert_seconds(property, err);
}
