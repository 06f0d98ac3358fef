#include "images/store/oci.h"

#include <string.h>
#include <sys/utsname.h>

#include <jansson.h>

#include "base/names.h"
#include "base/text.h"

static const char *const index_types[] = {"application/vnd.oci.image.index.v1+json",
                                          "application/vnd.docker.distribution.manifest.list.v2+json"};
static const char *const manifest_types[] = {"application/vnd.oci.image.manifest.v1+json",
                                             "application/vnd.docker.distribution.manifest.v2+json"};

bool pin_oci_is_index(const char *media_type) {
    return pin_name_find(index_types, PIN_COUNT(index_types), media_type) >= 0;
}

bool pin_oci_is_manifest(const char *media_type) {
    return pin_name_find(manifest_types, PIN_COUNT(manifest_types), media_type) >= 0;
}

static bool wrong(const char *pointer, const char *why, struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_SYNTAX, "%s", why);
    return pin_point(err, "%s", pointer);
}

static json_t *load(const char *data, size_t size, const char *what, struct pin_error *err) {
    json_error_t why;
    if (size > PIN_OCI_DOCUMENT_MAX) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "the image's %s is larger than %zu bytes", what,
                       PIN_OCI_DOCUMENT_MAX);
        return NULL;
    }
    json_t *document = json_loadb(data, size, JSON_REJECT_DUPLICATES, &why);
    if (document == NULL) {
        char shown[JSON_ERROR_TEXT_LENGTH];
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "the image's %s isn't JSON: %s (line %d)", what,
                       pin_escape(shown, sizeof(shown), why.text, strlen(why.text)), why.line);
    }
    return document;
}

static const char *copy_text(struct pin_arena *arena, const json_t *value) {
    return json_is_string(value) ? pin_arena_strdup(arena, json_string_value(value)) : NULL;
}

static bool read_digest(const json_t *value, char digest[PIN_DIGEST_TEXT]) {
    const char *text = json_string_value(value);
    if (text == NULL || !pin_image_is_digest(text))
        return false;
    memcpy(digest, text, PIN_DIGEST_TEXT);
    return true;
}

static bool read_descriptor(struct pin_arena *arena, const json_t *object, const char *pointer,
                            struct pin_oci_descriptor *descriptor, struct pin_error *err) {
    const json_t *size = json_object_get(object, "size"), *platform = json_object_get(object, "platform"),
                 *notes = json_object_get(object, "annotations");
    descriptor->media_type = copy_text(arena, json_object_get(object, "mediaType"));
    if (descriptor->media_type == NULL)
        return wrong(pointer, "a descriptor has no media type", err);
    if (!read_digest(json_object_get(object, "digest"), descriptor->digest))
        return wrong(pointer, "a descriptor has no SHA-256 digest", err);
    if (!json_is_integer(size) || json_integer_value(size) < 0)
        return wrong(pointer, "a descriptor has no size", err);
    if (json_array_size(json_object_get(object, "urls")) > 0)
        return wrong(pointer, "a descriptor has addresses of its own: foreign layers aren't fetched", err);
    descriptor->size = (uint64_t)json_integer_value(size);
    descriptor->architecture = copy_text(arena, json_object_get(platform, "architecture"));
    descriptor->os = copy_text(arena, json_object_get(platform, "os"));
    descriptor->variant = copy_text(arena, json_object_get(platform, "variant"));
    descriptor->name = copy_text(arena, json_object_get(notes, "org.opencontainers.image.ref.name"));
    descriptor->signature = copy_text(arena, json_object_get(notes, "dev.cosignproject.cosign/signature"));
    return true;
}

static bool read_descriptors(struct pin_arena *arena, const json_t *array, const char *pointer, size_t most,
                             struct pin_oci_descriptor **list, size_t *count, struct pin_error *err) {
    size_t size = json_array_size(array);
    if (!json_is_array(array) || size > most)
        return wrong(pointer, json_is_array(array) ? "the list is too long" : "the list is missing", err);
    *list = pin_arena_array(arena, size + 1, sizeof(**list));
    for (size_t i = 0; i < size; i++) {
        const char *at = pin_arena_printf(arena, "%s/%zu", pointer, i);
        if (!read_descriptor(arena, json_array_get(array, i), at, &(*list)[i], err))
            return false;
    }
    *count = size;
    return true;
}

