/* One installation: a run of its own, in a child, whose output goes to standard error as it comes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "policy/policy_read.h"
#include "tools/pinfold-tool/deps.h"
#include "tools/pinfold/one_shot.h"
#include "tools/pinfold/report.h"

#define TAIL_MAX 4096                     /* bytes of output that an error may be looked for in */
#define BYTES_MAX (UINT64_C(8) * PIN_GIB) /* of one installation, as of the profile's workspace */
#define ENTRIES_MAX UINT64_C(2000000)     /* files and folders of one */
#define MEASURE_MS 1000

#define DENIED_MAX 2048 /* bytes of hosts */
#define HTTPS_PORT 443

enum { EXIT_TIMEOUT = 124, EXIT_MEMORY = 137 };

static const struct {
    const char *program, *flag;
} drivers[] = {
    [PIN_INSTALLER_PIP] = {"python3", "-c"},
    [PIN_INSTALLER_NPM] = {"node",    "-e"},
};

/* --- in the child --- */

static int make_input(const char *packet, struct pin_error *err) {
    PIN_CLOSE int input = memfd_create("installation", MFD_CLOEXEC);
    if (input < 0 || !pin_write_all(input, packet, strlen(packet), err) || lseek(input, 0, SEEK_SET) != 0) {
        if (!pin_is_set(err))
            (void)pin_fail_errno(err, "hand the requirements over");
        return -1;
    }
    return pin_steal_fd(&input);
}

static bool plan(struct pin_one_shot *run, const struct pin_front_options *options, char **argv,
                 struct pin_findings *found) {
    run->front.request.records = true;
    return pin_front_bundle(&run->front, options, argv, 3, found) && pin_front_plan(&run->front, found);
}

/* "HOST:PORT", a line each, of what was asked for and isn't allowed: the index keeps files there, perhaps. */
static void tell_denied(const json_t *denials, int told) {
    char text[DENIED_MAX] = "";
    size_t i, size = 0;
    const json_t *denial;
    json_array_foreach(denials, i, denial) {
        char line[DENIED_MAX];
        const char *host = json_string_value(json_object_get(denial, "host"));
        json_int_t port = json_integer_value(json_object_get(denial, "port"));
        if (host == NULL)
            continue;
        if (port <= 0) /* its name was asked for, and no more */
            port = HTTPS_PORT;
        (void)snprintf(line, sizeof(line), "%s:%lld\n", host, (long long)port);
        if (strstr(text, line) == NULL && size + strlen(line) < sizeof(text))
            size += (size_t)snprintf(text + size, sizeof(text) - size, "%s", line);
    }
    pin_ignore(write(told, text, size)); /* the error is less clear without it */
}

static int run_child(const struct pin_deps_job *job, const char *policy, const char *packet, int told) {
    static struct pin_findings found;
    struct pin_error err = {0};
    struct pin_one_shot run = PIN_ONE_SHOT_NONE;
    char *argv[] = {strdup(drivers[job->installer].program), strdup(drivers[job->installer].flag),
                    strdup(job->driver), NULL};
    const struct pin_front_options options = {
        .policy = "dependencies",
        .policy_text = policy,
        .site = job->options->site,
        .image = job->options->image,
        .frames = pin_name_find(pin_front_frames, 4, "none"),
        .on_exit = -1,
    };
    int code = PIN_REPORT_EXIT;
    PIN_CLOSE int input = make_input(packet, &err);
    const struct pin_one_shot_settings settings = {
        .output = PIN_OUTPUT_PASS, .input = input, .io = PIN_IO_AUTO};
    if (input >= 0 && !plan(&run, &options, argv, &found))
        code = pin_report_findings(&found, false);
    else if (input < 0 || !pin_one_shot_run(&run, &settings, &err))
        code = pin_report(&err, false);
    else
        code = run.result.exit_code;
    tell_denied(run.result.denials, told);
    pin_one_shot_free(&run);
    for (size_t i = 0; i < PIN_COUNT(argv); i++)
        free(argv[i]);
    return code;
}

