/* `pinfold tool serve`: calls over standard input and output, for a client that stays connected. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/supervise/result.h"
#include "tools/pinfold-tool/request.h"
#include "tools/pinfold-tool/verbs.h"
#include "tools/pinfold/report.h"

#define LINE_MAX_BYTES PIN_TOOL_REQUEST_MAX
#define ANSWER_MAX ((size_t)3 * 1024 * 1024 * 1024)
#define RUNNING_MAX 64

static const struct pin_option options[] = {PIN_CALL_ROWS};

struct server;

struct job { /* one call; a thread of its own */
    struct server *server;
    struct job *next;
    json_t *id, *request;
    bool cancelled, answered;
    int socket;           /* to the sandbox that answers it; -1: none */
    pid_t child;          /* the program that runs it cold; 0: none */
    const char *prepares; /* the kind of sandbox that it starts behind its answer; NULL: none */
};

struct server {
    const struct pin_call_options *values;
    char **cold_argv, **prepare_argv; /* of ourselves, with the same options */
    pthread_mutex_t lock; /* of all below, and of every job's `cancelled`, `socket`, `child` and `prepares` */
    pthread_cond_t fewer;
    struct job *jobs;
    size_t running;
};

static void answer(struct server *server, json_t *line) {
    struct pin_error err = {0};
    (void)pthread_mutex_lock(&server->lock);
    if (line != NULL && !pin_json_print(STDOUT_FILENO, line, &err))
        _exit(PIN_REPORT_EXIT); /* nobody listens any more: what runs ends with our connections */
    (void)pthread_mutex_unlock(&server->lock);
    json_decref(line);
}

static json_t *refusal(json_t *id, json_t *error) { /* takes the error over */
    json_t *line = json_pack("{s:O, s:i}", "id", id, "exit_code", PIN_REPORT_EXIT);
    (void)json_object_update_missing(line, error);
    json_decref(error);
    return line;
}

static void finish(struct job *job, json_t *line) {
    job->answered = true;
    answer(job->server, line);
}

static void finish_error(struct job *job, const struct pin_error *err) {
    finish(job, refusal(job->id, pin_error_json(err)));
}

static void on_connected(void *self, int socket) {
    struct job *job = self;
    (void)pthread_mutex_lock(&job->server->lock);
    job->socket = job->cancelled ? -1 : socket;
    if (job->cancelled && socket >= 0)
        (void)shutdown(socket, SHUT_RDWR);
    (void)pthread_mutex_unlock(&job->server->lock);
}

/* Ourselves as another verb. It is told to end when we do, however we do: the thread that starts it waits for
 * it. */
static pid_t run_self(char **argv, int in, int out, struct pin_error *err) {
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        (void)pin_fail_errno(err, "run '%s'", argv[1]);
    if (pid != 0)
        return pid;
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent && dup2(in, STDIN_FILENO) >= 0 &&
        dup2(out, STDOUT_FILENO) >= 0)
        (void)execv("/proc/self/exe", argv);
    _exit(PIN_REPORT_EXIT);
}

static int text_file(const json_t *request, struct pin_error *err) {
    PIN_FREE char *text = json_dumps(request, JSON_COMPACT);
    PIN_CLOSE int file = memfd_create("tool-call", MFD_CLOEXEC);
    if (text == NULL)
        errno = ENOMEM;
    if (text != NULL && file >= 0 && pin_write_all(file, text, strlen(text), err) &&
        lseek(file, 0, SEEK_SET) == 0)
        return pin_steal_fd(&file);
    if (!pin_is_set(err))
        (void)pin_fail_errno(err, "hand a call on");
    return -1;
}

/* Not twice for the same burst of calls. */
static bool takes_on(struct job *job, const char *kind) {
    bool ours = true;
    (void)pthread_mutex_lock(&job->server->lock);
    for (const struct job *other = job->server->jobs; other != NULL; other = other->next)
        ours = ours && (other->prepares == NULL || strcmp(other->prepares, kind) != 0);
    job->prepares = ours ? kind : NULL;
    (void)pthread_mutex_unlock(&job->server->lock);
    return ours;
}

/* Behind the answer. */
static void prepare(struct job *job, const char *kind) {
    struct pin_error err = {0};
    if (!takes_on(job, kind))
        return;
    PIN_CLOSE int in = text_file(job->request, &err);
    PIN_CLOSE int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    pid_t pid = in < 0 || null < 0 ? -1 : run_self(job->server->prepare_argv, in, null, &err);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    (void)pthread_mutex_lock(&job->server->lock);
    job->prepares = NULL;
    (void)pthread_mutex_unlock(&job->server->lock);
}