static bool check_version(const json_t *document, struct pin_error *err) {
    const json_t *version = json_object_get(document, "schemaVersion");
    return (json_is_integer(version) && json_integer_value(version) == 2) ||
           wrong("/schemaVersion", "the schema's version isn't 2", err);
}

/* A document with the parts of both could be taken for one kind by us and for the other by a checker. */
static bool lacks(const json_t *document, const char *const *keys, struct pin_error *err) {
    for (; *keys != NULL; keys++)
        if (json_object_get(document, *keys) != NULL)
            return wrong(*keys, "the document is index and manifest at once", err);
    return true;
}

static bool read_index(struct pin_arena *arena, const json_t *document, struct pin_oci_index *index,
                       struct pin_error *err) {
    static const char *const foreign[] = {"layers", "config", "fsLayers", NULL};
    const char *type = json_string_value(json_object_get(document, "mediaType"));
    if (!check_version(document, err) || !lacks(document, foreign, err))
        return false;
    if (type != NULL && !pin_oci_is_index(type))
        return wrong("/mediaType", "the index says that it is something else", err);
    return read_descriptors(arena, json_object_get(document, "manifests"), "/manifests", PIN_OCI_INDEX_MAX,
                            &index->manifests, &index->count, err);
}

bool pin_oci_index_parse(struct pin_arena *arena, const char *data, size_t size, struct pin_oci_index *index,
                         struct pin_error *err) {
    struct pin_oci_index parsed = {0};
    json_t *document = load(data, size, "index", err);
    bool good = document != NULL && read_index(arena, document, &parsed, err);
    json_decref(document);
    if (good)
        *index = parsed;
    return good;
}

static bool read_manifest(struct pin_arena *arena, const json_t *document, struct pin_oci_manifest *manifest,
                          struct pin_error *err) {
    static const char *const foreign[] = {"manifests", "fsLayers", NULL};
    const char *type = json_string_value(json_object_get(document, "mediaType"));
    if (!check_version(document, err) || !lacks(document, foreign, err))
        return false;
    if (type != NULL && !pin_oci_is_manifest(type))
        return wrong("/mediaType", "the manifest says that it is something else", err);
    manifest->media_type = pin_arena_strdup(arena, type == NULL ? manifest_types[0] : type);
    return read_descriptor(arena, json_object_get(document, "config"), "/config", &manifest->config, err) &&
           read_descriptors(arena, json_object_get(document, "layers"), "/layers", PIN_IMAGE_LAYERS_MAX,
                            &manifest->layers, &manifest->layer_count, err);
}

bool pin_oci_manifest_parse(struct pin_arena *arena, const char *data, size_t size,
                            struct pin_oci_manifest *manifest, struct pin_error *err) {
    struct pin_oci_manifest parsed = {0};
    json_t *document = load(data, size, "manifest", err);
    bool good = document != NULL && read_manifest(arena, document, &parsed, err);
    json_decref(document);
    if (good)
        *manifest = parsed;
    return good;
}

static bool read_list(struct pin_arena *arena, const json_t *value, const char *pointer, const char ***items,
                      size_t *count, struct pin_error *err) {
    if (value == NULL || json_is_null(value))
        return true;
    size_t size = json_array_size(value);
    if (!json_is_array(value))
        return wrong(pointer, "it isn't a list of texts", err);
    *items = pin_arena_array(arena, size + 1, sizeof(**items));
    for (size_t i = 0; i < size; i++)
        if (((*items)[i] = copy_text(arena, json_array_get(value, i))) == NULL)
            return wrong(pointer, "it isn't a list of texts", err);
    *count = size;
    return true;
}

/* Volumes and ports are objects of which only the keys count. */
static bool read_keys(struct pin_arena *arena, json_t *value, const char *pointer, const char ***items,
                      size_t *count, struct pin_error *err) {
    const char *key;
    json_t *ignored;
    if (value == NULL || json_is_null(value))
        return true;
    if (!json_is_object(value))
        return wrong(pointer, "it isn't an object", err);
    *items = pin_arena_array(arena, json_object_size(value) + 1, sizeof(**items));
    json_object_foreach(value, key, ignored)(*items)[(*count)++] = pin_arena_strdup(arena, key);
    return true;
}