static pid_t start(const struct pin_deps_job *job, const char *policy, const char *packet, int output,
                   int told, struct pin_error *err) {
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        (void)pin_fail_errno(err, "start the installation");
    if (pid != 0)
        return pid;
    /* whoever kills the caller kills the installation: with its supervisor, the sandbox dies */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0)
        _exit(PIN_REPORT_EXIT);
    int code = run_child(job, policy, packet, told);
    (void)fflush(NULL);
    _exit(code);
}

/* --- in the parent --- */

struct watch {
    const struct pin_deps_job *job;
    pid_t pid;
    int output;
    char tail[TAIL_MAX];
    size_t size;
    const char *limit;       /* what it went beyond; NULL: nothing */
    char denied[DENIED_MAX]; /* where it wasn't let to */
};

static void keep_tail(struct watch *watch, const char *data, size_t size) {
    if (size > sizeof(watch->tail)) {
        data += size - sizeof(watch->tail);
        size = sizeof(watch->tail);
    }
    size_t kept = watch->size + size > sizeof(watch->tail) ? sizeof(watch->tail) - size : watch->size;
    memmove(watch->tail, watch->tail + watch->size - kept, kept);
    memcpy(watch->tail + kept, data, size);
    watch->size = kept + size;
}

/* Lines are the installer's: a terminal gets them without what would steer it. */
static void show(const char *data, size_t size) {
    struct pin_error ignored = {0}; /* who doesn't read the progress doesn't get it */
    if (!isatty(STDERR_FILENO)) {
        (void)pin_write_all(STDERR_FILENO, data, size, &ignored);
        return;
    }
    for (const char *end = data + size; data < end;) {
        char shown[2048];
        size_t length = strcspn(data, "\n");
        length = length > (size_t)(end - data) ? (size_t)(end - data) : length;
        length = length > 400 ? 400 : length;
        (void)pin_escape(shown, sizeof(shown), data, length);
        (void)fprintf(stderr, "%s%s", shown, data + length < end && data[length] == '\n' ? "\n" : "");
        data += length + (data + length < end && data[length] == '\n');
    }
}

static void check_size(struct watch *watch) {
    struct pin_deps_size size;
    pin_deps_measure(watch->job->parent, watch->job->folder, &size);
    if (size.bytes > BYTES_MAX)
        watch->limit = "8 GiB";
    else if (size.entries > ENTRIES_MAX)
        watch->limit = "2000000 files";
    if (watch->limit != NULL)
        (void)kill(watch->pid, SIGKILL);
}

/* To the end of the output. A host's disk is no tmpfs: what grows too large is ended. */
static void follow(struct watch *watch) {
    char data[4096 + 1];
    struct pollfd poller = {.fd = watch->output, .events = POLLIN};
    uint64_t measured_ns = pin_now_ns();
    for (;;) {
        int ready = poll(&poller, 1, MEASURE_MS);
        if (ready < 0 && errno != EINTR)
            return;
        if (watch->limit == NULL && pin_now_ns() - measured_ns >= MEASURE_MS * PIN_NS_PER_MS) {
            check_size(watch);
            measured_ns = pin_now_ns();
        }
        ssize_t got = ready > 0 ? read(watch->output, data, sizeof(data) - 1) : -1;
        if (ready > 0 && got <= 0)
            return;
        if (got > 0) {
            data[got] = '\0';
            show(data, (size_t)got);
            keep_tail(watch, data, (size_t)got);
        }
    }
}

/* npm tells codes and places before it says what is wrong: "npm error code ETARGET". */
static bool is_fact_of_npm(const char *error) {
    static const char *const facts[] = {"code ", "errno ", "path ", "syscall "};
    for (size_t i = 0; i < PIN_COUNT(facts); i++)
        if (strncmp(error, facts[i], strlen(facts[i])) == 0)
            return true;
    return false;
}

