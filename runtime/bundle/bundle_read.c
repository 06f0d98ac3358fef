#include "runtime/bundle/bundle_read.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/text.h"
#include "runtime/bundle/big_numbers.h"
#include "runtime/bundle/bundle_annotations.h"
#include "runtime/bundle/bundle_table.h"

#define FAULT(reader, node, hint, ...)                                                                       \
    pin_json_fault(&(reader)->source, node, (reader)->found, hint, __VA_ARGS__)

static const char *const type_names[] = {
    [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "a list",       [JSON_STRING] = "a string",
    [JSON_INTEGER] = "an integer", [JSON_TRUE] = "true or false",
};

bool pin_bundle_expect(struct pin_bundle_reader *reader, const struct pin_json *node, json_type type) {
    json_type is = json_typeof(node->value);
    uint64_t value;
    bool big = pin_big_numbers_find(reader->bigs, reader->big_count, node->line, node->column, &value);
    if (!big && (is == type || (type == JSON_TRUE && is == JSON_FALSE)))
        return true;
    FAULT(reader, node, NULL, "must be %s, not %s", type_names[type],
          big ? "an integer" : pin_json_type_name(node->value));
    return false;
}

const char *pin_bundle_read_text(struct pin_bundle_reader *reader, const struct pin_json *node) {
    if (!pin_bundle_expect(reader, node, JSON_STRING))
        return NULL;
    if (json_string_length(node->value) >= PIN_BUNDLE_TEXT_MAX) {
        FAULT(reader, node, NULL, "longer than %zu bytes", PIN_BUNDLE_TEXT_MAX - 1);
        return NULL;
    }
    return pin_arena_strdup(reader->arena, json_string_value(node->value));
}

static bool read_integer(struct pin_bundle_reader *reader, const struct pin_json *node, int64_t min,
                         uint64_t max, uint64_t *value) {
    uint64_t big;
    if (pin_big_numbers_find(reader->bigs, reader->big_count, node->line, node->column, &big)) {
        if (big <= max) {
            *value = big;
            return true;
        }
        FAULT(reader, node, NULL, "must be at most %llu", (unsigned long long)max);
        return false;
    }
    if (!pin_bundle_expect(reader, node, JSON_INTEGER))
        return false;
    json_int_t number = json_integer_value(node->value);
    if (number < min || (number > 0 && (uint64_t)number > max)) {
        FAULT(reader, node, NULL, "must be from %lld to %llu, not %lld", (long long)min,
              (unsigned long long)max, (long long)number);
        return false;
    }
    *value = (uint64_t)number;
    return true;
}

static void store(void *place, size_t size, uint64_t value) {
    switch (size) { /* the low bytes of a number are the number in every smaller width that it fits */
    case 2: memcpy(place, &(uint16_t){(uint16_t)value}, 2); break;
    case 4: memcpy(place, &(uint32_t){(uint32_t)value}, 4); break;
    case 8: memcpy(place, &value, 8); break;
    default: abort();
    }
}

static void read_number(struct pin_bundle_reader *reader, const struct pin_json *node,
                        const struct pin_bundle_row *row, void *place) {
    uint64_t value;
    if (read_integer(reader, node, row->min, row->max, &value))
        store(place, row->size, value);
}

static void read_limit(struct pin_bundle_reader *reader, const struct pin_json *node, uint64_t *place) {
    uint64_t value;
    if (read_integer(reader, node, -1, UINT64_MAX, &value))
        *place = value; /* -1 is PIN_UNLIMITED */
}

static void read_digits(struct pin_bundle_reader *reader, const struct pin_json *node, const char **place) {
    uint64_t value;
    if (read_integer(reader, node, 0, UINT64_MAX, &value))
        *place = pin_arena_printf(reader->arena, "%llu", (unsigned long long)value);
}

static void read_char(struct pin_bundle_reader *reader, const struct pin_json *node, const char *letters,
                      char *place) {
    const char *text = pin_bundle_read_text(reader, node);
    if (text == NULL)
        return;
    if (strlen(text) == 1 && strchr(letters, text[0]) != NULL)
        *place = text[0];
    else
        FAULT(reader, node, NULL, "must be one letter of '%s'", letters);
}

static bool is_word(const struct pin_bundle_row *row, const char *text, unsigned *index) {
    for (unsigned i = 0; i < row->names; i++) {
        if (strcmp(row->name(i), text) == 0) {
            *index = i;
            return true;
        }
    }
    *index = row->alias_of;
    return row->alias != NULL && strcmp(row->alias, text) == 0;
}

static bool find_word(struct pin_bundle_reader *reader, const struct pin_json *node,
                      const struct pin_bundle_row *row, unsigned *index) {
    char shown[80];
    const char *text = pin_bundle_read_text(reader, node);
    if (text == NULL)
        return false;
    if (is_word(row, text, index))
        return true;
    FAULT(reader, node, NULL, "'%s' is no value of '%s'",
          pin_escape(shown, sizeof(shown), text, strlen(text)), row->key);
    return false;
}

static bool expect_list(struct pin_bundle_reader *reader, const struct pin_json *node) {
    if (!pin_bundle_expect(reader, node, JSON_ARRAY))
        return false;
    if (node->count <= PIN_BUNDLE_LIST_MAX)
        return true;
    FAULT(reader, node, NULL, "more than %d items", PIN_BUNDLE_LIST_MAX);
    return false;
}

/* A word that isn't known goes to the row's list of such, where it has one. */
static bool take_word(struct pin_bundle_reader *reader, const struct pin_json *node,
                      const struct pin_bundle_row *row, unsigned char *base, unsigned *index) {
    const char *text = json_string_value(node->value);
    if (row->unknown == 0 || text == NULL || is_word(row, text, index))
        return find_word(reader, node, row, index);
    text = pin_bundle_read_text(reader, node);
    const char **slot = pin_arena_grow(reader->arena, base + row->unknown - 1,
                                       (size_t *)(void *)(base + row->count - 1), sizeof(*slot));
    *slot = text;
    return false;
}

static void read_set(struct pin_bundle_reader *reader, const struct pin_json *node,
                     const struct pin_bundle_row *row, unsigned char *base) {
    uint64_t bits = 0;
    unsigned index;
    if (!expect_list(reader, node))
        return;
    for (const struct pin_json *item = node->first; item != NULL; item = item->next)
        if (take_word(reader, item, row, base, &index))
            bits |= UINT64_C(1) << index;
    store(base + row->offset, row->size, bits);
}

static int hex_value(char digit) {
    return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static void read_digest(struct pin_bundle_reader *reader, const struct pin_json *node, uint8_t *place) {
    const char *text = pin_bundle_read_text(reader, node);
    uint8_t digest[PIN_SHA256_SIZE];
    if (text == NULL)
        return;
    bool right = strlen(text) == 7 + 2 * sizeof(digest) && strncmp(text, "sha256:", 7) == 0;
    for (size_t i = 0; right && i < sizeof(digest); i++) {
        int high = hex_value(text[7 + 2 * i]), low = hex_value(text[8 + 2 * i]);
        right = high >= 0 && low >= 0;
        digest[i] = (uint8_t)(right ? high * 16 + low : 0);
    }
    if (right)
        memcpy(place, digest, sizeof(digest));
    else
        FAULT(reader, node, "write 'sha256:' and 64 hexadecimal digits", "this is no digest");
}

/* Room for `count` items, as pin_arena_grow() would have left it: a list that was read may grow. */
static void *make_list(struct pin_bundle_reader *reader, size_t count, size_t size) {
    size_t room = 8;
    while (room < count)
        room *= 2;
    return pin_arena_array(reader->arena, room, size);
}

static void read_texts(struct pin_bundle_reader *reader, const struct pin_json *node, const char ***place,
                       size_t *count) {
    if (!expect_list(reader, node))
        return;
    const char **list = make_list(reader, node->count, sizeof(*list));
    size_t used = 0;
    for (const struct pin_json *item = node->first; item != NULL; item = item->next) {
        const char *text = pin_bundle_read_text(reader, item);
        if (text != NULL)
            list[used++] = text;
    }
    *place = list;
    *count = used;
}

static void read_ids(struct pin_bundle_reader *reader, const struct pin_json *node, uint32_t **place,
                     size_t *count) {
    if (!expect_list(reader, node))
        return;
    uint32_t *list = make_list(reader, node->count, sizeof(*list));
    size_t used = 0;
    uint64_t value;
    for (const struct pin_json *item = node->first; item != NULL; item = item->next)
        if (read_integer(reader, item, 0, UINT32_MAX, &value))
            list[used++] = (uint32_t)value;
    *place = list;
    *count = used;
}

static void read_pairs(struct pin_bundle_reader *reader, const struct pin_json *node, struct pin_pair **place,
                       size_t *count) {
    if (!pin_bundle_expect(reader, node, JSON_OBJECT))
        return;
    if (node->count > PIN_BUNDLE_LIST_MAX) {
        FAULT(reader, node, NULL, "more than %d members", PIN_BUNDLE_LIST_MAX);
        return;
    }
    struct pin_pair *list = make_list(reader, node->count, sizeof(*list));
    size_t used = 0;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        const char *text = child->value == NULL ? NULL : pin_bundle_read_text(reader, child);
        if (text != NULL)
            list[used++] = (struct pin_pair){pin_arena_strdup(reader->arena, child->key), text};
    }
    *place = list;
    *count = used;
}

static void read_list(struct pin_bundle_reader *reader, const struct pin_json *node,
                      const struct pin_bundle_row *row, void **place, size_t *count) {
    if (!expect_list(reader, node))
        return;
    unsigned char *list = make_list(reader, node->count, row->size);
    for (const struct pin_json *item = node->first; item != NULL; item = item->next)
        pin_bundle_read_object(reader, item, row->table, list + item->index * row->size);
    *place = list;
    *count = node->count;
}

/* Whether the value asks for nothing: 0, -1, false, and what is empty. */
static bool asks_nothing(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_INTEGER: return json_integer_value(value) == 0 || json_integer_value(value) == -1;
    case JSON_ARRAY: return json_array_size(value) == 0;
    case JSON_OBJECT: return json_object_size(value) == 0;
    case JSON_STRING: return json_string_length(value) == 0;
    case JSON_REAL:
    case JSON_TRUE: return false;
    case JSON_FALSE:
    case JSON_NULL: return true;
    }
    return false;
}

