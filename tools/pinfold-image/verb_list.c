/* `pinfold image ls`, `pinfold image show`. */
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "images/image_resolve.h"
#include "images/store/layer_store.h"
#include "images/store/store_list.h"
#include "tools/pinfold-image/notes.h"
#include "tools/pinfold-image/verbs.h"

struct list_values {
    bool json;
};

static const struct pin_option list_options[] = {
    {"json", 0, PIN_OPTION_FLAG, offsetof(struct list_values, json), NULL, "print JSON", NULL},
};

const char *safe(const char *text) {
    static char shown[4096];
    return pin_escape(shown, sizeof(shown), text, strlen(text));
}

void print_object(json_t *object) {
    (void)json_dumpf(object, stdout, JSON_COMPACT);
    (void)fputc('\n', stdout);
    json_decref(object);
}

static json_t *texts(const char *const *items, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, json_string(items[i]));
    return list;
}

static json_t *layer_list(const struct pin_image_config *image) {
    json_t *list = json_array();
    for (size_t i = 0; i < image->layer_count; i++) {
        const struct pin_image_layer *layer = &image->layers[i];
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "diff_id", layer->diff_id, "blob", layer->blob,
                            "media_type", layer->media_type, "blob_bytes", (json_int_t)layer->blob_bytes,
                            "unpacked_bytes", (json_int_t)layer->unpacked_bytes, "entries",
                            (json_int_t)layer->entries));
    }
    return list;
}

static json_t *history_list(const struct pin_image_config *image) {
    json_t *list = json_array();
    for (size_t i = 0; i < image->history_count; i++)
        (void)json_array_append_new(
            list, json_pack("{s:s?, s:s?, s:b}", "created_by", image->history[i].created_by, "comment",
                            image->history[i].comment, "empty_layer", image->history[i].empty_layer));
    return list;
}

static uint64_t blob_bytes(const struct pin_image_config *image) {
    uint64_t sum = image->manifest_bytes + image->config_bytes;
    for (size_t i = 0; i < image->layer_count; i++)
        sum += image->layers[i].blob_bytes;
    return sum;
}

static uint64_t unpacked_bytes(const struct pin_image_config *image) {
    uint64_t sum = 0;
    for (size_t i = 0; i < image->layer_count; i++)
        sum += image->layers[i].unpacked_bytes;
    return sum;
}

static json_t *image_object(const struct pin_image_config *image) {
    json_t *labels = json_object();
    for (size_t i = 0; i < image->label_count; i++)
        (void)json_object_set_new(labels, image->labels[i].key, json_string(image->labels[i].value));
    json_t *config = json_pack(
        "{s:s, s:s, s:s?, s:o, s:o, s:o, s:o, s:o, s:o}", "user", image->user, "workdir", image->workdir,
        "stop_signal", image->stop_signal, "env", texts(image->env, image->env_count), "entrypoint",
        texts(image->entrypoint, image->entrypoint_count), "cmd", texts(image->command, image->command_count),
        "volumes", texts(image->volumes, image->volume_count), "ports",
        texts(image->ports, image->port_count), "labels", labels);
    return json_pack(
        "{s:s?, s:s, s:s?, s:s, s:s?, s:s?, s:s?, s:s?, s:s?, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "name",
        image->name, "digest", image->manifest, "index", image->index, "config_digest", image->config,
        "architecture", image->architecture, "os", image->os, "variant", image->variant, "created",
        image->created, "author", image->author, "bytes", (json_int_t)blob_bytes(image), "unpacked_bytes",
        (json_int_t)unpacked_bytes(image), "layers", layer_list(image), "config", config, "history",
        history_list(image), "signed_by", texts(image->signed_by, image->signed_by_count), "notes",
        image_notes(image));
}

int tell_made(const struct pin_image_config *image, bool as_json) {
    if (as_json) {
        print_object(image_object(image));
        return 0;
    }
    json_t *notes = image_notes(image), *note;
    size_t i;
    (void)printf("%s %s\n", safe(image->name), image->manifest);
    (void)fflush(stdout);
    json_array_foreach(notes, i, note)(void) fprintf(stderr, "pinfold: %s\n", json_string_value(note));
    json_decref(notes);
    return 0;
}