/* The first line that the installer calls an error, of the last few; else the last line. */
static void find_reason(struct watch *watch, char to[240]) {
    static const char *const signs[] = {"ERROR: ", "error: ", "npm ERR! ", "npm error ", "pinfold: "};
    char text[TAIL_MAX + 1];
    const char *reason = NULL, *last = "it said nothing";
    memcpy(text, watch->tail, watch->size);
    text[watch->size] = '\0';
    for (size_t i = 0; i < watch->size; i++)
        text[i] = text[i] == '\0' ? ' ' : text[i];
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (line[0] != '\0')
            last = line;
        for (size_t i = 0; i < PIN_COUNT(signs) && reason == NULL; i++)
            if (strncmp(line, signs[i], strlen(signs[i])) == 0 &&
                (line[0] != 'n' || !is_fact_of_npm(line + strlen(signs[i]))))
                reason = line + strlen(signs[i]);
    }
    const char *said = reason != NULL ? reason : last;
    (void)pin_escape(to, 240, said, strlen(said));
}

static bool explain(struct watch *watch, int status, struct pin_error *err) {
    const char *name = pin_installer_name(watch->job->installer);
    char reason[240];
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == 0 && watch->limit == NULL)
        return true;
    (void)find_reason(watch, reason);
    if (watch->limit != NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "the requirements need more than %s", watch->limit);
    if (code == EXIT_TIMEOUT)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "%s took longer than the time limit of installations",
                        name);
    if (code == EXIT_MEMORY)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "%s needed more than the memory limit of installations",
                        name);
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "%s couldn't install the requirements: %s", name, reason);
    size_t first = strcspn(watch->denied, "\n");
    if (first == 0)
        return pin_hint(err, "its output is on standard error");
    (void)pin_escape(reason, sizeof(reason), watch->denied, first);
    return pin_hint(err,
                    "if the index keeps files there, add \"%.60s\" (or its port) to index_hosts of the "
                    "configuration '%s'",
                    reason, watch->job->stored->name != NULL ? watch->job->stored->name : "default");
}

static bool run(const struct pin_deps_job *job, const char *policy, const char *packet,
                struct pin_error *err) {
    int ends[2], status = 0;
    struct watch *watch = calloc(1, sizeof(*watch));
    PIN_CLOSE int told = memfd_create("denied", MFD_CLOEXEC);
    if (watch == NULL || told < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        free(watch);
        return pin_fail_errno(err, "start the installation");
    }
    watch->job = job;
    watch->output = ends[0];
    watch->pid = start(job, policy, packet, ends[1], told, err);
    (void)close(ends[1]);
    bool good = watch->pid > 0;
    if (good) {
        follow(watch);
        while (waitpid(watch->pid, &status, 0) < 0 && errno == EINTR)
            continue;
        pin_ignore(pread(told, watch->denied, sizeof(watch->denied) - 1, 0));
        good = explain(watch, status, err);
    }
    (void)close(ends[0]);
    free(watch);
    return good;
}

/* The policy of the call says what this host may lack. */
static struct pin_policy *load_call_policy(const struct pin_deps_job *job, struct pin_error *err) {
    static struct pin_findings found;
    struct pin_policy *policy =
        pin_policy_load(job->options->policy != NULL ? job->options->policy : "tool", &found);
    if (policy == NULL)
        (void)pin_fail_findings(err, &found);
    return policy;
}

bool pin_deps_install(const struct pin_deps_job *job, struct pin_arena *arena, struct pin_error *err) {
    struct pin_deps_index index;
    struct pin_policy *call_policy = load_call_policy(job, err);
    if (call_policy == NULL)
        return false;
    bool found = pin_deps_index_find(job->installer, job->stored, arena, &index, err);
    PIN_FREE char *policy =
        found ? pin_deps_policy(&index, job->stored, job->path, job->target, call_policy, err) : NULL;
    PIN_FREE char *packet =
        policy != NULL ? pin_deps_packet(&index, job->requirements, job->target, err) : NULL;
    pin_policy_free(call_policy);
    return packet != NULL && run(job, policy, packet, err);
}
