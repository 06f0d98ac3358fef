/* `pinfold image pull`, `pinfold image import`. */
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/units.h"
#include "images/store/signature.h"
#include "tools/pinfold-image/pull.h"
#include "tools/pinfold-image/verbs.h"

#define KEY_FILE_MAX ((size_t)64 * 1024)
#define PULL_NS (7200 * PIN_NS_PER_S) /* without --timeout */

struct get_values {
    const char *name, *platform, *authfile, *reference;
    struct pin_texts keys;
    bool require_signature, insecure, repair, json;
    struct pin_number timeout;
    int format;
};

#define PULL(member) offsetof(struct get_values, member)

static const struct pin_option pull_options[] = {
    {"name",              0, PIN_OPTION_TEXT,  PULL(name),              "NAME",
     "the name in the store; without it, the one in the registry",                                                                 NULL},
    {"platform",          0, PIN_OPTION_TEXT,  PULL(platform),          "OS/ARCH",
     "the platform to choose; without it, this machine's",                                                                         NULL},
    {"key",               0, PIN_OPTION_TEXTS, PULL(keys),              "FILE",
     "a public key (PEM) to check signatures with; may be repeated",                                                               NULL},
    {"require-signature", 0, PIN_OPTION_FLAG,  PULL(require_signature), NULL,
     "refuse an image that none of the keys has signed",                                                                           NULL},
    {"authfile",          0, PIN_OPTION_TEXT,  PULL(authfile),          "FILE",    "credentials; without it, skopeo's usual file",
     NULL                                                                                                                              },
    {"insecure",          0, PIN_OPTION_FLAG,  PULL(insecure),          NULL,
     "allow plain HTTP and unknown certificates, for a registry next door",                                                        NULL},
    {"repair",            0, PIN_OPTION_FLAG,  PULL(repair),            NULL,
     "get an image that is here already anew, and mend what is damaged",                                                           NULL},
    {"timeout",           0, PIN_OPTION_TIME,  PULL(timeout),           "T",       "give up when the registry takes longer (2h)",  NULL},
    {"json",              0, PIN_OPTION_FLAG,  PULL(json),              NULL,      "print one JSON object",                        NULL},
};

static const struct pin_option import_options[] = {
    {"format",            0, PIN_OPTION_CHOICE, PULL(format),            NULL,
     "what the source is; without it, it is told from its content",                                                             pin_source_kind_names},
    {"ref",               0, PIN_OPTION_TEXT,   PULL(reference),         "NAME",    "which image of a source that has several", NULL                 },
    {"platform",          0, PIN_OPTION_TEXT,   PULL(platform),          "OS/ARCH",
     "the platform to choose; without it, this machine's",                                                                      NULL                 },
    {"key",               0, PIN_OPTION_TEXTS,  PULL(keys),              "FILE",
     "a public key (PEM) to check signatures with; may be repeated",                                                            NULL                 },
    {"require-signature", 0, PIN_OPTION_FLAG,   PULL(require_signature), NULL,
     "refuse an image that none of the keys has signed",                                                                        NULL                 },
    {"json",              0, PIN_OPTION_FLAG,   PULL(json),              NULL,      "print one JSON object",                    NULL                 },
};
#undef PULL

static bool read_key(const char *path, struct pin_arena *arena, const char **key, struct pin_error *err) {
    size_t size;
    char digest[PIN_DIGEST_TEXT];
    PIN_FREE char *pem = pin_read_file_at(AT_FDCWD, path, KEY_FILE_MAX, &size, err);
    if (pem == NULL)
        return false;
    if (strlen(pem) != size || !pin_signature_key_digest(pem, digest, err)) {
        if (!pin_is_set(err))
            (void)pin_fail(err, PIN_ERROR_INVALID, "it isn't a public key in PEM form");
        (void)pin_wrap(err, "key '%.100s'", path);
        return pin_point(err, "%s", path);
    }
    *key = pin_arena_strdup(arena, pem);
    return true;
}

bool read_keys(const struct pin_texts *files, struct pin_arena *arena, const char ***keys,
               struct pin_error *err) {
    *keys = pin_arena_array(arena, files->count + 1, sizeof(**keys));
    for (size_t i = 0; i < files->count; i++)
        if (!read_key(files->items[i], arena, &(*keys)[i], err))
            return false;
    return true;
}

static void show_progress(void *context, const char *what, const char *which) {
    (void)context;
    (void)fprintf(stderr, "%s %.60s\n", what, safe(which));
}