static void refuse(struct pin_bundle_reader *reader, const struct pin_json *node,
                   const struct pin_bundle_row *row) {
    struct pin_findings *found = reader->found;
    FAULT(reader, node, row->note, "'%s' is not offered", row->key);
    if (found->dropped == 0)
        found->list[found->count - 1].kind = PIN_ERROR_UNSUPPORTED;
}

/* Where the length of a list goes. A list without one would be lost unseen. */
static size_t *count_of(const struct pin_bundle_row *row, unsigned char *bytes) {
    if (row->count == 0)
        abort();
    return (size_t *)(void *)(bytes + row->count - 1);
}

static void read_row(struct pin_bundle_reader *reader, const struct pin_json *node,
                     const struct pin_bundle_row *row, void *base) {
    unsigned char *bytes = base;
    void *place = bytes + row->offset;
    size_t before = reader->found->count + reader->found->dropped;
    unsigned choice;
    const char *text;
    switch (row->type) {
    case PIN_ROW_TEXT:
        text = pin_bundle_read_text(reader, node);
        memcpy(place, &text, sizeof(text));
        break;
    case PIN_ROW_FLAG:
        if (pin_bundle_expect(reader, node, JSON_TRUE))
            *(bool *)place = json_is_true(node->value);
        break;
    case PIN_ROW_NUMBER: read_number(reader, node, row, place); break;
    case PIN_ROW_LIMIT: read_limit(reader, node, place); break;
    case PIN_ROW_DIGITS: read_digits(reader, node, place); break;
    case PIN_ROW_CHAR: read_char(reader, node, row->letters, place); break;
    case PIN_ROW_CHOICE:
        if (find_word(reader, node, row, &choice))
            store(place, sizeof(choice), choice);
        break;
    case PIN_ROW_SET: read_set(reader, node, row, bytes); break;
    case PIN_ROW_DIGEST: read_digest(reader, node, place); break;
    case PIN_ROW_TEXTS: read_texts(reader, node, place, count_of(row, bytes)); break;
    case PIN_ROW_IDS: read_ids(reader, node, place, count_of(row, bytes)); break;
    case PIN_ROW_PAIRS: read_pairs(reader, node, place, count_of(row, bytes)); break;
    case PIN_ROW_LIST: read_list(reader, node, row, place, count_of(row, bytes)); break;
    case PIN_ROW_OBJECT: pin_bundle_read_object(reader, node, row->table, place); break;
    case PIN_ROW_CODEC: row->codec->read(reader, node, base); break;
    case PIN_ROW_NOTHING:
        if (!asks_nothing(node->value))
            refuse(reader, node, row);
        break;
    case PIN_ROW_REFUSED: refuse(reader, node, row); break;
    }
    if (row->has > 0 && reader->found->count + reader->found->dropped == before)
        *(bool *)(bytes + row->has - 1) = true;
}

