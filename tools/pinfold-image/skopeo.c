#include "tools/pinfold-image/skopeo.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "images/store/oci.h"

#define ARGUMENTS_MAX 12

struct output { /* of a program: kept up to a bound, read to the end */
    char *data;
    size_t size, limit;
    int from;
};

struct process {
    pid_t pid;
    struct output out, errors;
};

static bool not_there(struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_UNSUPPORTED,
                   "skopeo isn't installed, and registries are reached through it");
    return pin_hint(err, "apt install skopeo; or use 'pinfold image import' with a file");
}

static bool start(const char *const *argv, struct process *process, bool out_to_us, bool progress,
                  struct pin_error *err) {
    int out[2], errors[2];
    if (pipe2(errors, O_CLOEXEC) < 0)
        return pin_fail_errno(err, "make a pipe");
    if (pipe2(out, O_CLOEXEC) < 0) {
        (void)pin_fail_errno(err, "make a pipe");
        (void)close(errors[0]);
        (void)close(errors[1]);
        return false;
    }
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (out_to_us)
        (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    else if (progress)
        (void)posix_spawn_file_actions_adddup2(&actions, 2, 1);
    else
        (void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, errors[1], 2);
    char *args[ARGUMENTS_MAX]; /* posix_spawnp() doesn't write to them: POSIX, exec's rationale */
    memcpy(args, argv, sizeof(args));
    errno = posix_spawnp(&process->pid, "skopeo", &actions, NULL, args, environ);
    bool started = errno == 0;
    if (!started)
        (void)(errno == ENOENT ? not_there(err) : pin_fail_errno(err, "run skopeo"));
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(out[1]);
    (void)close(errors[1]);
    process->out.from = out[0];
    process->errors.from = errors[0];
    return started;
}

/* False at the end. */
static bool take(struct output *output) {
    char piece[16384];
    ssize_t got = read(output->from, piece, sizeof(piece));
    if (got < 0 && errno == EINTR)
        return true;
    if (got <= 0)
        return false;
    size_t room = output->limit - output->size, keep = (size_t)got < room ? (size_t)got : room;
    char *more = realloc(output->data, output->size + keep + 1);
    if (more == NULL)
        abort();
    output->data = more;
    memcpy(more + output->size, piece, keep);
    output->size += keep;
    more[output->size] = '\0';
    return true;
}

static void take_all(struct process *process) {
    struct pollfd waits[2] = {
        {.fd = process->out.from,    .events = POLLIN},
        {.fd = process->errors.from, .events = POLLIN}
    };
    while (waits[0].fd >= 0 || waits[1].fd >= 0) {
        if (poll(waits, 2, -1) < 0 && errno != EINTR)
            return;
        if (waits[0].revents != 0 && !take(&process->out))
            waits[0].fd = -1;
        if (waits[1].revents != 0 && !take(&process->errors))
            waits[1].fd = -1;
    }
}

/* Its last line says what is the matter: level=fatal msg="…". */
static bool failed(const struct output *errors, const char *reference, struct pin_error *err) {
    char nothing[1] = "", *text = errors->data == NULL ? nothing : errors->data;
    size_t size = errors->size;
    while (size > 0 && text[size - 1] == '\n')
        text[--size] = '\0';
    const char *line = size == 0 ? "it says nothing" : strrchr(text, '\n');
    line = line == NULL ? text : size == 0 ? line : line + 1;
    const char *said = strstr(line, "msg=\"");
    said = said == NULL ? line : said + strlen("msg=\"");
    char plain[512], shown[240]; /* without the quotes that skopeo escapes once more */
    size_t used = 0;
    for (; *said != '\0' && used + 1 < sizeof(plain); said++)
        if (*said != '\\' && *said != '"')
            plain[used++] = *said;
    (void)pin_escape(shown, sizeof(shown), plain, used);
    return pin_fail(err, PIN_ERROR_SYSTEM, "skopeo can't get '%.80s': %s", reference, shown);
}

static bool finish(struct process *process, const char *reference, struct pin_error *err) {
    int status;
    while (waitpid(process->pid, &status, 0) < 0)
        if (errno != EINTR)
            return pin_fail_errno(err, "wait for skopeo");
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) || failed(&process->errors, reference, err);
}

static bool run(const char *const *argv, const char *reference, char **out, size_t *size, bool progress,
                struct pin_error *err) {
    struct process process = {.out.limit = PIN_OCI_DOCUMENT_MAX + 1, .errors.limit = 8192};
    process.out.from = process.errors.from = -1;
    bool done = start(argv, &process, out != NULL, progress, err);
    if (done) {
        take_all(&process);
        done = finish(&process, reference, err);
    }
    pin_close_slot(&process.out.from);
    pin_close_slot(&process.errors.from);
    if (done && out != NULL) {
        *out = pin_steal_ptr(&process.out.data);
        *size = process.out.size;
    }
    free(process.out.data);
    free(process.errors.data);
    return done;
}

static size_t common(const struct skopeo *skopeo, const char *insecure, const char **argv, size_t count) {
    if (skopeo->authfile != NULL) {
        argv[count++] = "--authfile";
        argv[count++] = skopeo->authfile;
    }
    if (skopeo->insecure)
        argv[count++] = insecure;
    return count;
}

char *skopeo_inspect_raw(const struct skopeo *skopeo, const char *reference, size_t *size,
                         struct pin_error *err) {
    const char *argv[ARGUMENTS_MAX] = {"skopeo", "inspect", "--raw"};
    size_t count = common(skopeo, "--tls-verify=false", argv, 3);
    argv[count++] = "--";
    argv[count++] = reference;
    char *data = NULL;
    if (!run(argv, reference, &data, size, false, err))
        return NULL;
    if (data == NULL || *size > PIN_OCI_DOCUMENT_MAX) {
        free(data);
        (void)pin_fail(err, PIN_ERROR_INVALID, "the registry's manifest of '%.80s' is empty or too large",
                       reference);
        return NULL;
    }
    return data;
}

bool skopeo_copy(const struct skopeo *skopeo, const char *reference, const char *directory,
                 struct pin_error *err) {
    char to[PATH_MAX + 8];
    const char *argv[ARGUMENTS_MAX] = {"skopeo", "copy"};
    size_t count = common(skopeo, "--src-tls-verify=false", argv, 2);
    (void)snprintf(to, sizeof(to), "dir:%s", directory);
    argv[count++] = "--";
    argv[count++] = reference;
    argv[count++] = to;
    return run(argv, reference, NULL, NULL, skopeo->show_progress, err);
}
