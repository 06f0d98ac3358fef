/* Sealed values are opened by pinfold-config: this program holds no key and carries no cryptography. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "runtime/host/libexec.h"
#include "runtime/secrets/locked.h"
#include "tools/pinfold-tool/configure.h"

static int make_list(const struct pin_tool_config *stored, const struct pin_tool_env *env,
                     struct pin_error *err) {
    PIN_CLOSE int list = memfd_create("sealed", MFD_CLOEXEC);
    json_t *array = json_array();
    for (size_t i = 0; i < env->sealed_count; i++)
        (void)json_array_append_new(
            array, json_pack("{s:s, s:s, s:s, s:s}", "organisation", stored->organisation, "configuration",
                             stored->name, "name", env->sealed[i]->name, "sealed", env->sealed[i]->sealed));
    bool good = list >= 0 && json_dumpfd(array, list, JSON_COMPACT) == 0 && lseek(list, 0, SEEK_SET) == 0;
    json_decref(array);
    if (!good)
        (void)pin_fail_errno(err, "hand the sealed values over");
    return good ? pin_steal_fd(&list) : -1;
}

static bool start(const char *path, int input, int output, pid_t *pid, struct pin_error *err) {
    char *argv[] = {(char[]){"config"}, (char[]){"unseal"}, NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return pin_fail_errno(err, "start '%s'", path);
    int cause = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (cause == 0)
        cause = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (cause == 0)
        cause = posix_spawn(pid, path, &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    errno = cause;
    return cause == 0 || pin_fail_errno(err, "start '%s'", path);
}

/* A value is never longer than what it was sealed as. */
size_t pin_call_sealed_size(const struct pin_tool_env *env) {
    size_t size = 0;
    for (size_t i = 0; i < env->sealed_count; i++)
        size += strlen(env->sealed[i]->name) + strlen(env->sealed[i]->sealed) + 2;
    return size;
}

static bool read_values(int output, struct pin_locked *text, size_t *size, struct pin_error *err) {
    ssize_t got;
    *size = 0;
    do {
        got = read(output, text->bytes + *size, text->size - *size);
        if (got > 0)
            *size += (size_t)got;
    } while (got > 0 || (got < 0 && errno == EINTR));
    return got == 0 || pin_fail_errno(err, "read the opened values");
}

bool pin_call_begin_sealed(const struct pin_tool_config *stored, const struct pin_tool_env *env,
                           struct pin_sealed_opening *opening, struct pin_error *err) {
    char path[PATH_MAX];
    int ends[2];
    PIN_CLOSE int list = make_list(stored, env, err);
    if (list < 0 || !pin_libexec_find("pinfold-config", path, err))
        return false;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return pin_fail_errno(err, "open sealed values");
    opening->from = ends[0];
    bool good = start(path, list, ends[1], &opening->pid, err);
    (void)close(ends[1]);
    return good;
}

bool pin_call_end_sealed(struct pin_sealed_opening *opening, struct pin_error *err) {
    int status = 0;
    pin_close_fd(&opening->from);
    if (opening->pid <= 0)
        return true;
    while (waitpid(opening->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    opening->pid = 0;
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) || pin_is_set(err) ||
           pin_fail(err, PIN_ERROR_REFUSED, "sealed values of the configuration can't be opened");
}

bool pin_call_open_sealed(const struct pin_tool_config *stored, const struct pin_tool_env *env,
                          struct pin_secrets *secrets, struct pin_error *err) {
    struct pin_sealed_opening opening = {.from = -1};
    struct pin_locked text = {0};
    size_t size = 0;
    if (env->sealed_count == 0)
        return true;
    bool good = pin_locked_alloc(&text, pin_call_sealed_size(env) + 1, err) &&
                pin_call_begin_sealed(stored, env, &opening, err) &&
                read_values(opening.from, &text, &size, err);
    good = pin_call_end_sealed(&opening, err) && good;
    good = good && pin_secrets_add_pairs(secrets, (const char *)text.bytes, size, env->sealed_count, err);
    pin_locked_free(&text);
    return good;
}