static const struct pin_bundle_row *find_row(const struct pin_bundle_table *table, const char *key) {
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].key, key) == 0)
            return &table->rows[i];
    return NULL;
}

static void refuse_unknown(struct pin_bundle_reader *reader, const struct pin_json *child,
                           const struct pin_bundle_table *table) {
    const char *names[32], *near;
    char shown[64], hint[96];
    size_t count = table->count < PIN_COUNT(names) ? table->count : PIN_COUNT(names);
    for (size_t i = 0; i < count; i++)
        names[i] = table->rows[i].key;
    near = pin_name_suggest(names, count, child->key);
    if (near != NULL)
        (void)snprintf(hint, sizeof(hint), "did you mean '%s'?", near);
    pin_json_fault_key(&reader->source, child, reader->found, near != NULL ? hint : NULL,
                       "the key '%s' is not known here",
                       pin_escape(shown, sizeof(shown), child->key, strlen(child->key)));
}

static bool has_key(const struct pin_json *node, const char *key) {
    const struct pin_json *member = pin_json_member(node, key);
    return member != NULL && !json_is_null(member->value);
}

void pin_bundle_read_object(struct pin_bundle_reader *reader, const struct pin_json *node,
                            const struct pin_bundle_table *table, void *base) {
    if (!pin_bundle_expect(reader, node, JSON_OBJECT))
        return;
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].absent != 0)
            memcpy((char *)base + table->rows[i].offset, &table->rows[i].absent, sizeof(int64_t));
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        const struct pin_bundle_row *row = find_row(table, child->key);
        if (row == NULL)
            refuse_unknown(reader, child, table);
        else if (child->value != NULL && !json_is_null(child->value))
            read_row(reader, child, row, base);
    }
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].required && !has_key(node, table->rows[i].key))
            FAULT(reader, node, NULL, "the key '%s' is missing", table->rows[i].key);
}

