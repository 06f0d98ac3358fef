#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/kept/parts.h"
#include "runtime/kept/secret_files.h"
#include "runtime/secrets/command.h"

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

static size_t count_of(const struct exec *exec) {
    return exec->kept->given->secret_count + exec->request.secret_count;
}

static bool find(const struct exec *exec, struct pin_secrets *secrets, struct pin_error *err) {
    const struct pin_kept_given *given = exec->kept->given;
    const struct pin_kept_request *request = &exec->request;
    size_t count = count_of(exec);
    PIN_FREE const char **specs = calloc(count + 1, sizeof(*specs));
    if (specs == NULL)
        return pin_fail_errno(err, "make room for secrets");
    for (size_t i = 0; i < count; i++)
        specs[i] = i < given->secret_count ? given->secrets[i] : request->secrets[i - given->secret_count];
    return pin_secrets_find(secrets, specs, count, given->secret_variables, given->secret_variable_count,
                            err);
}

static void end_finding(struct exec *exec) {
    pin_source_remove(&exec->finding);
    pin_close_fd(&exec->finding_fd);
    if (exec->finder <= 0)
        return;
    (void)kill(exec->finder, SIGKILL); /* our child, not reaped: the number is its own */
    while (waitpid(exec->finder, NULL, 0) < 0 && errno == EINTR)
        ;
    exec->finder = 0;
}

/* All of it has been found when the first byte comes, so that reading the rest waits for nobody. */
static void on_found(void *self, unsigned events) {
    struct exec *exec = self;
    (void)events;
    (void)pin_secrets_take(&exec->secrets, count_of(exec), exec->finding_fd, &exec->secret_fault);
    exec->have_secrets = true;
    end_finding(exec);
    if (exec->state == EXEC_FINDING)
        exec->state = EXEC_QUEUED;
}

static void look_and_hand(const struct exec *exec, pid_t parent, int to) {
    struct pin_secrets found = {0};
    struct pin_error err = {0};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(1);
    (void)find(exec, &found, &err);
    bool handed = pin_secrets_hand(&found, &err, to);
    pin_secrets_free(&found);
    _exit(handed ? 0 : 1);
}

static bool start_finder(struct exec *exec, struct pin_error *err) {
    int ends[2];
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return pin_fail_errno(err, "make a pipe");
    exec->finding_fd = ends[0];
    exec->finder = fork();
    if (exec->finder == 0)
        look_and_hand(exec, parent, ends[1]);
    (void)close(ends[1]);
    if (exec->finder < 0)
        return pin_fail_errno(err, "look for the secrets");
    exec->finding = pin_loop_watch(exec->kept->loop, exec->finding_fd, POLLIN, on_found, exec, err);
    return exec->finding != NULL;
}

/* A program may take seconds, and nobody else shall wait for it. */
void pin_exec_seek_secrets(struct exec *exec) {
    struct pin_error *err = &exec->secret_fault;
    if (count_of(exec) == 0 || !pin_secret_command_exists(err)) {
        pin_error_clear(err); /* looking for them will say it again, for the secret that needs it */
        return;
    }
    exec->state = EXEC_FINDING;
    if (start_finder(exec, err))
        return;
    end_finding(exec);
    exec->have_secrets = true; /* which it hasn't, and says why */
    exec->state = EXEC_QUEUED;
}

static bool have(struct exec *exec, struct pin_error *err) {
    if (!exec->have_secrets)
        return find(exec, &exec->secrets, err);
    *err = exec->secret_fault;
    return !pin_is_set(err);
}

bool pin_exec_find_secrets(struct exec *exec, struct pin_error *err) {
    struct pin_kept *kept = exec->kept;
    const struct pin_kept_given *given = kept->given;
    if (count_of(exec) > 0 && (!have(exec, err) || !learn(kept, &exec->secrets, err) ||
                               !pin_secret_files_refresh(given->sandbox->init, given->uid, given->gid,
                                                         &exec->secrets, &kept->files, err)))
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
    end_finding(exec);
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
