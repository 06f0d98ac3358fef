#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "policy/checks.h"
#include "policy/reader.h"

static void *slot_of(struct pin_reader *reader, const struct pin_field_row *row) {
    return (char *)reader->policy + row->offset;
}

const char *pin_reader_string(struct pin_reader *reader, const struct pin_json *node) {
    if (!json_is_string(node->value)) {
        pin_reader_expected(reader, node, "a string", PIN_HINT_TEXT);
        return NULL;
    }
    return json_string_value(node->value);
}

/* "'a', 'b' or 'c'" */
static void list_words(char *to, size_t room, const char *const *words, size_t count) {
    size_t used = 0;
    for (size_t i = 0; i < count && used < room; i++) {
        const char *between = i == 0 ? "" : i + 1 == count ? " or " : ", ";
        int length = snprintf(to + used, room - used, "%s'%s'", between, words[i]);
        used += length > 0 ? (size_t)length : 0;
    }
}

int pin_reader_word(struct pin_reader *reader, const struct pin_json *node, const char *const *words,
                    size_t count) {
    const char *text = pin_reader_string(reader, node);
    if (text == NULL)
        return -1;
    int index = pin_name_find(words, count, text);
    if (index >= 0)
        return index;
    char shown[64], hint[160];
    const char *near = pin_name_suggest(words, count, text);
    (void)pin_escape(shown, sizeof(shown), text, strlen(text));
    if (near != NULL)
        (void)snprintf(hint, sizeof(hint), "did you mean '%s'?", near);
    else if (count <= 8)
        list_words(hint, sizeof(hint), words, count);
    else
        (void)snprintf(hint, sizeof(hint), "one such as '%s'", words[0]);
    pin_json_fault(reader->source, node, reader->found, hint, "unknown value '%s'", shown);
    return -1;
}

typedef char *print_unit(char to[PIN_UNITS_TEXT], uint64_t value);

static char *print_count(char to[PIN_UNITS_TEXT], uint64_t value) {
    (void)snprintf(to, PIN_UNITS_TEXT, "%llu", (unsigned long long)value);
    return to;
}

static char *print_millis(char to[PIN_UNITS_TEXT], uint64_t value) {
    return pin_print_cpus(to, (uint32_t)value);
}

static bool in_range(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                     uint64_t value, print_unit *print) {
    if (value >= row->min && value <= row->max)
        return true;
    char shown[PIN_UNITS_TEXT], least[PIN_UNITS_TEXT], most[PIN_UNITS_TEXT], hint[128];
    bool small = value < row->min;
    (void)print(least, row->min);
    (void)print(most, row->max);
    (void)snprintf(hint, sizeof(hint), "from %s to %s%s", least, most,
                   row->unlimited ? ", or \"unlimited\"" : "");
    pin_json_fault(reader->source, node, reader->found, hint, "%s is %s than %s", print(shown, value),
                   small ? "less" : "more", small ? least : most);
    return false;
}

static bool says_unlimited(const struct pin_json *node) {
    return json_is_string(node->value) && strcmp(json_string_value(node->value), "unlimited") == 0;
}

/* Whether the node is "unlimited" and may be; anything else is left to the caller. */
static bool take_unlimited(struct pin_reader *reader, const struct pin_json *node,
                           const struct pin_field_row *row, bool *fault) {
    *fault = false;
    if (!says_unlimited(node))
        return false;
    *fault = !row->unlimited && !reader->site;
    if (*fault)
        pin_json_fault(reader->source, node, reader->found,
                       "name a limit; only a site's file may leave it open", "'%s' can't be unlimited",
                       row->key);
    return !*fault;
}

static bool not_a(struct pin_reader *reader, const struct pin_json *node, const char *what,
                  const char *hint) {
    char shown[64];
    const char *text = json_string_value(node->value);
    (void)pin_escape(shown, sizeof(shown), text, strlen(text));
    pin_json_fault(reader->source, node, reader->found, hint, "'%s' is not %s", shown, what);
    return false;
}

