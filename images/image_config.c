#include "images/image_config.h"

#include <stddef.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "images/image_name.h"

/* The simple fields of a record, read and written by one table. */
enum field_type { FIELD_TEXT, FIELD_DIGEST, FIELD_SIZE, FIELD_TEXTS };

struct field {
    const char *key;
    enum field_type type;
    bool required;
    size_t offset, count_offset;
};

#define AT(member) offsetof(struct pin_image_config, member)
static const struct field fields[] = {
    {"manifest",       FIELD_DIGEST, true,  AT(manifest),       0                   },
    {"manifest_type",  FIELD_TEXT,   true,  AT(manifest_type),  0                   },
    {"manifest_bytes", FIELD_SIZE,   true,  AT(manifest_bytes), 0                   },
    {"index",          FIELD_DIGEST, false, AT(index),          0                   },
    {"config",         FIELD_DIGEST, true,  AT(config),         0                   },
    {"config_bytes",   FIELD_SIZE,   true,  AT(config_bytes),   0                   },
    {"architecture",   FIELD_TEXT,   false, AT(architecture),   0                   },
    {"os",             FIELD_TEXT,   false, AT(os),             0                   },
    {"variant",        FIELD_TEXT,   false, AT(variant),        0                   },
    {"created",        FIELD_TEXT,   false, AT(created),        0                   },
    {"author",         FIELD_TEXT,   false, AT(author),         0                   },
    {"user",           FIELD_TEXT,   true,  AT(user),           0                   },
    {"workdir",        FIELD_TEXT,   true,  AT(workdir),        0                   },
    {"stop_signal",    FIELD_TEXT,   false, AT(stop_signal),    0                   },
    {"env",            FIELD_TEXTS,  false, AT(env),            AT(env_count)       },
    {"entrypoint",     FIELD_TEXTS,  false, AT(entrypoint),     AT(entrypoint_count)},
    {"command",        FIELD_TEXTS,  false, AT(command),        AT(command_count)   },
    {"volumes",        FIELD_TEXTS,  false, AT(volumes),        AT(volume_count)    },
    {"ports",          FIELD_TEXTS,  false, AT(ports),          AT(port_count)      },
    {"signatures",     FIELD_TEXTS,  false, AT(signatures),     AT(signature_count) },
    {"signed_by",      FIELD_TEXTS,  false, AT(signed_by),      AT(signed_by_count) },
};
#undef AT

static bool wrong(const char *key, struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_SYNTAX, "the image's record has no good '%s'", key);
    return pin_hint(err, "see 'pinfold image verify'; import or pull the image again");
}

static bool read_texts(struct pin_arena *arena, const json_t *array, const char ***items, size_t *count) {
    size_t size = json_array_size(array);
    const char **texts = pin_arena_array(arena, size + 1, sizeof(*texts));
    for (size_t i = 0; i < size; i++) {
        const json_t *item = json_array_get(array, i);
        if (!json_is_string(item))
            return false;
        texts[i] = pin_arena_strdup(arena, json_string_value(item));
    }
    *items = texts;
    *count = size;
    return true;
}

static bool read_text(struct pin_arena *arena, const json_t *value, bool digest, const char **text) {
    if (!json_is_string(value) || (digest && !pin_image_is_digest(json_string_value(value))))
        return false;
    *text = pin_arena_strdup(arena, json_string_value(value));
    return true;
}

static bool read_size(const json_t *value, uint64_t *size) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *size = (uint64_t)json_integer_value(value);
    return true;
}

static bool read_field(struct pin_arena *arena, const struct field *field, const json_t *value,
                       struct pin_image_config *config) {
    char *at = (char *)config + field->offset;
    switch (field->type) {
    case FIELD_TEXT: return read_text(arena, value, false, (const char **)(void *)at);
    case FIELD_DIGEST: return read_text(arena, value, true, (const char **)(void *)at);
    case FIELD_SIZE: return read_size(value, (uint64_t *)(void *)at);
    case FIELD_TEXTS:
        return json_is_array(value) && read_texts(arena, value, (const char ***)(void *)at,
                                                  (size_t *)(void *)((char *)config + field->count_offset));
    }
    return false;
}

static bool read_labels(struct pin_arena *arena, json_t *object, struct pin_image_config *config) {
    config->labels = pin_arena_array(arena, json_object_size(object) + 1, sizeof(*config->labels));
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        if (!json_is_string(value))
            return false;
        config->labels[config->label_count++] = (struct pin_image_label){
            pin_arena_strdup(arena, key), pin_arena_strdup(arena, json_string_value(value))};
    }
    return true;
}

static bool read_layers(struct pin_arena *arena, const json_t *array, struct pin_image_config *config) {
    size_t count = json_array_size(array);
    if (!json_is_array(array) || count > PIN_IMAGE_LAYERS_MAX)
        return false;
    config->layers = pin_arena_array(arena, count + 1, sizeof(*config->layers));
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        struct pin_image_layer *layer = &config->layers[i];
        if (!read_text(arena, json_object_get(item, "diff_id"), true, &layer->diff_id) ||
            !read_text(arena, json_object_get(item, "blob"), true, &layer->blob) ||
            !read_text(arena, json_object_get(item, "media_type"), false, &layer->media_type) ||
            !read_size(json_object_get(item, "blob_bytes"), &layer->blob_bytes) ||
            !read_size(json_object_get(item, "unpacked_bytes"), &layer->unpacked_bytes) ||
            !read_size(json_object_get(item, "entries"), &layer->entries))
            return false;
    }
    config->layer_count = count;
    return true;
}