static bool read_labels(struct pin_arena *arena, json_t *value, struct pin_image_config *config,
                        struct pin_error *err) {
    const char *key;
    json_t *text;
    if (value == NULL || json_is_null(value))
        return true;
    config->labels = pin_arena_array(arena, json_object_size(value) + 1, sizeof(*config->labels));
    json_object_foreach(value, key, text) {
        struct pin_image_label label = {pin_arena_strdup(arena, key), copy_text(arena, text)};
        if (label.value == NULL)
            return wrong("/config/Labels", "a label isn't a text", err);
        config->labels[config->label_count++] = label;
    }
    return json_is_object(value) || wrong("/config/Labels", "it isn't an object", err);
}

static bool read_text(struct pin_arena *arena, const json_t *object, const char *key, const char *absent,
                      const char **text, struct pin_error *err) {
    const json_t *value = json_object_get(object, key);
    if (value == NULL || json_is_null(value)) {
        *text = absent;
        return true;
    }
    *text = copy_text(arena, value);
    return *text != NULL || wrong(key, "it isn't a text", err);
}

static bool read_environment(struct pin_arena *arena, const json_t *object, struct pin_image_config *config,
                             struct pin_error *err) {
    if (!read_list(arena, json_object_get(object, "Env"), "/config/Env", &config->env, &config->env_count,
                   err))
        return false;
    for (size_t i = 0; i < config->env_count; i++)
        if (config->env[i][0] == '=' || strchr(config->env[i], '=') == NULL)
            return wrong("/config/Env", "a variable isn't 'NAME=VALUE'", err);
    return true;
}

static bool read_execution(struct pin_arena *arena, const json_t *object, struct pin_image_config *config,
                           struct pin_error *err) {
    if (!read_text(arena, object, "User", "", &config->user, err) ||
        !read_text(arena, object, "WorkingDir", "", &config->workdir, err) ||
        !read_text(arena, object, "StopSignal", NULL, &config->stop_signal, err) ||
        !read_environment(arena, object, config, err) ||
        !read_list(arena, json_object_get(object, "Entrypoint"), "/config/Entrypoint", &config->entrypoint,
                   &config->entrypoint_count, err) ||
        !read_list(arena, json_object_get(object, "Cmd"), "/config/Cmd", &config->command,
                   &config->command_count, err) ||
        !read_keys(arena, json_object_get(object, "Volumes"), "/config/Volumes", &config->volumes,
                   &config->volume_count, err) ||
        !read_keys(arena, json_object_get(object, "ExposedPorts"), "/config/ExposedPorts", &config->ports,
                   &config->port_count, err) ||
        !read_labels(arena, json_object_get(object, "Labels"), config, err))
        return false;
    if (config->workdir[0] != '\0' && config->workdir[0] != '/')
        return wrong("/config/WorkingDir", "the working directory isn't absolute", err);
    return true;
}

static bool read_diff_ids(struct pin_arena *arena, const json_t *document, struct pin_image_config *config,
                          struct pin_error *err) {
    const json_t *rootfs = json_object_get(document, "rootfs"), *ids = json_object_get(rootfs, "diff_ids");
    const char *type = json_string_value(json_object_get(rootfs, "type"));
    if (type == NULL || strcmp(type, "layers") != 0)
        return wrong("/rootfs/type", "the root filesystem isn't made of layers", err);
    size_t count = json_array_size(ids);
    if (!json_is_array(ids) || count > PIN_IMAGE_LAYERS_MAX)
        return wrong("/rootfs/diff_ids", "there is no list of diff ids, or it is too long", err);
    config->layers = pin_arena_array(arena, count + 1, sizeof(*config->layers));
    for (size_t i = 0; i < count; i++) {
        char digest[PIN_DIGEST_TEXT];
        if (!read_digest(json_array_get(ids, i), digest))
            return wrong("/rootfs/diff_ids", "a diff id isn't a SHA-256 digest", err);
        config->layers[i].diff_id = pin_arena_strdup(arena, digest);
    }
    config->layer_count = count;
    return true;
}

