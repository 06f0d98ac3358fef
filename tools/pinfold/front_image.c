#include "tools/pinfold/front_image.h"

#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "images/image_resolve.h"
#include "images/image_root.h"
#include "images/image_user.h"
#include "runtime/bundle/resolve.h"

#define KEY_FILE_MAX ((size_t)64 * 1024) /* bytes */

bool pin_front_has_image(const struct pin_front *front) {
    return front->request.image != NULL && strcmp(front->request.image, "host") != 0;
}

/* One of the rule's keys is enough. A key that can't be read has signed nothing, and is told. */
static bool has_signed(const struct pin_image_rule *rule, const struct pin_image_config *config,
                       struct pin_error *err) {
    for (size_t i = 0; i < rule->keys.count; i++) {
        const char *path = rule->keys.items[i].text;
        struct pin_error unread = {0};
        size_t size;
        PIN_FREE char *pem = pin_read_file_at(AT_FDCWD, path, KEY_FILE_MAX, &size, &unread);
        if (pem != NULL && pin_image_signed_with(config, pem))
            return true;
        if (pem == NULL && !pin_is_set(err)) {
            *err = unread;
            (void)pin_wrap(err, "the key '%s' of the policy", path);
            (void)pin_point(err, "%s", path);
        }
    }
    return false;
}

/* Any rule that is about the image will do. */
static void check_signatures(struct pin_front *front, const struct pin_image_config *config,
                             struct pin_findings *found) {
    struct pin_request *request = &front->request;
    struct pin_error unread = {0};
    bool asked = false;
    for (size_t i = 0; i < front->ceiling->image_count && !request->image_signed; i++) {
        const struct pin_image_rule *rule = &front->ceiling->images[i];
        if (!pin_request_rule_matches(rule, request->image, request->image_digest))
            continue;
        if (!rule->require_signature)
            return;
        asked = true;
        request->image_signed = has_signed(rule, config, &unread);
    }
    if (asked && !request->image_signed && pin_is_set(&unread))
        pin_find_error(found, &unread);
}

/* Entrypoint and command are one list where the request brings no command of its own. */
static void take_command(struct pin_front *front, const struct pin_image_config *config) {
    struct pin_request *request = &front->request;
    if (request->arg_count > 0)
        return;
    size_t count = config->entrypoint_count + config->command_count;
    const char **args = pin_arena_array(&front->arena, count + 1, sizeof(*args));
    for (size_t i = 0; i < config->entrypoint_count; i++)
        args[i] = config->entrypoint[i];
    for (size_t i = 0; i < config->command_count; i++)
        args[config->entrypoint_count + i] = config->command[i];
    request->args = args;
    request->arg_count = count;
}

/* Who may be root may be anybody, so such a policy leaves it to the image; any other says itself who runs. */
static bool take_user(struct pin_front *front, const struct pin_image_config *config, struct pin_error *err) {
    struct pin_request *request = &front->request;
    uint32_t user, group;
    if (config->user == NULL || config->user[0] == '\0' || front->ceiling->identity.user != 0)
        return true;
    if (!pin_image_user(&front->rootfs, config->user, &user, &group, err))
        return false;
    request->has_user = true;
    request->user = user;
    request->has_group = front->ceiling->identity.group == 0;
    request->group = group;
    return true;
}

static void take_labels(struct pin_front *front, const struct pin_image_config *config) {
    struct pin_pair *labels = pin_arena_array(&front->arena, config->label_count, sizeof(*labels));
    for (size_t i = 0; i < config->label_count; i++)
        labels[i] = (struct pin_pair){config->labels[i].key, config->labels[i].value};
    front->request.image_labels = labels;
    front->request.image_label_count = config->label_count;
}

static bool find_image(struct pin_front *front, struct pin_image_config *config, struct pin_error *err) {
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    if (front->request.image[0] == '\0') {
        (void)pin_fail(err, PIN_ERROR_USAGE, "--image names no image");
        (void)pin_point(err, "--image");
        return pin_hint(err, "name one that 'pinfold image ls' lists, or leave it out");
    }
    return pin_image_store_open(&store, false, err) &&
           pin_image_resolve(&store, &front->arena, front->request.image, &front->rootfs, config,
                             &front->image_hold, err);
}

bool pin_front_take_image(struct pin_front *front, struct pin_findings *found) {
    struct pin_request *request = &front->request;
    struct pin_image_config config = {0};
    struct pin_error err = {0};
    if (!find_image(front, &config, &err)) {
        (void)pin_point(&err, "--image");
        pin_find_error(found, &err);
        return false;
    }
    request->image = config.name != NULL ? config.name : config.manifest;
    request->image_digest = config.manifest;
    check_signatures(front, &config, found);
    if (!take_user(front, &config, &err)) {
        pin_find_error(found, &err);
        return false;
    }
    take_command(front, &config);
    take_labels(front, &config);
    request->image_env = config.env;
    request->image_env_count = config.env_count;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): find_image() has filled it */
    if (request->workspace.source == NULL && config.workdir[0] == '/')
        request->cwd = config.workdir;
    pin_image_complete(&front->arena, request->hostname != NULL ? request->hostname : PIN_DEFAULT_HOSTNAME,
                       &config, &front->rootfs);
    return !pin_found_any(found);
}
