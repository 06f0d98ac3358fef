#include "tools/pinfold-image/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"

#define ERRORS_MAX ((size_t)64 * 1024)

struct stream { /* of a program: the end is kept where there is more than its bound */
    char *data;
    size_t size, limit;
    int from;
    bool keep_end;
};

/* The caller's variables, and those of `over` in the place of theirs; the array is the caller's to free. */
static char **merge_environment(const char *const *over) {
    size_t count = 0, own = 0;
    while (environ[own] != NULL)
        own++;
    size_t more = 0;
    while (over != NULL && over[more] != NULL)
        more++;
    char **merged = calloc(own + more + 1, sizeof(*merged));
    if (merged == NULL)
        abort();
    for (size_t i = 0; i < own; i++) {
        bool covered = false;
        size_t name = strcspn(environ[i], "=") + 1;
        for (size_t k = 0; k < more && !covered; k++)
            covered = strncmp(environ[i], over[k], name) == 0;
        if (!covered)
            merged[count++] = environ[i];
    }
    if (more > 0)
        memcpy(merged + count, over, more * sizeof(*merged));
    return merged;
}

struct start { /* of a program: made before the fork, used after it */
    char **argv, **environment;
    uint64_t file_max;
    int out, errors, failed; /* `failed` takes the errno of what went wrong */
};

static bool bound_files(uint64_t most) {
    struct rlimit limit;
    if (most == 0)
        return true;
    if (getrlimit(RLIMIT_FSIZE, &limit) < 0)
        return false;
    limit.rlim_cur = limit.rlim_max = limit.rlim_max < most ? limit.rlim_max : most;
    return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

/* Between fork and execution; it dies with us, however we die. */
__attribute__((noreturn)) static void become(const struct start *start, pid_t parent) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int out = start->out >= 0 ? start->out : null;
    if (null >= 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent &&
        bound_files(start->file_max) && dup2(null, 0) == 0 && dup2(out, 1) == 1 &&
        dup2(start->errors, 2) == 2)
        (void)execvpe(start->argv[0], start->argv, start->environment);
    int cause = errno;
    pin_ignore(write(start->failed, &cause, sizeof(cause)));
    _exit(127);
}

static bool fork_program(const struct start *start, int told, pid_t *pid, struct pin_error *err) {
    pid_t parent = getpid();
    int cause = 0;
    *pid = fork();
    if (*pid < 0)
        return pin_fail_errno(err, "start '%.100s'", start->argv[0]);
    if (*pid == 0)
        become(start, parent);
    (void)close(start->failed);
    if (read(told, &cause, sizeof(cause)) != (ssize_t)sizeof(cause))
        return true; /* executed, which closed the pipe */
    (void)waitpid(*pid, NULL, 0);
    errno = cause;
    return pin_fail_errno(err, "run '%.100s'", start->argv[0]);
}

static bool spawn(const struct program *program, int out, int errors, pid_t *pid, struct pin_error *err) {
    char *argv[PROGRAM_ARGUMENTS_MAX + 1];
    size_t count = 0;
    int failed[2];
    for (; program->argv[count] != NULL; count++)
        if (count == PROGRAM_ARGUMENTS_MAX)
            return pin_fail(err, PIN_ERROR_EXHAUSTED, "too many arguments for '%.60s'", program->argv[0]);
    memcpy(argv, program->argv, (count + 1) * sizeof(*argv)); /* execvpe() doesn't write to them */
    if (pipe2(failed, O_CLOEXEC) < 0)
        return pin_fail_errno(err, "make a pipe");
    PIN_CLOSE int told = failed[0];
    PIN_FREE char **environment = merge_environment(program->environment);
    const struct start start = {.argv = argv,
                                .environment = environment,
                                .file_max = program->file_max,
                                .out = program->output_max > 0 ? out
                                       : program->show         ? STDERR_FILENO
                                                               : -1,
                                .errors = errors,
                                .failed = failed[1]};
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, which the analyzer doesn't see */
    return fork_program(&start, told, pid, err);
}

static void keep(struct stream *stream, const char *piece, size_t size) {
    if (stream->keep_end && stream->size + size > stream->limit) {
        size_t gone = stream->size + size - stream->limit;
        gone = gone < stream->size ? gone : stream->size;
        memmove(stream->data, stream->data + gone, stream->size - gone);
        stream->size -= gone;
    }
    size_t room = stream->limit - stream->size, kept = size < room ? size : room;
    char *more = realloc(stream->data, stream->size + kept + 1);
    if (more == NULL)
        abort();
    stream->data = more;
    memcpy(more + stream->size, piece, kept);
    stream->size += kept;
    more[stream->size] = '\0';
}

/* False at the end. */
static bool take(struct stream *stream) {
    char piece[16384];
    ssize_t got = read(stream->from, piece, sizeof(piece));
    if (got > 0)
        keep(stream, piece, (size_t)got);
    return got > 0 || (got < 0 && errno == EINTR);
}

static void take_all(struct stream *out, struct stream *errors) {
    struct pollfd waits[2] = {
        {.fd = out->from,    .events = POLLIN},
        {.fd = errors->from, .events = POLLIN}
    };
    while (waits[0].fd >= 0 || waits[1].fd >= 0) {
        if (poll(waits, 2, -1) < 0) {
            if (errno != EINTR)
                return;
            continue;
        }
        if (waits[0].revents != 0 && !take(out))
            waits[0].fd = -1;
        if (waits[1].revents != 0 && !take(errors))
            waits[1].fd = -1;
    }
}

static bool wait_for(pid_t pid, const char *name, int *code, struct pin_error *err) {
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return pin_fail_errno(err, "wait for '%.100s'", name);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

bool program_run(const struct program *program, struct program_output *output, struct pin_error *err) {
    int out[2], errors[2];
    pid_t pid = -1;
    *output = (struct program_output){0};
    if (pipe2(errors, O_CLOEXEC) < 0)
        return pin_fail_errno(err, "make a pipe");
    PIN_CLOSE int errors_read = errors[0], errors_write = errors[1];
    if (pipe2(out, O_CLOEXEC) < 0)
        return pin_fail_errno(err, "make a pipe");
    PIN_CLOSE int out_read = out[0], out_write = out[1];
    if (!spawn(program, out_write, errors_write, &pid, err))
        return false;
    pin_close_fd(&out_write);
    pin_close_fd(&errors_write);
    struct stream standard = {.from = out_read, .limit = program->output_max},
                  faults = {.from = errors_read, .limit = ERRORS_MAX, .keep_end = true};
    take_all(&standard, &faults);
    output->out = standard.data;
    output->out_size = standard.size;
    output->errors = faults.data;
    output->errors_size = faults.size;
    return wait_for(pid, program->argv[0], &output->code, err);
}

void program_output_free(struct program_output *output) {
    free(output->out);
    free(output->errors);
    *output = (struct program_output){0};
}

char *program_last_words(const struct program_output *output, char *to, size_t room) {
    const char *text = output->errors == NULL ? "" : output->errors;
    size_t size = output->errors_size;
    while (size > 0 && text[size - 1] == '\n')
        size--;
    const char *before = size == 0 ? NULL : memrchr(text, '\n', size);
    const char *line = before == NULL ? text : before + 1;
    if (size == 0)
        return pin_escape(to, room, "it says nothing", strlen("it says nothing"));
    return pin_escape(to, room, line, size - (size_t)(line - text));
}