static bool read_integer(struct pin_reader *reader, const struct pin_json *node, uint64_t *value,
                         const char *what, const char *hint) {
    if (!json_is_integer(node->value)) {
        pin_reader_expected(reader, node, what, hint);
        return false;
    }
    json_int_t number = json_integer_value(node->value);
    if (number < 0) {
        pin_json_fault(reader->source, node, reader->found, hint, "%lld is negative", (long long)number);
        return false;
    }
    *value = (uint64_t)number;
    return true;
}

static bool read_size(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                      uint64_t *value) {
    if (json_is_string(node->value)) {
        if (!pin_parse_size(json_string_value(node->value), value))
            return not_a(reader, node, "a size", "a whole number with KiB, MiB, GiB, TiB or nothing");
    } else if (!read_integer(reader, node, value, "a size",
                             "such as \"64MiB\", or a whole number of bytes")) {
        return false;
    }
    return in_range(reader, node, row, *value, pin_print_size);
}

static bool read_time(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                      uint64_t *value) {
    if (!json_is_string(node->value)) {
        pin_reader_expected(reader, node, "a time", "such as \"30s\": a whole number with ms, s, m or h");
        return false;
    }
    if (!pin_parse_time(json_string_value(node->value), value))
        return not_a(reader, node, "a time", "a whole number with ms, s, m or h");
    return in_range(reader, node, row, *value, pin_print_time);
}

/* A JSON number is binary: 0.3 is taken for the thousandth next to it, 0.3333 for none. */
static bool real_to_millis(double real, uint32_t *millis) {
    if (!(real >= 0) || real > 1000000)
        return false;
    uint32_t whole = (uint32_t)(real * 1000 + 0.5); /* no round(3): the hot path loads no libm */
    double off = real * 1000 - whole;
    if (off > 1e-6 || off < -1e-6)
        return false;
    *millis = whole;
    return true;
}

#define HINT_CPUS "such as 2 or \"0.5\""

static bool read_cpus(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                      uint32_t *millis) {
    uint64_t whole = 0;
    if (json_is_string(node->value)) {
        if (!pin_parse_cpus(json_string_value(node->value), millis))
            return not_a(reader, node, "a number of CPUs", HINT_CPUS);
    } else if (json_is_real(node->value)) {
        if (!real_to_millis(json_real_value(node->value), millis)) {
            pin_json_fault(reader->source, node, reader->found, HINT_CPUS,
                           "a number of CPUs has at most three decimals, and is positive");
            return false;
        }
    } else if (!read_integer(reader, node, &whole, "a number of CPUs", HINT_CPUS)) {
        return false;
    } else {
        *millis = whole > 1000000 ? UINT32_MAX : (uint32_t)(whole * 1000);
    }
    return in_range(reader, node, row, *millis, print_millis);
}

#define HINT_COUNT "a whole number without quotes, such as 64"

bool pin_reader_amount(struct pin_reader *reader, const struct pin_json *node,
                       const struct pin_field_row *row, uint64_t *value) {
    bool fault;
    if (take_unlimited(reader, node, row, &fault)) {
        *value = PIN_UNLIMITED;
        return true;
    }
    return !fault &&
           (row->type == PIN_TYPE_SIZE   ? read_size(reader, node, row, value)
            : row->type == PIN_TYPE_TIME ? read_time(reader, node, row, value)
                                         : read_integer(reader, node, value, "a count", HINT_COUNT) &&
                                               in_range(reader, node, row, *value, print_count));
}

static bool store_u64(struct pin_reader *reader, const struct pin_json *node,
                      const struct pin_field_row *row) {
    uint64_t value;
    if (!pin_reader_amount(reader, node, row, &value))
        return false;
    memcpy(slot_of(reader, row), &value, sizeof(value));
    return true;
}

static bool store_u32(struct pin_reader *reader, const struct pin_json *node,
                      const struct pin_field_row *row) {
    uint64_t value;
    if (!read_integer(reader, node, &value, "a number", HINT_COUNT) ||
        !in_range(reader, node, row, value, print_count))
        return false;
    uint32_t id = (uint32_t)value;
    memcpy(slot_of(reader, row), &id, sizeof(id));
    return true;
}

static bool store_cpus(struct pin_reader *reader, const struct pin_json *node,
                       const struct pin_field_row *row) {
    uint32_t millis = 0; /* unlimited */
    bool fault;
    if (!take_unlimited(reader, node, row, &fault) && (fault || !read_cpus(reader, node, row, &millis)))
        return false;
    memcpy(slot_of(reader, row), &millis, sizeof(millis));
    return true;
}