static int exit_code_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void set_child(struct job *job, pid_t pid) {
    (void)pthread_mutex_lock(&job->server->lock);
    job->child = pid;
    if (pid > 0 && job->cancelled)
        (void)kill(pid, SIGTERM);
    (void)pthread_mutex_unlock(&job->server->lock);
}

/* By `tool call`, which also starts what is missing. */
static void run_cold(struct job *job) {
    struct pin_error err = {0};
    int ends[2] = {-1, -1}, status = 0;
    size_t size = 0;
    PIN_CLOSE int in = text_file(job->request, &err);
    if (in < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        if (!pin_is_set(&err))
            (void)pin_fail_errno(&err, "make a pipe");
        finish_error(job, &err);
        return;
    }
    PIN_CLOSE int from = ends[0];
    pid_t pid = run_self(job->server->cold_argv, in, ends[1], &err);
    (void)close(ends[1]);
    set_child(job, pid);
    PIN_FREE char *text = pid < 0 ? NULL : pin_read_all(from, ANSWER_MAX, &size, &err);
    set_child(job, 0);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    json_t *json = text == NULL ? NULL : json_loadb(text, size, JSON_ALLOW_NUL, NULL);
    if (json == NULL && !pin_is_set(&err))
        (void)pin_fail(&err, PIN_ERROR_SYSTEM, "the call ended with status %d, and without a result",
                       exit_code_of(status));
    if (job->cancelled)
        json_decref(json);
    else if (json == NULL)
        finish_error(job, &err);
    else if (json_object_get(json, "error") != NULL)
        finish(job, refusal(job->id, json));
    else
        finish(job, json_pack("{s:O, s:i, s:o}", "id", job->id, "exit_code", exit_code_of(status), "result",
                              json));
}

/* True: it has been answered. */
static bool run_warm(struct job *job, struct pin_call *call, const struct pin_front *front) {
    struct pin_warm warm = pin_call_warm(call, front);
    struct pin_error err = {0};
    json_t *result = NULL;
    int code = 0;
    warm.receipt = job->server->values->receipt != NULL;
    warm.self = job;
    warm.connected = on_connected;
    enum pin_warm_end end = pin_warm_begin(&warm, &err);
    if (end == PIN_WARM_NONE)
        end = pin_warm_call(&warm, &result, &code, &err);
    on_connected(job, -1);
    pin_warm_free(&warm);
    if (end == PIN_WARM_ANSWERED)
        pin_call_deps_tell(&call->deps, result);
    if (end == PIN_WARM_ANSWERED)
        finish(job, json_pack("{s:O, s:i, s:o}", "id", job->id, "exit_code", code, "result", result));
    else if (end == PIN_WARM_FAILED && !job->cancelled)
        finish_error(job, &err);
    if (end == PIN_WARM_ANSWERED && pin_warm_wants_more(&warm, end))
        prepare(job, warm.prefix);
    return end == PIN_WARM_ANSWERED || end == PIN_WARM_FAILED;
}

static void run_job(struct job *job) {
    struct pin_front front = PIN_FRONT_NONE;
    struct pin_call call = {.installs = PIN_INSTALLS_FOUND}; /* the cold call installs */
    struct pin_findings *found = calloc(1, sizeof(*found));
    PIN_FREE char *text = json_dumps(job->request, JSON_COMPACT);
    bool done = false;
    if (found != NULL && text != NULL &&
        pin_call_resolve(&call, &front, text, strlen(text), job->server->values, found))
        done = call.request.reuse != PIN_TOOL_REUSE_COLD && run_warm(job, &call, &front);
    /* what is refused, `tool call` refuses: with every fault, and in the audit log */
    if (!done && !job->cancelled)
        run_cold(job);
    if (!job->answered)
        finish(job, json_pack("{s:O, s:i, s:b}", "id", job->id, "exit_code", 128 + SIGTERM, "cancelled", 1));
    free(found);
    pin_front_free(&front);
    pin_call_release(&call);
}

static void forget(struct job *job) {
    struct server *server = job->server;
    (void)pthread_mutex_lock(&server->lock);
    for (struct job **slot = &server->jobs; *slot != NULL; slot = &(*slot)->next)
        if (*slot == job) {
            *slot = job->next;
            break;
        }
    server->running--;
    (void)pthread_cond_broadcast(&server->fewer);
    (void)pthread_mutex_unlock(&server->lock);
    json_decref(job->id);
    json_decref(job->request);
    free(job);
}

static void *run_thread(void *self) {
    run_job(self);
    forget(self);
    return NULL;
}

static void cancel(struct job *job) {
    job->cancelled = true;
    if (job->socket >= 0)
        (void)shutdown(job->socket, SHUT_RDWR); /* the sandbox kills the call of a client that has gone */
    if (job->child > 0)
        (void)kill(job->child, SIGTERM);
}

