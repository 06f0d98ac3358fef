#include "tools/pinfold-image/build.h"
#include "runtime/host/libexec.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "images/store/import.h"
#include "pin_image_build_files.h"
#include "tools/pinfold-image/packages.h"
#include "tools/pinfold-image/program.h"
#include "tools/pinfold-image/verbs.h"

#define STAGE "stage:unpacked" /* in a store of its own */

struct building {
    const struct build *build;
    struct pin_arena *arena;
    struct pin_image_store temporary;
    struct pin_store_work scratch; /* in it */
    const char *folder;            /* the scratch's path */
    const char *pinfold;           /* the program */
    const char *epoch;             /* "SOURCE_DATE_EPOCH=N" */
};

static const char *embedded(const char *name) {
    for (size_t i = 0; i < pin_image_build_files_count; i++)
        if (strcmp(pin_image_build_files[i].name, name) == 0)
            return (const char *)pin_image_build_files[i].data;
    return "";
}

static void say(const struct building *building, const char *what) {
    if (building->build->show)
        (void)fprintf(stderr, "%s\n", what);
}

static bool find_pinfold(struct building *building, struct pin_error *err) {
    char path[PATH_MAX];
    if (!pin_libexec_find_pinfold(path, err))
        return false;
    building->pinfold = pin_arena_strdup(building->arena, path);
    return true;
}

static bool check_host(struct pin_error *err) {
    if (access("/usr/bin/mmdebstrap", X_OK) == 0)
        return true;
    (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "mmdebstrap isn't installed, and images are built with it");
    return pin_hint(err, "apt install mmdebstrap");
}

/* A store of its own, since no sandbox may be shown what lies in pinfold's. What a killed build leaves in it
 * is swept by the next one, as in any store. */