static bool parse(struct pin_bundle *bundle, const char *file, const char *text, size_t size,
                  const struct pin_bundle_table *table, void *base, struct pin_findings *found) {
    size_t before = found->count + found->dropped;
    if (size > PIN_BUNDLE_BYTES_MAX) {
        (void)pin_find(found, PIN_ERROR_INVALID, file, NULL, "longer than %zu bytes", PIN_BUNDLE_BYTES_MAX);
        return false;
    }
    struct pin_big_number bigs[PIN_BIG_NUMBERS_MAX];
    PIN_ARENA struct pin_arena scratch = {0};
    char *copy = pin_arena_strndup(&scratch, text, size);
    struct pin_bundle_reader reader = {.arena = &bundle->arena, .found = found, .bigs = bigs};
    reader.big_count = pin_big_numbers_take(copy, size, bigs, PIN_COUNT(bigs));
    if (pin_json_read(&reader.source, file, copy, size, found))
        pin_bundle_read_object(&reader, reader.source.root, table, base);
    pin_json_free(&reader.source);
    return found->count + found->dropped == before;
}

/* The default action's errno, as that of a rule: bundle_codec_seccomp.c. */
static void complete_filter(const char *file, struct pin_filter *filter, struct pin_findings *found) {
    bool gives = pin_filter_gives_errno(filter->default_action);
    if (!filter->present)
        return;
    if (gives && !filter->has_default_error)
        filter->default_error = EPERM;
    if (!gives && filter->has_default_error)
        (void)pin_find(found, PIN_ERROR_INVALID, file, "leave /linux/seccomp/defaultErrnoRet out",
                       "the action '%s' gives no errno", pin_filter_action_name(filter->default_action));
}