/* NULL: all of them. */
static void cancel_all(struct server *server, const json_t *id) {
    (void)pthread_mutex_lock(&server->lock);
    for (struct job *job = server->jobs; job != NULL; job = job->next)
        if (id == NULL || json_equal(job->id, id))
            cancel(job);
    (void)pthread_mutex_unlock(&server->lock);
}

static bool start_job(struct server *server, json_t *id, json_t *request, struct pin_error *err) {
    struct job *job = calloc(1, sizeof(*job));
    pthread_t thread;
    if (job == NULL)
        return pin_fail_errno(err, "make room for a call");
    *job = (struct job){server, NULL, json_incref(id), json_incref(request), .socket = -1};
    (void)pthread_mutex_lock(&server->lock);
    while (server->running >= RUNNING_MAX)
        (void)pthread_cond_wait(&server->fewer, &server->lock);
    job->next = server->jobs;
    server->jobs = job;
    server->running++;
    (void)pthread_mutex_unlock(&server->lock);
    errno = pthread_create(&thread, NULL, run_thread, job);
    if (errno == 0)
        return pthread_detach(thread) == 0;
    (void)pin_fail_errno(err, "start a thread");
    forget(job);
    return false;
}

static void take_line(struct server *server, const char *text, size_t size) {
    struct pin_error err = {0};
    json_error_t fault;
    json_t *line = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    json_t *given = json_object_get(line, "id"), *request = json_object_get(line, "call");
    json_t *id = json_is_integer(given) || json_is_string(given) ? json_incref(given) : json_null();
    const json_t *cancelled = json_object_get(line, "cancel");
    if (!json_is_object(line))
        (void)pin_fail(&err, PIN_ERROR_SYNTAX, "a line must be one JSON object");
    else if (cancelled != NULL && request == NULL)
        cancel_all(server, cancelled);
    else if (json_is_null(id) || !json_is_object(request) || json_object_size(line) != 2)
        (void)pin_fail(&err, PIN_ERROR_INVALID, "a line must have 'id' and 'call', or 'cancel'");
    else
        (void)start_job(server, id, request, &err);
    if (pin_is_set(&err))
        answer(server, refusal(id, pin_error_json(&err)));
    json_decref(id);
    json_decref(line);
}

/* One reader, and the longest line's room at most. */
static bool read_lines(struct server *server, struct pin_error *err) {
    PIN_FREE char *text = NULL;
    size_t room = 0;
    ssize_t size;
    while ((size = getline(&text, &room, stdin)) >= 0) {
        if ((size_t)size > LINE_MAX_BYTES)
            return pin_fail(err, PIN_ERROR_INVALID, "a line has more than %zu bytes", LINE_MAX_BYTES);
        if (size > 1)
            take_line(server, text, (size_t)size);
    }
    return true;
}

/* Our own command line with another verb: the options are the same. */
static char **with_verb(const struct pin_invocation *invocation, const char *verb, struct pin_arena *arena) {
    char **given = invocation->words;
    size_t count = 0;
    while (given[count] != NULL)
        count++;
    char **argv = pin_arena_array(arena, count + 4, sizeof(*argv));
    argv[0] = pin_arena_strdup(arena, "tool");
    argv[1] = pin_arena_strdup(arena, verb);
    memcpy(argv + 2, given, count * sizeof(*argv));
    argv[count + 2] = pin_arena_strdup(arena, "-");
    return argv;
}

static int run_serve(const struct pin_invocation *invocation) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_error err = {0};
    struct server server = {
        .values = invocation->values,
        .cold_argv = with_verb(invocation, "call", &arena),
        .prepare_argv = with_verb(invocation, "prepare", &arena),
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .fewer = PTHREAD_COND_INITIALIZER,
    };
    json_object_seed(0); /* before there are threads */
    bool ok = read_lines(&server, &err);
    cancel_all(&server, NULL);
    (void)pthread_mutex_lock(&server.lock);
    while (server.running > 0)
        (void)pthread_cond_wait(&server.fewer, &server.lock);
    (void)pthread_mutex_unlock(&server.lock);
    return ok ? 0 : pin_report(&err, true);
}

const struct pin_verb pin_tool_verb_serve = {
    .name = "tool serve",
    .synopsis = "",
    .summary = "answer calls over standard input and output",
    .description = "One JSON object a line: {\"id\": 1, \"call\": {…}}, where the call is a request of 'tool "
                   "call'; answered, in the "
                   "order in which they end, by {\"id\": 1, \"exit_code\": 0, \"result\": {…}}. {\"cancel\": "
                   "1} ends a call. At the "
                   "end of input what still runs is ended.",
    .example = "  echo '{\"id\": 1, \"call\": {\"language\": \"python\", \"name\": \"f\", \"source\": \"def "
               "f(): return 1\"}}' | pinfold tool serve",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct pin_call_options),
    .run = run_serve,
};