static bool read_history(struct pin_arena *arena, const json_t *array, struct pin_image_config *config,
                         struct pin_error *err) {
    size_t count = json_array_size(array);
    if (count > 4096)
        return wrong("/history", "the list is too long", err);
    config->history = pin_arena_array(arena, count + 1, sizeof(*config->history));
    for (size_t i = 0; i < count; i++) {
        const json_t *step = json_array_get(array, i);
        config->history[i] = (struct pin_image_history){
            .created_by = copy_text(arena, json_object_get(step, "created_by")),
            .comment = copy_text(arena, json_object_get(step, "comment")),
            .empty_layer = json_is_true(json_object_get(step, "empty_layer")),
        };
    }
    config->history_count = count;
    return true;
}

static bool read_config(struct pin_arena *arena, const json_t *document, struct pin_image_config *config,
                        struct pin_error *err) {
    const json_t *execution = json_object_get(document, "config");
    if (!json_is_object(document) ||
        (execution != NULL && !json_is_object(execution) && !json_is_null(execution)))
        return wrong("/config", "the configuration isn't an object", err);
    return read_text(arena, document, "architecture", NULL, &config->architecture, err) &&
           read_text(arena, document, "os", NULL, &config->os, err) &&
           read_text(arena, document, "variant", NULL, &config->variant, err) &&
           read_text(arena, document, "created", NULL, &config->created, err) &&
           read_text(arena, document, "author", NULL, &config->author, err) &&
           read_diff_ids(arena, document, config, err) && read_execution(arena, execution, config, err) &&
           read_history(arena, json_object_get(document, "history"), config, err);
}

bool pin_oci_config_parse(struct pin_arena *arena, const char *data, size_t size,
                          struct pin_image_config *config, struct pin_error *err) {
    struct pin_image_config parsed = {0};
    json_t *document = load(data, size, "configuration", err);
    bool good = document != NULL && read_config(arena, document, &parsed, err);
    json_decref(document);
    if (good)
        *config = parsed;
    return good;
}

static const struct {
    const char *machine, *architecture, *variant;
} machines[] = {
    {"x86_64",  "amd64",   NULL},
    {"aarch64", "arm64",   NULL},
    {"armv7l",  "arm",     "v7"},
    {"riscv64", "riscv64", NULL},
    {"ppc64le", "ppc64le", NULL},
    {"s390x",   "s390x",   NULL},
};

static struct pin_oci_platform this_machine(struct pin_arena *arena) {
    struct utsname host;
    if (uname(&host) < 0)
        return (struct pin_oci_platform){"linux", "unknown", NULL};
    for (size_t i = 0; i < PIN_COUNT(machines); i++)
        if (strcmp(machines[i].machine, host.machine) == 0)
            return (struct pin_oci_platform){"linux", machines[i].architecture, machines[i].variant};
    return (struct pin_oci_platform){"linux", pin_arena_strdup(arena, host.machine), NULL};
}

bool pin_oci_platform_parse(struct pin_arena *arena, const char *text, struct pin_oci_platform *platform) {
    if (text == NULL) {
        *platform = this_machine(arena);
        return true;
    }
    char *parts[3] = {pin_arena_strdup(arena, text), NULL, NULL};
    for (int i = 0; i < 2 && parts[i] != NULL; i++) {
        char *slash = strchr(parts[i], '/');
        if (slash == NULL)
            break;
        *slash = '\0';
        parts[i + 1] = slash + 1;
    }
    for (int i = 0; i < 3 && parts[i] != NULL; i++)
        if (!pin_is_name(parts[i]))
            return false;
    if (parts[1] == NULL)
        return false;
    *platform = (struct pin_oci_platform){parts[0], parts[1], parts[2]};
    return true;
}

static bool fits(const struct pin_oci_descriptor *manifest, const struct pin_oci_platform *platform) {
    if (manifest->os == NULL || manifest->architecture == NULL)
        return false;
    if (strcmp(manifest->os, platform->os) != 0 ||
        strcmp(manifest->architecture, platform->architecture) != 0)
        return false;
    return platform->variant == NULL || manifest->variant == NULL ||
           strcmp(manifest->variant, platform->variant) == 0;
}

const struct pin_oci_descriptor *pin_oci_index_choose(const struct pin_oci_index *index,
                                                      const struct pin_oci_platform *platform) {
    for (size_t i = 0; i < index->count; i++)
        if (fits(&index->manifests[i], platform))
            return &index->manifests[i];
    for (size_t i = 0; i < index->count; i++)
        if (index->manifests[i].os == NULL && index->manifests[i].architecture == NULL)
            return &index->manifests[i];
    return NULL;
}
