/* `pinfold commit`: an image from what a kept sandbox has changed on its own. */
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "images/image_name.h"
#include "images/image_resolve.h"
#include "images/store/commit.h"
#include "tools/pinfold-image/verbs.h"
#include "tools/pinfold-kept/client.h"

struct commit_values {
    bool json;
    const char *note;
};

#define AT(member) offsetof(struct commit_values, member)
static const struct pin_option options[] = {
    {"note", 0, PIN_OPTION_TEXT, AT(note), "TEXT", "what the image's history says", NULL},
    {"json", 0, PIN_OPTION_FLAG, AT(json), NULL,   "print one JSON object",         NULL},
};
#undef AT

/* Made for each sandbox whose image has none: images/image_root.c. */
static const char *const left_out[] = {"etc/hosts", "etc/hostname", "etc/resolv.conf", NULL};

static bool check_name(const char *text, struct pin_image_name *name, struct pin_error *err) {
    if (!pin_image_name_parse(text, name, err))
        return false;
    return (name->name[0] != '\0' && name->digest[0] == '\0') ||
           pin_fail(err, PIN_ERROR_USAGE, "'%.100s' is a digest, not a name to give", text);
}

/* The base is in the store as long as the sandbox lives, which holds it. */
static bool put_image(const struct pin_commit *commit, const char *base, const struct pin_image_name *name,
                      struct pin_arena *arena, struct pin_image_config *image, struct pin_error *err) {
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    PIN_STORE_WORK struct pin_store_work work = PIN_STORE_WORK_NONE;
    struct pin_image_config config;
    struct pin_commit whole = *commit;
    whole.base = &config;
    return pin_image_store_open(&store, false, err) &&
           pin_store_work_begin(&work, &store, PIN_STORE_SHARED, STORE_WAIT_S, err) &&
           pin_image_find(&store, arena, base, &config, NULL, err) &&
           pin_image_commit(&work, &whole, name, arena, image, err);
}

/* A host whose sandboxes can't be frozen commits all the same: a file that changes meanwhile is refused. */
static bool hold(struct pin_client *client, bool json, struct pin_error *err) {
    struct pin_error unfrozen = {0};
    if (pin_client_hold(client, &unfrozen))
        return true;
    if (unfrozen.kind != PIN_ERROR_UNSUPPORTED) {
        *err = unfrozen;
        return false;
    }
    if (!json)
        (void)fputs("pinfold: the sandbox can't be frozen on this host: its processes go on meanwhile\n",
                    stderr);
    return true;
}

static bool commit_sandbox(const struct pin_invocation *invocation, struct pin_arena *arena,
                           struct pin_image_config *image, struct pin_error *err) {
    const struct commit_values *values = invocation->values;
    PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
    PIN_CLOSE int changes = -1;
    struct pin_image_name name;
    if (!check_name(invocation->arguments[1], &name, err) ||
        !pin_client_open(&client, invocation->arguments[0], err))
        return false;
    json_t *ok = pin_client_ask_fd(&client, "changes", &changes, err);
    if (ok == NULL)
        return pin_hint(err, "it takes --image, and a policy whose filesystem.root is \"overlay\"");
    const char *base = json_string_value(json_object_get(ok, "image"));
    const struct pin_commit commit = {
        .changes = changes,
        .leave_out = left_out,
        .first_id = (uint32_t)json_integer_value(json_object_get(ok, "first_id")),
        .note = values->note != NULL ? values->note : "pinfold commit",
        .limits = &pin_layer_limits_default,
    };
    bool done = hold(&client, values->json, err) &&
                put_image(&commit, base == NULL ? "" : base, &name, arena, image, err);
    json_decref(ok);
    return done;
}

static int run_commit(const struct pin_invocation *invocation) {
    const struct commit_values *values = invocation->values;
    struct pin_error err = {0};
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_image_config image = {0};
    if (!commit_sandbox(invocation, &arena, &image, &err))
        return pin_report(&err, values->json);
    return tell_made(&image, values->json);
}

const struct pin_verb verb_sandbox_commit = {
    .name = "commit",
    .synopsis = "NAME IMAGE",
    .summary = "make an image of what a kept sandbox has changed",
    .description =
        "The changes become one layer on the sandbox's own image. The sandbox is frozen while they are "
        "read.\netc/hosts, etc/hostname and etc/resolv.conf are left out: each sandbox has its own.",
    .example =
        "  pinfold up --image python --policy dev.json work\n  pinfold exec work -- pip install requests\n"
        "  pinfold commit work python-requests",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .values_size = sizeof(struct commit_values),
    .least_arguments = 2,
    .most_arguments = 2,
    .run = run_commit,
};