static bool read_history(struct pin_arena *arena, const json_t *array, struct pin_image_config *config) {
    size_t count = json_array_size(array);
    config->history = pin_arena_array(arena, count + 1, sizeof(*config->history));
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        const char *by = json_string_value(json_object_get(item, "created_by"));
        const char *comment = json_string_value(json_object_get(item, "comment"));
        config->history[i] = (struct pin_image_history){
            .created_by = by == NULL ? NULL : pin_arena_strdup(arena, by),
            .comment = comment == NULL ? NULL : pin_arena_strdup(arena, comment),
            .empty_layer = json_is_true(json_object_get(item, "empty_layer")),
        };
    }
    config->history_count = count;
    return true;
}

static bool parse(struct pin_arena *arena, json_t *record, struct pin_image_config *config,
                  struct pin_error *err) {
    if (json_integer_value(json_object_get(record, "pinfold_image")) != 1)
        return wrong("pinfold_image", err);
    for (size_t i = 0; i < PIN_COUNT(fields); i++) {
        const json_t *value = json_object_get(record, fields[i].key);
        if (value == NULL ? fields[i].required : !read_field(arena, &fields[i], value, config))
            return wrong(fields[i].key, err);
    }
    if (!read_labels(arena, json_object_get(record, "labels"), config))
        return wrong("labels", err);
    if (!read_layers(arena, json_object_get(record, "layers"), config))
        return wrong("layers", err);
    return read_history(arena, json_object_get(record, "history"), config) || wrong("history", err);
}

bool pin_image_record_parse(struct pin_arena *arena, const char *data, size_t size,
                            struct pin_image_config *config, struct pin_error *err) {
    json_error_t why;
    json_t *record = json_loadb(data, size, JSON_REJECT_DUPLICATES, &why);
    if (record == NULL) {
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "the image's record isn't JSON: %s", why.text);
        return pin_hint(err, "see 'pinfold image verify'; import or pull the image again");
    }
    struct pin_image_config parsed = {0};
    bool good = parse(arena, record, &parsed, err);
    json_decref(record);
    if (good)
        *config = parsed;
    return good;
}

static json_t *print_texts(const char *const *texts, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(array, json_string(texts[i]));
    return array;
}

static json_t *print_field(const struct field *field, const struct pin_image_config *config) {
    const char *at = (const char *)config + field->offset;
    switch (field->type) {
    case FIELD_TEXT:
    case FIELD_DIGEST: {
        const char *text = *(const char *const *)(const void *)at;
        return text == NULL ? NULL : json_string(text);
    }
    case FIELD_SIZE: return json_integer((json_int_t) * (const uint64_t *)(const void *)at);
    case FIELD_TEXTS:
        return print_texts(*(const char *const *const *)(const void *)at,
                           *(const size_t *)(const void *)((const char *)config + field->count_offset));
    }
    return NULL;
}

static json_t *print_layers(const struct pin_image_config *config) {
    json_t *array = json_array();
    for (size_t i = 0; i < config->layer_count; i++) {
        const struct pin_image_layer *layer = &config->layers[i];
        (void)json_array_append_new(
            array, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "diff_id", layer->diff_id, "blob", layer->blob,
                             "media_type", layer->media_type, "blob_bytes", (json_int_t)layer->blob_bytes,
                             "unpacked_bytes", (json_int_t)layer->unpacked_bytes, "entries",
                             (json_int_t)layer->entries));
    }
    return array;
}

static json_t *print_history(const struct pin_image_config *config) {
    json_t *array = json_array();
    for (size_t i = 0; i < config->history_count; i++) {
        const struct pin_image_history *step = &config->history[i];
        (void)json_array_append_new(array,
                                    json_pack("{s:s*, s:s*, s:b}", "created_by", step->created_by, "comment",
                                              step->comment, "empty_layer", step->empty_layer));
    }
    return array;
}

char *pin_image_record_print(const struct pin_image_config *config, struct pin_error *err) {
    json_t *record = json_pack("{s:i}", "pinfold_image", 1);
    for (size_t i = 0; i < PIN_COUNT(fields); i++) {
        json_t *value = print_field(&fields[i], config);
        if (value != NULL)
            (void)json_object_set_new(record, fields[i].key, value);
    }
    json_t *labels = json_object();
    for (size_t i = 0; i < config->label_count; i++)
        (void)json_object_set_new(labels, config->labels[i].key, json_string(config->labels[i].value));
    (void)json_object_set_new(record, "labels", labels);
    (void)json_object_set_new(record, "layers", print_layers(config));
    (void)json_object_set_new(record, "history", print_history(config));
    char *text = json_dumps(record, JSON_INDENT(2));
    json_decref(record);
    if (text == NULL)
        (void)pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to print the image's record");
    return text;
}