static void human_size(char to[PIN_UNITS_TEXT], uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < PIN_COUNT(units); unit++)
        value /= 1024;
    (void)snprintf(to, PIN_UNITS_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

static void time_text(char to[24], int64_t since_s) {
    struct tm broken;
    time_t seconds = since_s;
    if (gmtime_r(&seconds, &broken) == NULL || strftime(to, 24, "%Y-%m-%d %H:%M", &broken) == 0)
        (void)snprintf(to, 24, "?");
}

static json_t *list_object(const struct pin_store_name *name, const struct pin_image_config *image) {
    char text[PIN_IMAGE_TEXT];
    return json_pack("{s:s, s:s, s:s?, s:s?, s:I, s:I, s:i, s:I}", "name",
                     pin_image_name_print(text, &name->name), "digest", name->digest, "os", image->os,
                     "architecture", image->architecture, "bytes", (json_int_t)blob_bytes(image),
                     "unpacked_bytes", (json_int_t)unpacked_bytes(image), "layers", (int)image->layer_count,
                     "since", (json_int_t)name->since_s);
}

static void list_line(const struct pin_store_name *name, const struct pin_image_config *image) {
    char text[PIN_IMAGE_TEXT], size[PIN_UNITS_TEXT], since[24];
    human_size(size, unpacked_bytes(image));
    time_text(since, name->since_s);
    (void)printf("%-40s %.19s  %10s  %3zu  %s\n", pin_image_name_print(text, &name->name), name->digest, size,
                 image->layer_count, since);
}

static bool list_all(const struct pin_image_store *store, struct pin_arena *arena, json_t *json,
                     struct pin_error *err) {
    struct pin_store_names names;
    if (!pin_store_list_names(store, arena, &names, err))
        return false;
    for (size_t i = 0; i < names.count; i++) {
        struct pin_image_config image;
        if (!pin_image_find(store, arena, names.items[i].digest, &image, NULL, err)) {
            char text[PIN_IMAGE_TEXT];
            return pin_wrap(err, "name '%s'", pin_image_name_print(text, &names.items[i].name));
        }
        if (json != NULL)
            (void)json_array_append_new(json, list_object(&names.items[i], &image));
        else
            list_line(&names.items[i], &image);
    }
    return true;
}

/* A store that was never made is an empty one. */
static bool open_existing(struct pin_image_store *store, bool *none, struct pin_error *err) {
    *none = false;
    if (pin_image_store_open(store, false, err))
        return true;
    *none = err->kind == PIN_ERROR_NOT_FOUND;
    if (*none)
        pin_error_clear(err);
    return *none;
}

static int run_ls(const struct pin_invocation *invocation) {
    const struct list_values *values = invocation->values;
    struct pin_error err = {0};
    bool none;
    PIN_ARENA struct pin_arena arena = {0};
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    if (!open_existing(&store, &none, &err))
        return pin_report(&err, values->json);
    json_t *list = values->json ? json_array() : NULL;
    if (list == NULL)
        (void)printf("%-40s %-19s  %10s  %3s  %s\n", "NAME", "DIGEST", "SIZE", "LAY", "SINCE (UTC)");
    if (!none && !list_all(&store, &arena, list, &err)) {
        json_decref(list);
        return pin_report(&err, values->json);
    }
    if (list != NULL)
        print_object(json_pack("{s:o}", "images", list));
    return 0;
}

static void show_texts(const char *title, const char *const *items, size_t count) {
    for (size_t i = 0; i < count; i++)
        (void)printf("%-12s %s\n", i == 0 ? title : "", safe(items[i]));
}

static void show_text(const char *title, const char *text) {
    if (text != NULL && text[0] != '\0')
        (void)printf("%-12s %s\n", title, safe(text));
}

static void show_layers(const struct pin_image_config *image) {
    for (size_t i = 0; i < image->layer_count; i++) {
        char blob[PIN_UNITS_TEXT], unpacked[PIN_UNITS_TEXT];
        human_size(blob, image->layers[i].blob_bytes);
        human_size(unpacked, image->layers[i].unpacked_bytes);
        (void)printf("%-12s %.19s  %10s as it came, %10s unpacked, %llu entries\n", i == 0 ? "layers" : "",
                     image->layers[i].diff_id, blob, unpacked, (unsigned long long)image->layers[i].entries);
    }
    for (size_t i = 0; i < image->history_count; i++)
        if (image->history[i].created_by != NULL)
            (void)printf("%-12s %.120s\n", i == 0 ? "history" : "", safe(image->history[i].created_by));
}

static void show(const struct pin_image_config *image) {
    show_text("name", image->name);
    show_text("digest", image->manifest);
    show_text("index", image->index);
    show_text("platform", image->architecture);
    show_text("created", image->created);
    show_text("author", image->author);
    show_text("user", image->user);
    show_text("workdir", image->workdir);
    show_texts("entrypoint", image->entrypoint, image->entrypoint_count);
    show_texts("cmd", image->command, image->command_count);
    show_texts("env", image->env, image->env_count);
    show_texts("volumes", image->volumes, image->volume_count);
    show_texts("ports", image->ports, image->port_count);
    for (size_t i = 0; i < image->label_count; i++) {
        (void)printf("%-12s %s=", i == 0 ? "labels" : "", safe(image->labels[i].key));
        (void)printf("%s\n", safe(image->labels[i].value));
    }
    show_texts("signed by", image->signed_by, image->signed_by_count);
    show_layers(image);
    json_t *notes = image_notes(image), *note;
    size_t i;
    json_array_foreach(notes, i, note) show_text(i == 0 ? "notes" : "", json_string_value(note));
    json_decref(notes);
}

static int run_show(const struct pin_invocation *invocation) {
    const struct list_values *values = invocation->values;
    struct pin_error err = {0};
    PIN_ARENA struct pin_arena arena = {0};
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    struct pin_image_config image;
    if (!pin_image_store_open(&store, false, &err) ||
        !pin_image_find(&store, &arena, invocation->arguments[0], &image, NULL, &err))
        return pin_report(&err, values->json);
    for (size_t i = 0; i < image.layer_count; i++)
        (void)pin_layer_have(&store, image.layers[i].diff_id, &image.layers[i]);
    if (values->json)
        print_object(image_object(&image));
    else
        show(&image);
    return 0;
}

const struct pin_verb verb_ls = {
    .name = "image ls",
    .synopsis = "",
    .summary = "lists the images of the store",
    .example = "pinfold image ls",
    .options = list_options,
    .option_count = PIN_COUNT(list_options),
    .values_size = sizeof(struct list_values),
    .run = run_ls,
};

const struct pin_verb verb_show = {
    .name = "image show",
    .synopsis = "NAME",
    .summary = "tells what an image is: configuration, layers, sizes, history",
    .example = "pinfold image show python-3.11 --json",
    .options = list_options,
    .option_count = PIN_COUNT(list_options),
    .values_size = sizeof(struct list_values),
    .least_arguments = 1,
    .most_arguments = 1,
    .run = run_show,
};