static bool begin(struct building *building, struct pin_error *err) {
    struct pin_store_work *scratch = &building->scratch;
    const char *given = secure_getenv("TMPDIR");
    const char *path = pin_arena_printf(building->arena, "%s/pinfold-build-%u",
                                        given != NULL && given[0] == '/' ? given : "/var/tmp", geteuid());
    if (!pin_image_store_open_at(&building->temporary, path, true, err) ||
        !pin_store_work_begin(scratch, &building->temporary, PIN_STORE_SHARED, STORE_WAIT_S, err))
        return false;
    building->folder =
        pin_arena_printf(building->arena, "%s/tmp/%s", building->temporary.path, scratch->name);
    building->epoch =
        pin_arena_printf(building->arena, "SOURCE_DATE_EPOCH=%" PRId64, building->build->lock->epoch_s);
    if (mkdirat(scratch->dir, "packages", 0755) < 0 || mkdirat(scratch->dir, "unpack", 0755) < 0 ||
        mkdirat(scratch->dir, "configure", 0755) < 0)
        return pin_fail_errno(err, "make the folders of the build");
    PIN_CLOSE int packages =
        openat(scratch->dir, "packages", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return packages >= 0 ? packages_copy(building->arena, building->build->lock, packages, err)
                         : pin_fail_errno(err, "open the folder of the packages");
}

static bool write_file(const struct building *building, const char *name, const char *text,
                       struct pin_error *err) {
    PIN_CLOSE int file = openat(building->scratch.dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return pin_fail_errno(err, "write '%s' of the build", name);
    return pin_write_all(file, text, strlen(text), err);
}

/* Of a stage: its policy over the caller's own over that of both stages, with the packages shown in it. */
static bool write_policy(const struct building *building, const char *name, struct pin_error *err) {
    json_t *policy = json_loads(embedded(name), 0, NULL);
    json_t *filesystem = json_object_get(policy, "filesystem");
    if (filesystem == NULL)
        (void)json_object_set_new(policy, "filesystem", filesystem = json_object());
    const char *source = pin_arena_printf(building->arena, "%s/packages", building->folder);
    (void)json_object_set_new(
        filesystem, "mounts",
        json_pack("[{s:s, s:s, s:s}]", "source", source, "target", "/packages", "access", "read-only"));
    if (building->build->policy != NULL)
        (void)json_array_append_new(json_object_get(policy, "extends"), json_string(building->build->policy));
    PIN_FREE char *text = json_dumps(policy, JSON_COMPACT);
    json_decref(policy);
    return text == NULL ? pin_fail(err, PIN_ERROR_INTERNAL, "the policy of builds can't be written")
                        : write_file(building, name, text, err);
}

static bool write_policies(const struct building *building, struct pin_error *err) {
    return write_file(building, "build.json", embedded("build.json"), err) &&
           write_policy(building, "unpack.json", err) && write_policy(building, "configure.json", err);
}

static bool failed(const struct program_output *output, const char *stage, struct pin_error *err) {
    char said[200];
    (void)pin_fail(err, PIN_ERROR_SYSTEM, "the build failed to %s: %s", stage,
                   program_last_words(output, said, sizeof(said)));
    if (output->code == 125)
        return pin_hint(err, "what the build's sandboxes must have can be said with --policy");
    return output->code == 137 ? pin_hint(err, "it was ended by a limit: there is too little memory") : false;
}

/* Runs "STAGE.sh" over `image`, with the folder STAGE as its workspace. */
static bool run_stage(const struct building *building, const char *stage, const char *image,
                      struct pin_error *err) {
    struct pin_arena *arena = building->arena;
    const char *const argv[] = {building->pinfold,
                                "run",
                                "--policy",
                                pin_arena_printf(arena, "%s/%s.json", building->folder, stage),
                                "--image",
                                image,
                                "--workspace",
                                pin_arena_printf(arena, "%s/%s", building->folder, stage),
                                "--env",
                                building->epoch,
                                "--",
                                "/bin/sh",
                                "-c",
                                embedded(pin_arena_printf(arena, "%s.sh", stage)),
                                NULL};
    const char *const environment[] = {pin_arena_printf(arena, "PINFOLD_IMAGES=%s/store", building->folder),
                                       NULL};
    const struct program program = {.argv = argv, .environment = environment};
    PROGRAM_OUTPUT struct program_output output = {0};
    say(building, stage);
    return program_run(&program, &output, err) && (output.code == 0 || failed(&output, stage, err));
}

/* What a sandbox left is opened once, through no link, and read through that descriptor. */
static bool import_tar(const struct building *building, const struct pin_image_store *store, const char *path,
                       struct pin_import *import, struct pin_image_config *image, struct pin_error *err) {
    PIN_STORE_WORK struct pin_store_work work = PIN_STORE_WORK_NONE;
    PIN_CLOSE int tar =
        pin_open_beneath(building->scratch.dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0, err);
    if (tar < 0)
        return pin_wrap(err, "what the build made");
    import->path = pin_arena_printf(building->arena, "/proc/self/fd/%d", tar);
    import->kind = PIN_SOURCE_ROOTFS;
    import->limits = &pin_layer_limits_default;
    return pin_store_work_begin(&work, store, PIN_STORE_SHARED, STORE_WAIT_S, err) &&
           pin_image_import(&work, import, building->arena, image, err);
}

static bool import_stage(const struct building *building, struct pin_error *err) {
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    struct pin_import import = {.name = STAGE};
    struct pin_image_config image;
    const char *path = pin_arena_printf(building->arena, "%s/store", building->folder);
    return pin_image_store_open_at(&store, path, true, err) &&
           import_tar(building, &store, "unpack/root.tar", &import, &image, err);
}

static bool import_image(const struct building *building, const struct pin_image_store *store,
                         struct pin_image_config *image, struct pin_error *err) {
    const struct build *build = building->build;
    struct pin_import import = {
        .name = build->name,
        .config = build->recipe->config,
        .note = pin_arena_printf(building->arena, "pinfold image build %s", build->recipe->name),
    };
    say(building, "import");
    return import_tar(building, store, "configure/image.tar", &import, image, err);
}

static bool build_in(struct building *building, const struct pin_image_store *store,
                     struct pin_image_config *image, struct pin_error *err) {
    return find_pinfold(building, err) && begin(building, err) && write_policies(building, err) &&
           run_stage(building, "unpack", "host", err) && import_stage(building, err) &&
           run_stage(building, "configure", STAGE, err) && import_image(building, store, image, err);
}

bool build_image(const struct pin_image_store *store, const struct build *build, struct pin_arena *arena,
                 struct pin_image_config *image, struct pin_error *err) {
    struct building building = {
        .build = build, .arena = arena, .temporary = PIN_IMAGE_STORE_NONE, .scratch = PIN_STORE_WORK_NONE};
    bool done = check_host(err) && build_in(&building, store, image, err);
    pin_store_work_end(&building.scratch);
    pin_image_store_close(&building.temporary);
    return done || pin_wrap(err, "build '%.60s'", build->recipe->name);
}