static bool fill(const struct get_values *values, struct pin_arena *arena, struct pin_import *import,
                 struct pin_error *err) {
    const char **keys;
    if (values->require_signature && values->keys.count == 0) {
        (void)pin_fail(err, PIN_ERROR_USAGE, "--require-signature needs a key");
        return pin_hint(err, "name it with --key FILE");
    }
    if (!read_keys(&values->keys, arena, &keys, err))
        return false;
    *import = (struct pin_import){
        .platform = values->platform,
        .keys = keys,
        .key_count = values->keys.count,
        .require_signature = values->require_signature,
        .limits = &pin_layer_limits_default,
        .progress = !values->json && isatty(STDERR_FILENO) ? show_progress : NULL,
    };
    return true;
}

static bool begin(struct pin_image_store *store, struct pin_store_work *work, struct pin_error *err) {
    return pin_image_store_open(store, true, err) &&
           pin_store_work_begin(work, store, PIN_STORE_SHARED, STORE_WAIT_S, err);
}

static int run_pull(const struct pin_invocation *invocation) {
    const struct get_values *values = invocation->values;
    struct pin_error err = {0};
    PIN_ARENA struct pin_arena arena = {0};
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    PIN_STORE_WORK struct pin_store_work work = PIN_STORE_WORK_NONE;
    struct pin_image_config image;
    struct pull pull = {
        .reference = invocation->arguments[0],
        .skopeo = {.authfile = values->authfile,
                   .insecure = values->insecure,
                   .timeout_ns = values->timeout.given ? values->timeout.value : PULL_NS,
                   .show_progress = !values->json && isatty(STDERR_FILENO)},
        .repair = values->repair,
    };
    if (!fill(values, &arena, &pull.import, &err) || !begin(&store, &work, &err))
        return pin_report(&err, values->json);
    pull.import.name = values->name;
    if (!pull_image(&work, &pull, &arena, &image, &err))
        return pin_report(&err, values->json);
    return tell_made(&image, values->json);
}

/* Reproducible builds: reproducible-builds.org/specs/source-date-epoch. */
static bool read_epoch(struct pin_import *import, struct pin_error *err) {
    const char *text = getenv("SOURCE_DATE_EPOCH");
    uint64_t seconds;
    if (text == NULL)
        return true;
    if (!pin_parse_u64(text, &seconds) || seconds > INT64_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "SOURCE_DATE_EPOCH '%.40s' isn't a number of seconds", text);
    import->clamp_times = true;
    import->latest_s = (int64_t)seconds;
    return true;
}

static int run_import(const struct pin_invocation *invocation) {
    const struct get_values *values = invocation->values;
    struct pin_error err = {0};
    PIN_ARENA struct pin_arena arena = {0};
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    PIN_STORE_WORK struct pin_store_work work = PIN_STORE_WORK_NONE;
    struct pin_image_config image;
    struct pin_import import;
    if (!fill(values, &arena, &import, &err) || !read_epoch(&import, &err) || !begin(&store, &work, &err))
        return pin_report(&err, values->json);
    import.path = invocation->arguments[0];
    import.name = invocation->argument_count > 1 ? invocation->arguments[1] : NULL;
    import.reference = values->reference;
    import.kind = values->format < 0 ? PIN_SOURCE_AUTO : (enum pin_source_kind)values->format;
    if (!pin_image_import(&work, &import, &arena, &image, &err))
        return pin_report(&err, values->json);
    return tell_made(&image, values->json);
}

const struct pin_verb verb_pull = {
    .name = "image pull",
    .synopsis = "REFERENCE",
    .summary = "gets an image from a registry",
    .description = "The registry is reached through skopeo, with its usual credentials, mirrors and policy. "
                   "Every digest is checked before a byte is used, and a signature, if one is asked for, "
                   "before anything is unpacked.",
    .example = "pinfold image pull docker.io/library/python:3.11-slim --name python-3.11",
    .options = pull_options,
    .option_count = PIN_COUNT(pull_options),
    .values_size = sizeof(struct get_values),
    .least_arguments = 1,
    .most_arguments = 1,
    .run = run_pull,
};

const struct pin_verb verb_import = {
    .name = "image import",
    .synopsis = "PATH [NAME]",
    .summary = "takes an image from a file or a directory",
    .description = "PATH is an OCI image layout (directory or tar), what 'docker save' writes, or a root "
                   "filesystem (directory or tar). Tars may be compressed by gzip or zstd.",
    .example = "pinfold image import rootfs.tar.gz tools:v2",
    .options = import_options,
    .option_count = PIN_COUNT(import_options),
    .values_size = sizeof(struct get_values),
    .least_arguments = 1,
    .most_arguments = 2,
    .run = run_import,
};
