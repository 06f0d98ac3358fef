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
static size_t room_for(const struct pin_tool_env *env) {
    size_t room = 1;
    for (size_t i = 0; i < env->sealed_count; i++)
        room += strlen(env->sealed[i]->name) + strlen(env->sealed[i]->sealed) + 2;
    return room;
}

static bool read_values(int output, struct pin_locked *text, size_t *size, struct pin_error *err) {
    ssize_t got;
    *size = 0;
    do {
        got = read(output, text->bytes + *size, text->size - 1 - *size);
        if (got > 0)
            *size += (size_t)got;
    } while (got > 0 || (got < 0 && errno == EINTR));
    return got == 0 || pin_fail_errno(err, "read the opened values");
}

/* NAME=VALUE and a zero, in the order of `env`. */
static bool take_values(const struct pin_tool_env *env, const struct pin_locked *text, size_t size,
                        struct pin_secrets *secrets, struct pin_error *err) {
    const char *at = (const char *)text->bytes, *end = at + size;
    for (size_t i = 0; i < env->sealed_count; i++) {
        size_t name = strlen(env->sealed[i]->name), whole = strnlen(at, (size_t)(end - at));
        if (at + whole == end || whole <= name || memcmp(at, env->sealed[i]->name, name) != 0 ||
            at[name] != '=')
            return pin_fail(err, PIN_ERROR_INTERNAL, "'%s' wasn't opened", env->sealed[i]->name);
        if (!pin_secrets_add(secrets, env->sealed[i]->name, at + name + 1, whole - name - 1, err))
            return false;
        at += whole + 1;
    }
    return true;
}

/* What went wrong has been said on standard error by the program itself. */
static bool await(pid_t pid, struct pin_error *err) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) || pin_is_set(err) ||
           pin_fail(err, PIN_ERROR_REFUSED, "sealed values of the configuration can't be opened");
}

static bool run(const struct pin_tool_env *env, int list, struct pin_secrets *secrets,
                struct pin_error *err) {
    char path[PATH_MAX];
    int ends[2];
    pid_t pid = -1;
    struct pin_locked text = {0};
    size_t size = 0;
    if (!pin_libexec_find("pinfold-config", path, err) || !pin_locked_alloc(&text, room_for(env), err))
        return false;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        pin_locked_free(&text);
        return pin_fail_errno(err, "open sealed values");
    }
    PIN_CLOSE int output = ends[0];
    PIN_CLOSE int other = ends[1];
    bool good = start(path, list, other, &pid, err);
    pin_close_fd(&other);
    good = good && read_values(output, &text, &size, err);
    if (pid > 0)
        good = await(pid, err) && good;
    good = good && take_values(env, &text, size, secrets, err);
    pin_locked_free(&text);
    return good;
}

bool pin_call_open_sealed(const struct pin_call_config *config, const struct pin_tool_env *env,
                          struct pin_secrets *secrets, struct pin_error *err) {
    if (env->sealed_count == 0)
        return true;
    PIN_CLOSE int list = make_list(&config->stored, env, err);
    return list >= 0 && run(env, list, secrets, err);
}
