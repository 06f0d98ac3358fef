/* `pinfold image export`, `pinfold image commit`. */
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "images/image_name.h"
#include "images/image_resolve.h"
#include "images/store/commit.h"
#include "images/store/export.h"
#include "tools/pinfold-image/verbs.h"

struct export_values {
    bool json, tar;
    const char *reference;
    struct pin_number first_id;
};

#define AT(member) offsetof(struct export_values, member)
static const struct pin_option export_options[] = {
    {"tar",  0, PIN_OPTION_FLAG, AT(tar),       NULL,   "write a tar instead of a directory",                   NULL},
    {"ref",  0, PIN_OPTION_TEXT, AT(reference), "NAME", "what the layout calls the image; without it, its tag",
     NULL                                                                                                           },
    {"json", 0, PIN_OPTION_FLAG, AT(json),      NULL,   "print one JSON object",                                NULL},
};
static const struct pin_option commit_options[] = {
    {"first-id", 0, PIN_OPTION_COUNT, AT(first_id), "ID",
     "the first id of the sandbox's range; it is 0 in the image",                  NULL},
    {"json",     0, PIN_OPTION_FLAG,  AT(json),     NULL, "print one JSON object", NULL},
};
#undef AT

static const char *reference_of(const struct export_values *values, const char *asked,
                                struct pin_image_name *name) {
    struct pin_error ignored = {0};
    if (values->reference != NULL)
        return values->reference;
    return pin_image_name_parse(asked, name, &ignored) && name->tag[0] != '\0' ? name->tag : "latest";
}

static int run_export(const struct pin_invocation *invocation) {
    const struct export_values *values = invocation->values;
    struct pin_error err = {0};
    PIN_ARENA struct pin_arena arena = {0};
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    PIN_STORE_WORK struct pin_store_work work = PIN_STORE_WORK_NONE;
    struct pin_image_config image;
    struct pin_image_name name = {0};
    const char *path = invocation->arguments[1];
    if (!pin_image_store_open(&store, false, &err) ||
        !pin_store_work_begin(&work, &store, PIN_STORE_SHARED, STORE_WAIT_S, &err) ||
        !pin_image_find(&store, &arena, invocation->arguments[0], &image, NULL, &err) ||
        !pin_image_export(&work, &image, path, values->tar,
                          reference_of(values, invocation->arguments[0], &name), &err))
        return pin_report(&err, values->json);
    if (values->json)
        print_object(json_pack("{s:s, s:s}", "path", path, "digest", image.manifest));
    return 0;
}

static bool commit_changes(const struct pin_invocation *invocation, struct pin_arena *arena,
                           struct pin_image_config *image, struct pin_error *err) {
    const struct export_values *values = invocation->values;
    char *const *arguments = invocation->arguments;
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    PIN_STORE_WORK struct pin_store_work work = PIN_STORE_WORK_NONE;
    struct pin_image_config base;
    struct pin_image_name name;
    if (!pin_image_name_parse(arguments[2], &name, err))
        return false;
    if (name.name[0] == '\0' || name.digest[0] != '\0')
        return pin_fail(err, PIN_ERROR_USAGE, "'%.100s' is a digest, not a name to give", arguments[2]);
    if (values->first_id.value >= UINT32_MAX)
        return pin_fail(err, PIN_ERROR_USAGE, "--first-id is beyond all ids");
    PIN_CLOSE int changes = open(arguments[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (changes < 0)
        return pin_fail_errno(err, "open the changes '%.200s'", arguments[1]);
    if (!pin_image_store_open(&store, false, err) ||
        !pin_store_work_begin(&work, &store, PIN_STORE_SHARED, STORE_WAIT_S, err) ||
        !pin_image_find(&store, arena, arguments[0], &base, NULL, err))
        return false;
    const struct pin_commit commit = {.base = &base,
                                      .changes = changes,
                                      .first_id = (uint32_t)values->first_id.value,
                                      .note = "pinfold image commit",
                                      .limits = &pin_layer_limits_default};
    return pin_image_commit(&work, &commit, &name, arena, image, err);
}

static int run_commit(const struct pin_invocation *invocation) {
    const struct export_values *values = invocation->values;
    struct pin_error err = {0};
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_image_config image = {0};
    if (!commit_changes(invocation, &arena, &image, &err))
        return pin_report(&err, values->json);
    return tell_made(&image, values->json);
}

const struct pin_verb verb_commit = {
    .name = "image commit",
    .synopsis = "BASE DIRECTORY NAME",
    .summary = "makes an image of another one and the changes to it",
    .description = "DIRECTORY is the upper directory of an overlay over BASE, as a kept sandbox has it.",
    .example = "pinfold image commit tools:v1 /srv/upper tools:v2",
    .options = commit_options,
    .option_count = PIN_COUNT(commit_options),
    .values_size = sizeof(struct export_values),
    .least_arguments = 3,
    .most_arguments = 3,
    .run = run_commit,
};

const struct pin_verb verb_export = {
    .name = "image export",
    .synopsis = "NAME PATH",
    .summary = "writes an image as an OCI image layout",
    .description = "The layout has the image's own digest; skopeo, podman, buildah and umoci read it.",
    .example = "pinfold image export tools:v2 tools.tar --tar",
    .options = export_options,
    .option_count = PIN_COUNT(export_options),
    .values_size = sizeof(struct export_values),
    .least_arguments = 2,
    .most_arguments = 2,
    .run = run_export,
};
