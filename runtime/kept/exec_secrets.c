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
#include "runtime/secrets/secret_spec.h"

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

/* Whose file has this name: the secret that one of these asks for; NULL: none. */
static const char *owner_of(const char *const *specs, size_t count, const char *file,
                            struct pin_secret_spec *spec) {
    struct pin_error err = {0};
    for (size_t i = 0; i < count; i++)
        if (pin_secret_spec_parse(specs[i], spec, &err) && spec->form == PIN_SECRET_FILE &&
            strcmp(spec->target, file) == 0)
            return spec->name;
    return NULL;
}

static bool of_sandbox(const struct pin_kept *kept, const char *file, struct pin_secret_spec *spec) {
    return owner_of(kept->given->secrets, kept->given->secret_count, file, spec) != NULL;
}

/* Also of one that has yet to start, unless `there`. */
static bool of_other(const struct pin_kept *kept, const struct exec *but, bool there, const char *file,
                     struct pin_secret_spec *spec) {
    for (const struct exec *exec = kept->execs; exec != NULL; exec = exec->next)
        if (exec != but && exec->state != EXEC_DONE && (exec->has_files || !there) &&
            owner_of(exec->request.secrets, exec->request.secret_count, file, spec) != NULL)
            return true;
    return false;
}

/* Two that want one name for different values would each read the other's. */
static bool may_have_file(const struct pin_kept *kept, const struct pin_kept_request *request, size_t at,
                          struct pin_error *err) {
    struct pin_secret_spec spec, other;
    if (!pin_secret_spec_parse(request->secrets[at], &spec, err))
        return false;
    if (spec.form != PIN_SECRET_FILE)
        return true;
    if (!kept->given->secret_folder)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "the sandbox was made without a folder for secrets");
    bool taken = of_sandbox(kept, spec.target, &other) || of_other(kept, NULL, false, spec.target, &other) ||
                 owner_of(request->secrets, at, spec.target, &other) != NULL;
    if (!taken || strcmp(spec.name, other.name) == 0)
        return true;
    (void)pin_fail(err, PIN_ERROR_BUSY, "'/" PIN_SECRETS_FOLDER "/%.60s' is the file of another secret",
                   spec.target);
    return pin_hint(err, "give it another name: '%.30s:file=FILE'", spec.name);
}

static bool is_known(const struct pin_kept_given *given, const char *text) {
    struct pin_secret_spec asked, known;
    struct pin_error err = {0};
    if (!pin_secret_spec_parse(text, &asked, &err))
        return false;
    for (size_t i = 0; i < given->secret_count; i++)
        if (pin_secret_spec_parse(given->secrets[i], &known, &err) && known.form == asked.form &&
            strcmp(known.name, asked.name) == 0 && strcmp(known.target, asked.target) == 0)
            return true;
    return false;
}

void pin_exec_drop_known_secrets(const struct pin_kept *kept, struct pin_kept_request *request) {
    size_t left = 0;
    for (size_t i = 0; i < request->secret_count; i++)
        if (!is_known(kept->given, request->secrets[i]))
            request->secrets[left++] = request->secrets[i];
    request->secret_count = left;
}

bool pin_exec_may_have_secrets(const struct pin_kept *kept, const struct pin_kept_request *request,
                               struct pin_error *err) {
    const struct pin_kept_given *given = kept->given;
    for (size_t i = 0; i < request->secret_count; i++)
        if (!given->may_hand(given->self, request->secrets[i], err) || !may_have_file(kept, request, i, err))
            return false;
    return true;
}

bool pin_exec_remove_secret_files(const struct exec *exec) {
    struct pin_kept *kept = exec->kept;
    const struct pin_kept_given *given = kept->given;
    struct pin_secret_spec spec, other;
    struct pin_error err = {0};
    bool all = true;
    for (size_t i = 0; i < exec->request.secret_count; i++)
        if (exec->has_files && pin_secret_spec_parse(exec->request.secrets[i], &spec, &err) &&
            spec.form == PIN_SECRET_FILE && !of_sandbox(kept, spec.target, &other) &&
            !of_other(kept, exec, true, spec.target, &other) && !kept->over)
            all = pin_secret_files_remove(given->sandbox->init, given->uid, given->gid, spec.target,
                                          &kept->files, &err) &&
                  all;
    return all;
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
    exec->has_files = true;
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
        pin_arena_array(&request->arena, request->env_count + exec->secrets.count + 4, sizeof(*list));
    size_t at = 0;
    for (size_t i = 0; i < request->env_count; i++)
        if (!is_secret(exec, request->env[i]))
            list[at++] = request->env[i];
    for (size_t i = 0; i < exec->secrets.count; i++)
        if (exec->secrets.list[i].spec.form == PIN_SECRET_ENV)
            list[at++] = pin_secret_variable(&exec->secrets.list[i]);
    if (request->context)
        list[at++] = "NODE_CHANNEL_FD=3";
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

void pin_exec_mask_error(const struct exec *exec, struct pin_error *err) {
    const struct shared_mask *mask = exec->mask != NULL ? exec->mask : exec->kept->mask;
    pin_mask_error(mask != NULL ? mask->mask : NULL, err);
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