static void check_version(const char *file, const struct pin_bundle *bundle, struct pin_findings *found) {
    if (bundle->oci_version != NULL && strncmp(bundle->oci_version, "1.", 2) != 0)
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, file, "write a version 1.x",
                       "'ociVersion' is not a version 1 of the specification");
}

struct pin_bundle *pin_bundle_parse(const char *file, const char *text, size_t size,
                                    struct pin_findings *found) {
    size_t before = found->count + found->dropped;
    struct pin_bundle *bundle = pin_bundle_new();
    if (parse(bundle, file, text, size, &pin_bundle_fields, bundle, found)) {
        check_version(file, bundle, found);
        complete_filter(file, &bundle->seccomp, found);
        pin_bundle_read_annotations(bundle, found);
    }
    if (found->count + found->dropped == before)
        return bundle;
    pin_bundle_free(bundle);
    return NULL;
}

struct pin_bundle *pin_bundle_read(const char *directory, struct pin_findings *found) {
    struct pin_error err = {0};
    char absolute[PATH_MAX];
    size_t size;
    if (realpath(directory, absolute) == NULL) {
        (void)pin_fail_errno(&err, "open the bundle '%s'", directory);
        (void)pin_point(&err, "%s", directory);
        (void)pin_hint(&err, "name a directory that holds a config.json");
        pin_find_error(found, &err);
        return NULL;
    }
    PIN_CLOSE int folder = open(absolute, O_PATH | O_DIRECTORY | O_CLOEXEC);
    PIN_FREE char *text = NULL;
    if (folder < 0)
        (void)pin_fail_errno(&err, "open the bundle '%s'", directory);
    else
        text = pin_read_file_at(folder, "config.json", PIN_BUNDLE_BYTES_MAX, &size, &err);
    if (text == NULL) {
        (void)pin_wrap(&err, "read the bundle");
        err.pointer[0] = '\0'; /* where it is for the caller, who gave the directory */
        (void)pin_point(&err, "%s/config.json", directory);
        if (err.os_errno == ENOENT || err.os_errno == ENOTDIR)
            (void)pin_hint(&err, "name a directory that holds a config.json");
        pin_find_error(found, &err);
        return NULL;
    }
    struct pin_bundle *bundle = pin_bundle_parse("config.json", text, size, found);
    if (bundle == NULL)
        return NULL;
    bundle->directory = pin_arena_strdup(&bundle->arena, absolute);
    bundle->text = pin_arena_strndup(&bundle->arena, text, size);
    bundle->text_size = size;
    return bundle;
}

bool pin_bundle_parse_process(struct pin_bundle *bundle, const char *file, const char *text, size_t size,
                              struct pin_findings *found) {
    return parse(bundle, file, text, size, &pin_bundle_process_fields, bundle, found);
}

bool pin_bundle_parse_resources(struct pin_bundle *bundle, const char *file, const char *text, size_t size,
                                struct pin_findings *found) {
    return parse(bundle, file, text, size, &pin_bundle_resources_fields, &bundle->resources, found);
}
