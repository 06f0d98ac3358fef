/* `pinfold image rm`, `tag`, `gc`, `verify`. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "images/image_resolve.h"
#include "images/store/gc.h"
#include "images/store/import_parts.h"
#include "images/store/record.h"
#include "images/store/verify.h"
#include "tools/pinfold-image/verbs.h"

struct keep_values {
    bool json, dry_run, blobs;
    struct pin_texts keys;
};

#define AT(member) offsetof(struct keep_values, member)
static const struct pin_option plain_options[] = {
    {"json", 0, PIN_OPTION_FLAG, AT(json), NULL, "print one JSON object", NULL},
};
static const struct pin_option gc_options[] = {
    {"dry-run", 'n', PIN_OPTION_FLAG, AT(dry_run), NULL, "only say what would go", NULL},
    {"json",    0,   PIN_OPTION_FLAG, AT(json),    NULL, "print one JSON object",  NULL},
};
static const struct pin_option verify_options[] = {
    {"key",   0, PIN_OPTION_TEXTS, AT(keys),  "FILE",
     "check the kept signatures of NAME with this public key (PEM); may be repeated", NULL},
    {"blobs", 0, PIN_OPTION_FLAG,  AT(blobs), NULL,   "hash the blobs only",          NULL},
    {"json",  0, PIN_OPTION_FLAG,  AT(json),  NULL,   "print one JSON object",        NULL},
};
#undef AT

static bool parse_name(const char *text, struct pin_image_name *name, struct pin_error *err) {
    if (!pin_image_name_parse(text, name, err))
        return false;
    if (name->name[0] != '\0' && name->digest[0] == '\0')
        return true;
    (void)pin_fail(err, PIN_ERROR_USAGE, "'%.100s' is a digest; names are removed", text);
    return pin_hint(err, "an image without a name goes with 'pinfold image gc'");
}

static bool forget(struct pin_store_work *work, char *const *texts, size_t count, struct pin_error *err) {
    PIN_FREE struct pin_image_name *names = calloc(count, sizeof(*names));
    if (names == NULL)
        return pin_fail_errno(err, "remove names");
    for (size_t i = 0; i < count; i++)
        if (!parse_name(texts[i], &names[i], err))
            return false;
    return pin_record_forget(work, names, count, err);
}

static int run_rm(const struct pin_invocation *invocation) {
    const struct keep_values *values = invocation->values;
    struct pin_error err = {0};
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    PIN_STORE_WORK struct pin_store_work work = PIN_STORE_WORK_NONE;
    json_t *removed = json_array();
    bool done = pin_image_store_open(&store, false, &err) &&
                pin_store_work_begin(&work, &store, PIN_STORE_SHARED, STORE_WAIT_S, &err) &&
                forget(&work, invocation->arguments, invocation->argument_count, &err);
    for (size_t i = 0; done && i < invocation->argument_count; i++)
        (void)json_array_append_new(removed, json_string(invocation->arguments[i]));
    if (done && values->json)
        print_object(json_pack("{s:O}", "removed", removed));
    json_decref(removed);
    return done ? 0 : pin_report(&err, values->json);
}

static int run_tag(const struct pin_invocation *invocation) {
    const struct keep_values *values = invocation->values;
    struct pin_error err = {0};
    PIN_ARENA struct pin_arena arena = {0};
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    PIN_STORE_WORK struct pin_store_work work = PIN_STORE_WORK_NONE;
    struct pin_image_config image;
    struct pin_image_name name;
    if (!pin_image_store_open(&store, false, &err) ||
        !pin_store_work_begin(&work, &store, PIN_STORE_SHARED, STORE_WAIT_S, &err) ||
        !pin_image_find(&store, &arena, invocation->arguments[0], &image, NULL, &err) ||
        !pin_image_name_parse(invocation->arguments[1], &name, &err))
        return pin_report(&err, values->json);
    if (name.name[0] == '\0' || name.digest[0] != '\0') {
        (void)pin_fail(&err, PIN_ERROR_USAGE, "'%.100s' is a digest, not a name to give",
                       invocation->arguments[1]);
        return pin_report(&err, values->json);
    }
    if (!pin_record_name(&work, &name, image.manifest, &err))
        return pin_report(&err, values->json);
    if (values->json)
        print_object(json_pack("{s:s, s:s}", "name", invocation->arguments[1], "digest", image.manifest));
    return 0;
}

static void print_goes(void *context, const char *what, const char *digest, uint64_t bytes) {
    (void)context;
    (void)printf("%-6s sha256:%s  %llu bytes\n", what, digest, (unsigned long long)bytes);
}

static int run_gc(const struct pin_invocation *invocation) {
    const struct keep_values *values = invocation->values;
    struct pin_error err = {0};
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    PIN_STORE_WORK struct pin_store_work work = PIN_STORE_WORK_NONE;
    struct pin_gc_report report = {.goes = values->json ? NULL : print_goes};
    if (!pin_image_store_open(&store, true, &err) ||
        !pin_store_work_begin(&work, &store, PIN_STORE_ALONE, STORE_WAIT_S, &err) ||
        !pin_store_gc(&work, values->dry_run, &report, &err))
        return pin_report(&err, values->json);
    if (values->json)
        print_object(json_pack("{s:b, s:I, s:I, s:I, s:I, s:I}", "dry_run", values->dry_run, "images",
                               (json_int_t)report.images, "layers", (json_int_t)report.layers, "blobs",
                               (json_int_t)report.blobs, "bytes", (json_int_t)report.bytes, "held",
                               (json_int_t)report.held));
    else
        (void)printf("%s %llu images, %llu layers, %llu blobs: %llu bytes\n",
                     values->dry_run ? "would remove" : "removed", (unsigned long long)report.images,
                     (unsigned long long)report.layers, (unsigned long long)report.blobs,
                     (unsigned long long)report.bytes);
    return 0;
}

struct verify_output {
    json_t *faults; /* NULL: lines */
};

