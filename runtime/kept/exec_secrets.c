#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/kept/parts.h"
#include "runtime/kept/secret_files.h"

#define KNOWN_MAX 64 /* values of one sandbox that are masked: the newest */

static void release_mask(struct shared_mask *mask) {
    if (mask == NULL || --mask->users > 0)
        return;
    pin_mask_free(mask->mask);
    free(mask);
}

static struct shared_mask *new_mask(const struct pin_secrets *known, struct pin_error *err) {
    struct shared_mask *mask = calloc(1, sizeof(*mask));
    if (mask == NULL) {
        (void)pin_fail_errno(err, "make room for a mask");
        return NULL;
    }
    mask->users = 1;
    mask->mask = pin_mask_new(known, err);
    if (mask->mask != NULL)
        return mask;
    free(mask);
    return NULL;
}

/* Values of before a rotation, and those of other commands, may still be in files of the sandbox: all are
 * masked. */
static bool learn(struct pin_kept *kept, const struct pin_secrets *found, struct pin_error *err) {
    bool is_new = false;
    for (size_t i = 0; i < found->count; i++)
        if (!pin_secrets_remember(&kept->known, &found->list[i], KNOWN_MAX, &is_new, err))
            return false;
    if (!is_new)
        return true;
    struct shared_mask *mask = new_mask(&kept->known, err);
    if (mask == NULL)
        return false;
    release_mask(kept->mask);
    kept->mask = mask;
    return true;
}

static bool find(struct exec *exec, struct pin_error *err) {
    const struct pin_kept_given *given = exec->kept->given;
    const struct pin_kept_request *request = &exec->request;
    size_t count = given->secret_count + request->secret_count;
    PIN_FREE const char **specs = calloc(count + 1, sizeof(*specs));
    if (specs == NULL)
        return pin_fail_errno(err, "make room for secrets");
    for (size_t i = 0; i < count; i++)
        specs[i] = i < given->secret_count ? given->secrets[i] : request->secrets[i - given->secret_count];
    return pin_secrets_find(&exec->secrets, specs, count, given->secret_variables,
                            given->secret_variable_count, err);
}

bool pin_exec_find_secrets(struct exec *exec, struct pin_error *err) {
    struct pin_kept *kept = exec->kept;
    const struct pin_kept_given *given = kept->given;
    if (given->secret_count + exec->request.secret_count > 0 &&
        (!find(exec, err) || !learn(kept, &exec->secrets, err) ||
         !pin_secret_files_refresh(given->sandbox->init, given->uid, given->gid, &exec->secrets, &kept->files,
                                   err)))
        return false;
    exec->mask = kept->mask;
    if (exec->mask != NULL)
        exec->mask->users++;
    return true;
}

static bool is_secret(const struct exec *exec, const char *variable) {
    size_t length = strcspn(variable, "=");
    for (size_t i = 0; i < exec->secrets.count; i++) {
        const struct pin_secret_spec *spec = &exec->secrets.list[i].spec;
        if (spec->form == PIN_SECRET_ENV && strlen(spec->target) == length &&
            memcmp(spec->target, variable, length) == 0)
            return true;
    }
    return false;
}

const char *const *pin_exec_environment(struct exec *exec) {
    struct pin_kept_request *request = &exec->request;
    const char **list =
        pin_arena_array(&request->arena, request->env_count + exec->secrets.count + 3, sizeof(*list));
    size_t at = 0;
    for (size_t i = 0; i < request->env_count; i++)
        if (!is_secret(exec, request->env[i]))
            list[at++] = request->env[i];
    for (size_t i = 0; i < exec->secrets.count; i++)
        if (exec->secrets.list[i].spec.form == PIN_SECRET_ENV)
            list[at++] = pin_secret_variable(&exec->secrets.list[i]);
    if (request->frames & PIN_FRAMES_FD)
        list[at++] = "PINFOLD_FRAME_FD=3";
    if (exec->frames.nonce_variable[0] != '\0')
        list[at++] = exec->frames.nonce_variable;
    return list;
}

void pin_exec_free_secrets(struct exec *exec) {
    pin_secrets_free(&exec->secrets);
    release_mask(exec->mask);
    exec->mask = NULL;
}

void pin_kept_forget_secrets(struct pin_kept *kept) {
    release_mask(kept->mask);
    kept->mask = NULL;
    pin_secrets_free(&kept->known);
}

/* A caller may have written a value there. A cut in the middle of a character leaves no text. */
json_t *pin_exec_masked(const struct exec *exec, const char *text, size_t most) {
    const struct shared_mask *mask = exec->mask != NULL ? exec->mask : exec->kept->mask;
    size_t size = strlen(text);
    if (mask == NULL) {
        json_t *plain = json_stringn(text, size < most ? size : most);
        return plain != NULL ? plain : json_string("");
    }
    PIN_FREE uint8_t *bytes = pin_mask_bytes(mask->mask, (const uint8_t *)text, size, &size);
    json_t *string = bytes == NULL ? NULL : json_stringn((const char *)bytes, size < most ? size : most);
    return string != NULL ? string : json_string("***");
}
