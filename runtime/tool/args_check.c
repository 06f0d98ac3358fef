#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "runtime/tool/args_parts.h"

struct check {
    const char *keyword;
    bool (*holds)(const json_t *limit,
                  const json_t *value);    /* also true where it says nothing of the value */
    bool (*is_right)(const json_t *limit); /* what the schema has to have there */
    const char *text;
};

/* -1, 0 or 1; integers compare without rounding. */
static int compare(const json_t *a, const json_t *b) {
    if (json_is_integer(a) && json_is_integer(b)) {
        json_int_t x = json_integer_value(a), y = json_integer_value(b);
        return (x > y) - (x < y);
    }
    double x = json_number_value(a), y = json_number_value(b);
    return (x > y) - (x < y);
}

static bool at_least(const json_t *limit, const json_t *value) {
    return !json_is_number(value) || compare(value, limit) >= 0;
}

static bool at_most(const json_t *limit, const json_t *value) {
    return !json_is_number(value) || compare(value, limit) <= 0;
}

static bool above(const json_t *limit, const json_t *value) {
    return !json_is_number(value) || compare(value, limit) > 0;
}

static bool below(const json_t *limit, const json_t *value) {
    return !json_is_number(value) || compare(value, limit) < 0;
}

static bool is_multiple(const json_t *limit, const json_t *value) {
    if (!json_is_number(value))
        return true;
    if (json_is_integer(value) && json_is_integer(limit))
        return json_integer_value(value) % json_integer_value(limit) == 0;
    double quotient = json_number_value(value) / json_number_value(limit);
    return fabs(quotient - nearbyint(quotient)) <=
           1e-9 * fmax(1, fabs(quotient)); /* 0.3 is three times 0.1 */
}

static size_t characters(const json_t *text) {
    size_t count = 0;
    const char *data = json_string_value(text);
    for (size_t i = 0; i < json_string_length(text); i++)
        count += ((unsigned char)data[i] & 0xC0) != 0x80;
    return count;
}

/* A size that JSON Schema counts, where the value has one. */
static bool size_of(const json_t *value, json_type type, json_int_t *size) {
    if (json_typeof(value) != type)
        return false;
    *size = (json_int_t)(type == JSON_STRING  ? characters(value)
                         : type == JSON_ARRAY ? json_array_size(value)
                                              : json_object_size(value));
    return true;
}

static bool has_least(const json_t *limit, const json_t *value, json_type type) {
    json_int_t size;
    return !size_of(value, type, &size) || size >= json_integer_value(limit);
}

static bool has_most(const json_t *limit, const json_t *value, json_type type) {
    json_int_t size;
    return !size_of(value, type, &size) || size <= json_integer_value(limit);
}

static bool min_length(const json_t *limit, const json_t *value) {
    return has_least(limit, value, JSON_STRING);
}

static bool max_length(const json_t *limit, const json_t *value) {
    return has_most(limit, value, JSON_STRING);
}

static bool min_items(const json_t *limit, const json_t *value) {
    return has_least(limit, value, JSON_ARRAY);
}

static bool max_items(const json_t *limit, const json_t *value) {
    return has_most(limit, value, JSON_ARRAY);
}

static bool min_members(const json_t *limit, const json_t *value) {
    return has_least(limit, value, JSON_OBJECT);
}

static bool max_members(const json_t *limit, const json_t *value) {
    return has_most(limit, value, JSON_OBJECT);
}

static bool same(const json_t *a, const json_t *b) {
    return json_is_number(a) && json_is_number(b) ? compare(a, b) == 0 : json_equal(a, b) != 0;
}

static bool is_listed(const json_t *list, const json_t *value) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (same(json_array_get(list, i), value))
            return true;
    return false;
}

static bool is_constant(const json_t *constant, const json_t *value) {
    return same(constant, value);
}

static bool is_number(const json_t *limit) {
    return json_is_number(limit);
}

