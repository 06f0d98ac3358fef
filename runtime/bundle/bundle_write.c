#include "runtime/bundle/bundle_write.h"

#include <stdlib.h>
#include <string.h>

#include "images/rootfs.h"
#include "runtime/bundle/bundle_table.h"

static bool is_zero(const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

static uint64_t load(const void *place, size_t size) {
    uint16_t narrow = 0;
    uint32_t half = 0;
    uint64_t value = 0;
    switch (size) {
    case 2: memcpy(&narrow, place, 2); return narrow;
    case 4: memcpy(&half, place, 4); return half;
    case 8: memcpy(&value, place, 8); return value;
    default: abort();
    }
}

static void write_number(struct pin_json_text *text, const struct pin_bundle_row *row, const void *place) {
    uint64_t value = load(place, row->size);
    if (row->min >= 0)
        pin_json_text_u64(text, value);
    else if (row->size == 4)
        pin_json_text_i64(text, (int32_t)(uint32_t)value);
    else
        pin_json_text_i64(text, (int64_t)value);
}

static bool write_texts(struct pin_json_text *text, const char *const *list, size_t count) {
    pin_json_text_open(text, '[');
    for (size_t i = 0; i < count; i++) {
        struct pin_json_mark mark = pin_json_text_member(text, NULL, i);
        pin_json_text_string(text, list[i]);
        pin_json_text_end(text, &mark);
    }
    pin_json_text_close(text, ']');
    return count > 0;
}

static bool write_ids(struct pin_json_text *text, const uint32_t *list, size_t count) {
    pin_json_text_open(text, '[');
    for (size_t i = 0; i < count; i++) {
        struct pin_json_mark mark = pin_json_text_member(text, NULL, i);
        pin_json_text_u64(text, list[i]);
        pin_json_text_end(text, &mark);
    }
    pin_json_text_close(text, ']');
    return count > 0;
}

static bool write_set(struct pin_json_text *text, const struct pin_bundle_row *row, uint64_t bits) {
    size_t count = 0;
    pin_json_text_open(text, '[');
    for (unsigned i = 0; i < row->names; i++) {
        if ((bits & UINT64_C(1) << i) == 0)
            continue;
        struct pin_json_mark mark = pin_json_text_member(text, NULL, count++);
        pin_json_text_string(text, row->name(i));
        pin_json_text_end(text, &mark);
    }
    pin_json_text_close(text, ']');
    return count > 0;
}

static bool write_pairs(struct pin_json_text *text, const struct pin_pair *list, size_t count) {
    pin_json_text_open(text, '{');
    for (size_t i = 0; i < count; i++) {
        struct pin_json_mark mark = pin_json_text_member(text, list[i].key, i);
        pin_json_text_string(text, list[i].value);
        pin_json_text_end(text, &mark);
    }
    pin_json_text_close(text, '}');
    return count > 0;
}

static bool write_list(struct pin_json_text *text, const struct pin_bundle_row *row,
                       const unsigned char *items, size_t count) {
    pin_json_text_open(text, '[');
    for (size_t i = 0; i < count; i++) {
        struct pin_json_mark mark = pin_json_text_member(text, NULL, i);
        pin_json_text_open(text, '{');
        pin_bundle_write_rows(text, row->table, items + i * row->size);
        pin_json_text_close(text, '}');
        pin_json_text_end(text, &mark);
    }
    pin_json_text_close(text, ']');
    return count > 0;
}

static bool write_object(struct pin_json_text *text, const struct pin_bundle_table *table, const void *base) {
    pin_json_text_open(text, '{');
    size_t empty = text->size;
    pin_bundle_write_rows(text, table, base);
    bool any = text->size > empty;
    pin_json_text_close(text, '}');
    return any;
}

static bool write_digest(struct pin_json_text *text, const uint8_t *digest) {
    char printed[PIN_DIGEST_TEXT];
    pin_json_text_string(text, pin_digest_print(printed, digest));
    return !is_zero(digest, PIN_SHA256_SIZE);
}

static bool write_text(struct pin_json_text *text, const char *value) {
    if (value != NULL)
        pin_json_text_string(text, value);
    return value != NULL;
}

static bool write_char(struct pin_json_text *text, char value) {
    const char letter[2] = {value, '\0'};
    pin_json_text_string(text, letter);
    return value != '\0';
}

static bool write_limit(struct pin_json_text *text, uint64_t value) {
    if (value == PIN_UNLIMITED)
        pin_json_text_i64(text, -1);
    else
        pin_json_text_u64(text, value);
    return value != 0;
}

/* Writes the value; false where it is zero or absent. */
static bool write_value(struct pin_json_text *text, const struct pin_bundle_row *row, const void *base) {
    const unsigned char *bytes = base, *place = bytes + row->offset;
    size_t count = row->count > 0 ? (size_t)load(bytes + row->count - 1, sizeof(size_t)) : 0;
    const void *pointer = NULL;
    unsigned choice = 0;
    switch (row->type) {
    case PIN_ROW_TEXT:
    case PIN_ROW_DIGITS:
    case PIN_ROW_TEXTS:
    case PIN_ROW_IDS:
    case PIN_ROW_PAIRS:
    case PIN_ROW_LIST: memcpy(&pointer, place, sizeof(pointer)); break;
    case PIN_ROW_CHOICE: memcpy(&choice, place, sizeof(choice)); break;
    case PIN_ROW_FLAG:
    case PIN_ROW_NUMBER:
    case PIN_ROW_LIMIT:
    case PIN_ROW_CHAR:
    case PIN_ROW_SET:
    case PIN_ROW_DIGEST:
    case PIN_ROW_OBJECT:
    case PIN_ROW_CODEC:
    case PIN_ROW_NOTHING:
    case PIN_ROW_REFUSED: break;
    }
    switch (row->type) {
    case PIN_ROW_TEXT: return write_text(text, pointer);
    case PIN_ROW_FLAG: pin_json_text_flag(text, *(const bool *)place); return *(const bool *)place;
    case PIN_ROW_NUMBER: write_number(text, row, place); return !is_zero(place, row->size);
    case PIN_ROW_LIMIT: return write_limit(text, load(place, 8));
    case PIN_ROW_DIGITS: pin_json_text_digits(text, pointer); return true;
    case PIN_ROW_CHAR: return write_char(text, *(const char *)place);
    case PIN_ROW_CHOICE: pin_json_text_string(text, row->name(choice)); return choice != 0;
    case PIN_ROW_SET: return write_set(text, row, load(place, row->size));
    case PIN_ROW_DIGEST: return write_digest(text, place);
    case PIN_ROW_TEXTS: return write_texts(text, pointer, count);
    case PIN_ROW_IDS: return write_ids(text, pointer, count);
    case PIN_ROW_PAIRS: return write_pairs(text, pointer, count);
    case PIN_ROW_LIST: return write_list(text, row, pointer, count);
    case PIN_ROW_OBJECT: return write_object(text, row->table, place);
    case PIN_ROW_CODEC: return row->codec->write(text, base);
    case PIN_ROW_NOTHING:
    case PIN_ROW_REFUSED: return false;
    }
    abort();
}

void pin_bundle_write_rows(struct pin_json_text *text, const struct pin_bundle_table *table,
                           const void *base) {
    for (size_t i = 0; i < table->count; i++) {
        const struct pin_bundle_row *row = &table->rows[i];
        bool has = row->has > 0 && *((const bool *)base + row->has - 1);
        if (row->has > 0 && !has)
            continue;
        struct pin_json_mark before = pin_json_text_member(text, row->key, 0);
        bool present = write_value(text, row, base);
        /* a field that is zero and means it is written; so is a required text that is missing, and the reader
         * will say so */
        if (present || has || row->always)
            pin_json_text_end(text, &before);
        else
            pin_json_text_cut(text, &before);
    }
}

static char *finish(struct pin_json_text *text, size_t *size, struct pin_error *err) {
    if (text->bad[0] != '\0') {
        (void)pin_fail(err, PIN_ERROR_INVALID, "a string is not UTF-8, which config.json can't hold");
        (void)pin_point(err, "%s", text->bad);
        (void)pin_hint(err, "write it in UTF-8");
        pin_json_text_free(text);
        return NULL;
    }
    *size = text->size;
    return text->data;
}

char *pin_bundle_print(const struct pin_bundle *bundle, bool pretty, size_t *size, struct pin_error *err) {
    struct pin_json_text text = {.pretty = pretty};
    struct pin_bundle copy = *bundle; /* shallow: only the name of the root is set */
    if (copy.root.path == NULL)
        copy.root.path = "rootfs";
    (void)write_object(&text, &pin_bundle_fields, &copy);
    if (pretty)
        pin_json_text_digits(&text, "\n");
    return finish(&text, size, err);
}