static void tell_fault(void *context, const char *what, const char *detail) {
    struct verify_output *output = context;
    if (output->faults != NULL)
        (void)json_array_append_new(output->faults, json_pack("{s:s, s:s}", "what", what, "detail", detail));
    else {
        (void)printf("%s: ", safe(what));
        (void)printf("%s\n", safe(detail));
    }
}

/* Checks the signatures that came with an image, and keeps what was found for policies to ask for. */
static bool check_signatures(const struct pin_image_store *store, const char *name,
                             const struct keep_values *values, struct pin_error *err) {
    PIN_ARENA struct pin_arena arena = {0};
    PIN_STORE_WORK struct pin_store_work work = PIN_STORE_WORK_NONE;
    struct pin_image_config image;
    const char **keys;
    if (!read_keys(&values->keys, &arena, &keys, err) ||
        !pin_store_work_begin(&work, store, PIN_STORE_SHARED, STORE_WAIT_S, err) ||
        !pin_image_find(store, &arena, name, &image, NULL, err))
        return false;
    image.signed_by_count = 0; /* of these keys, not of those that an earlier import knew */
    if (!pin_import_check_kept(store, &arena, keys, values->keys.count, &image, err))
        return false;
    if (image.signed_by_count == 0)
        return pin_fail(err, PIN_ERROR_REFUSED, "the image '%.100s' isn't signed by %s", name,
                        values->keys.count > 1 ? "any of these keys" : "this key");
    return pin_record_put(&work, &arena, &image, err);
}

static int run_verify(const struct pin_invocation *invocation) {
    const struct keep_values *values = invocation->values;
    struct pin_error err = {0};
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    struct verify_output output = {.faults = values->json ? json_array() : NULL};
    struct pin_verify verify = {.blobs_only = values->blobs, .fault = tell_fault, .context = &output};
    bool done = pin_image_store_open(&store, false, &err);
    if (done && (values->keys.count > 0) != (invocation->argument_count == 1)) {
        done = pin_fail(&err, PIN_ERROR_USAGE, "a name and --key go together");
        (void)pin_hint(&err, "without both, the whole store is verified");
    }
    if (done && values->keys.count > 0)
        done = check_signatures(&store, invocation->arguments[0], values, &err);
    else if (done)
        done = pin_store_verify(&store, &verify, &err);
    if (done && values->json)
        print_object(json_pack("{s:I, s:I, s:I, s:I, s:I, s:O}", "blobs", (json_int_t)verify.blobs, "layers",
                               (json_int_t)verify.layers, "images", (json_int_t)verify.images, "names",
                               (json_int_t)verify.names, "bytes", (json_int_t)verify.bytes, "faults",
                               output.faults));
    else if (done)
        (void)printf("%llu blobs, %llu layers, %llu images, %llu names: %llu faults\n",
                     (unsigned long long)verify.blobs, (unsigned long long)verify.layers,
                     (unsigned long long)verify.images, (unsigned long long)verify.names,
                     (unsigned long long)verify.faults);
    json_decref(output.faults);
    if (!done)
        return pin_report(&err, values->json);
    return verify.faults == 0 ? 0 : 1;
}

const struct pin_verb verb_rm = {
    .name = "image rm",
    .synopsis = "NAME…",
    .summary = "removes names of images",
    .description = "The image itself goes with the next 'pinfold image gc', once nothing uses it. All of the "
                   "names are removed, or none "
                   "where one isn't there.",
    .example = "pinfold image rm tools:v1",
    .options = plain_options,
    .option_count = PIN_COUNT(plain_options),
    .values_size = sizeof(struct keep_values),
    .least_arguments = 1,
    .most_arguments = SIZE_MAX,
    .run = run_rm,
};

const struct pin_verb verb_tag = {
    .name = "image tag",
    .synopsis = "NAME NEW-NAME",
    .summary = "gives an image another name",
    .example = "pinfold image tag python-3.11 python",
    .options = plain_options,
    .option_count = PIN_COUNT(plain_options),
    .values_size = sizeof(struct keep_values),
    .least_arguments = 2,
    .most_arguments = 2,
    .run = run_tag,
};

const struct pin_verb verb_gc = {
    .name = "image gc",
    .synopsis = "",
    .summary = "removes what no name and no sandbox needs",
    .example = "pinfold image gc --dry-run",
    .options = gc_options,
    .option_count = PIN_COUNT(gc_options),
    .values_size = sizeof(struct keep_values),
    .run = run_gc,
};

const struct pin_verb verb_verify = {
    .name = "image verify",
    .synopsis = "[NAME --key FILE…]",
    .summary = "hashes the whole store again and says what differs; or checks an image's signatures",
    .description = "Exit code 1 when anything differs.",
    .example = "pinfold image verify\npinfold image verify tools:v2 --key release.pub",
    .options = verify_options,
    .option_count = PIN_COUNT(verify_options),
    .values_size = sizeof(struct keep_values),
    .most_arguments = 1,
    .run = run_verify,
};