static bool store_flag(struct pin_reader *reader, const struct pin_json *node,
                       const struct pin_field_row *row) {
    if (!json_is_boolean(node->value)) {
        pin_reader_expected(reader, node, "true or false", PIN_HINT_FLAG);
        return false;
    }
    *(bool *)slot_of(reader, row) = json_is_true(node->value);
    return true;
}

static bool store_choice(struct pin_reader *reader, const struct pin_json *node,
                         const struct pin_field_row *row) {
    int index = pin_reader_word(reader, node, row->words, row->word_count);
    if (index < 0)
        return false;
    if (row->type == PIN_TYPE_WORD) {
        *(const char **)slot_of(reader, row) = row->words[index];
        return true;
    }
    unsigned value = (unsigned)index; /* the enumerations are unsigned to both compilers */
    memcpy(slot_of(reader, row), &value, sizeof(value));
    return true;
}

static bool has_control(const char *text) {
    for (; *text != '\0'; text++)
        if (((unsigned char)*text < 0x20 && *text != '\n' && *text != '\t') || *text == 0x7F)
            return true;
    return false;
}

static bool store_text(struct pin_reader *reader, const struct pin_json *node,
                       const struct pin_field_row *row) {
    const char *text = pin_reader_string(reader, node);
    if (text == NULL)
        return false;
    if (row->type == PIN_TYPE_NAME && !pin_is_name(text))
        return not_a(reader, node, "a name", "letters, digits, '_', '.' and '-'; at most 63");
    if (row->type == PIN_TYPE_TEXT && (strlen(text) > row->max || has_control(text))) {
        pin_json_fault(reader->source, node, reader->found, "line ends and tabs may stand in it",
                       "a text has at most %llu bytes and no control characters",
                       (unsigned long long)row->max);
        return false;
    }
    *(const char **)slot_of(reader, row) = pin_arena_strdup(&reader->policy->arena, text);
    return true;
}

static bool store_string(struct pin_reader *reader, const struct pin_json *node,
                         const struct pin_field_row *row) {
    const char *text = NULL;
    if (!(reader->site && json_is_null(node->value))) { /* a site's: any */
        text = pin_reader_string(reader, node);
        const char *why = text == NULL ? NULL : row->check(text, reader->site);
        if (why != NULL)
            pin_json_fault(reader->source, node, reader->found, row->example, "%s", why);
        if (text == NULL || why != NULL)
            return false;
        text = pin_arena_strdup(&reader->policy->arena, text);
    }
    *(const char **)slot_of(reader, row) = text;
    return true;
}

static bool check_version(struct pin_reader *reader, const struct pin_json *node) {
    uint64_t version;
    if (!read_integer(reader, node, &version, "the version of the policy language", "\"pinfold\": 1"))
        return false;
    if (version != PIN_POLICY_VERSION)
        pin_json_fault(reader->source, node, reader->found, "this pinfold reads version 1",
                       "version %llu of the policy language is not known", (unsigned long long)version);
    return false; /* nothing to note the place of */
}

static bool store(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row) {
    switch ((int)row->type) {
    case PIN_TYPE_VERSION: return check_version(reader, node);
    case PIN_TYPE_NAME:
    case PIN_TYPE_TEXT: return store_text(reader, node, row);
    case PIN_TYPE_STRING: return store_string(reader, node, row);
    case PIN_TYPE_SIZE:
    case PIN_TYPE_TIME:
    case PIN_TYPE_COUNT: return store_u64(reader, node, row);
    case PIN_TYPE_ID: return store_u32(reader, node, row);
    case PIN_TYPE_CPUS: return store_cpus(reader, node, row);
    case PIN_TYPE_FLAG: return store_flag(reader, node, row);
    case PIN_TYPE_CHOICE:
    case PIN_TYPE_WORD: return store_choice(reader, node, row);
    default: return false;
    }
}

void pin_reader_value(struct pin_reader *reader, const struct pin_json *node,
                      const struct pin_field_row *row) {
    if (store(reader, node, row))
        reader->policy->places[row->field] = pin_json_place(reader->source, node);
}