static bool is_positive(const json_t *limit) {
    return json_is_number(limit) && json_number_value(limit) > 0;
}

static bool is_count(const json_t *limit) {
    return json_is_integer(limit) && json_integer_value(limit) >= 0;
}

static bool is_list(const json_t *limit) {
    return json_is_array(limit);
}

static bool is_anything(const json_t *limit) {
    return limit != NULL;
}

static const struct check checks[] = {
    {"enum",             is_listed,   is_list,     "is none of the values that are listed"   },
    {"const",            is_constant, is_anything, "isn't the only value allowed"            },
    {"minimum",          at_least,    is_number,   "must be at least"                        },
    {"maximum",          at_most,     is_number,   "must be at most"                         },
    {"exclusiveMinimum", above,       is_number,   "must be more than"                       },
    {"exclusiveMaximum", below,       is_number,   "must be less than"                       },
    {"multipleOf",       is_multiple, is_positive, "must be a multiple of"                   },
    {"minLength",        min_length,  is_count,    "must have at least this many characters:"},
    {"maxLength",        max_length,  is_count,    "must have at most this many characters:" },
    {"minItems",         min_items,   is_count,    "must have at least this many items:"     },
    {"maxItems",         max_items,   is_count,    "must have at most this many items:"      },
    {"minProperties",    min_members, is_count,    "must have at least this many members:"   },
    {"maxProperties",    max_members, is_count,    "must have at most this many members:"    },
};

static bool fail_check(struct pin_args_walk *walk, const struct check *check, const json_t *limit) {
    char text[200], *value = json_dumps(limit, JSON_ENCODE_ANY | JSON_COMPACT);
    (void)snprintf(text, sizeof(text), "the argument %s %.120s", check->text, value != NULL ? value : "");
    free(value);
    return pin_args_fault(walk, PIN_ERROR_INVALID, text);
}

bool pin_args_check(struct pin_args_walk *walk, json_t *schema, const json_t *value) {
    for (size_t i = 0; i < PIN_COUNT(checks); i++) {
        const json_t *limit = json_object_get(schema, checks[i].keyword);
        if (limit == NULL)
            continue;
        if (!checks[i].is_right(limit)) {
            char text[120];
            (void)snprintf(text, sizeof(text), "the schema's '%s' has a wrong type", checks[i].keyword);
            return pin_args_fault(walk, PIN_ERROR_INVALID, text);
        }
        if (!checks[i].holds(limit, value))
            return fail_check(walk, &checks[i], limit);
    }
    return true;
}

/* What other files read, and what says nothing about which values are right. "format" is an annotation
 * unless a vocabulary says otherwise (JSON Schema 2020-12, validation, 7.2.1). */
static const char *const plain_keywords[] = {
    "type",        "properties", "required",     "additionalProperties",
    "items",       "anyOf",      "oneOf",        "allOf",
    "$ref",        "nullable",   "title",        "description",
    "default",     "examples",   "example",      "format",
    "$schema",     "$id",        "$comment",     "$defs",
    "definitions", "readOnly",   "writeOnly",    "strict",
    "deprecated",  "name",       "discriminator"};

static bool is_known(const char *keyword) {
    if (pin_name_find(plain_keywords, PIN_COUNT(plain_keywords), keyword) >= 0 ||
        strncmp(keyword, "x-", 2) == 0)
        return true;
    for (size_t i = 0; i < PIN_COUNT(checks); i++)
        if (strcmp(checks[i].keyword, keyword) == 0)
            return true;
    return false;
}

bool pin_args_known_keywords(struct pin_args_walk *walk, json_t *schema) {
    const char *keyword;
    json_t *ignored;
    json_object_foreach(schema, keyword, ignored) {
        if (is_known(keyword))
            continue;
        char text[160];
        (void)snprintf(text, sizeof(text), "the schema's keyword '%.60s' can't be checked here", keyword);
        return pin_args_fault(walk, PIN_ERROR_UNSUPPORTED, text);
    }
    return true;
}
