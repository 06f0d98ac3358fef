#include "tools/pinfold-policy/live.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/units.h"
#include "policy/address_class.h"
#include "policy/audit/arg_names.h"
#include "runtime/host/libexec.h"
#include "tools/pinfold-policy/probe.h"
#include "tools/pinfold/report.h"

#define ARGS_MAX 32
#define SAID_MAX 256
#define LIVE_SECRET "PINFOLD_LIVE_SECRET"

struct live {
    struct pin_arena arena;
    const char *pinfold, *probe;
    const char *folder; /* temporary: the policy and the workspace */
    const char *policy_file, *workspace;
    const struct pin_reach *reach;
    char said[SAID_MAX];
    int exit_code;
};

/* --- the programs --- */

static bool find_programs(struct live *live, struct pin_error *err) {
    char pinfold[PATH_MAX], probe[PATH_MAX], whole[PATH_MAX];
    if (!pin_libexec_find_pinfold(pinfold, err) || !pin_libexec_find(PIN_PROBE_NAME, probe, err))
        return false;
    live->pinfold = pin_arena_strdup(&live->arena, pinfold);
    live->probe = pin_arena_strdup(&live->arena, realpath(probe, whole) != NULL ? whole : probe);
    return true;
}

/* --- the policy and the workspace --- */

static bool write_policy(struct live *live, const char *policy, struct pin_error *err) {
    PIN_BUFFER struct pin_buffer text = {0};
    pin_buffer_add(&text, "{\"pinfold\":1,\"extends\":[");
    pin_buffer_json(&text, policy);
    pin_buffer_add(&text, "],\"filesystem\":{\"mounts\":{\"add\":[{\"source\":");
    pin_buffer_json(&text, live->probe);
    pin_buffer_add(&text, ",\"target\":\"" PIN_PROBE_TARGET "\",\"access\":\"read-only\"}]}}}");
    PIN_CLOSE int fd = open(live->policy_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return pin_fail_errno(err, "make '%s'", live->policy_file);
    return pin_write_all(fd, text.data, text.size, err);
}

static bool make_folder(struct live *live, const char *policy, struct pin_error *err) {
    char *folder = pin_arena_strdup(&live->arena, "/tmp/pinfold-live-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return pin_fail_errno(err, "make a directory in /tmp");
    live->folder = folder;
    live->policy_file = pin_arena_printf(&live->arena, "%s/policy.json", folder);
    live->workspace = pin_arena_printf(&live->arena, "%s/workspace", folder);
    if (mkdir(live->workspace, 0777) != 0 || chmod(live->workspace, 0777) != 0 || chmod(folder, 0711) != 0)
        return pin_fail_errno(err, "make '%s'", live->workspace);
    return write_policy(live, policy, err);
}

static void remove_folder(struct live *live) {
    if (live->folder == NULL)
        return;
    (void)unlink(live->policy_file); /* what a run left in the workspace is the prober's, and empty */
    (void)rmdir(live->workspace);
    (void)rmdir(live->folder);
}

/* --- one run --- */

struct command {
    const char *args[ARGS_MAX];
    size_t count;
};

static void push(struct command *command, const char *word) {
    if (command->count < ARGS_MAX - 1)
        command->args[command->count++] = word;
}

static void push_run(struct live *live, struct command *command) {
    static const char *const suffixes[] = {[PIN_ACCESS_NONE] = NULL,
                                           [PIN_ACCESS_READ] = ":ro",
                                           [PIN_ACCESS_COW] = ":cow",
                                           [PIN_ACCESS_WRITE] = ""};
    _Static_assert(PIN_COUNT(suffixes) == PIN_ACCESS_COUNT, "every access has its suffix");
    const struct pin_policy *policy = live->reach->policy;
    push(command, live->pinfold);
    push(command, "run");
    push(command, "--policy");
    push(command, live->policy_file);
    if (policy->filesystem.workspace != PIN_ACCESS_NONE) {
        push(command, "--workspace");
        push(command,
             pin_arena_printf(&live->arena, "%s%s", live->workspace, suffixes[policy->filesystem.workspace]));
    }
    for (size_t i = 0; i < policy->audit.require_labels.count && i < 4; i++) {
        push(command, "--label");
        push(command, pin_arena_printf(&live->arena, "%s=live", policy->audit.require_labels.items[i].text));
    }
}

static bool start(const struct command *command, pid_t *child, int *output, struct pin_error *err) {
    int pipes[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return pin_fail_errno(err, "make a pipe");
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, pipes[1], STDERR_FILENO);
    /* posix_spawn takes strings that it doesn't change, by a type that says otherwise */
    char *args[ARGS_MAX] = {NULL};
    memcpy(args, command->args, command->count * sizeof(args[0]));
    int failed = posix_spawn(child, command->args[0], &actions, NULL, args, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(pipes[1]);
    if (failed != 0) {
        (void)close(pipes[0]);
        errno = failed;
        return pin_fail_errno(err, "run '%s'", command->args[0]);
    }
    *output = pipes[0];
    return true;
}

/* What was said, the first line of it; the rest is read and forgotten. */
static void take_output(struct live *live, int output) {
    size_t used = 0;
    char rest[512];
    for (;;) {
        bool room = used < sizeof(live->said) - 1;
        ssize_t got = room ? read(output, live->said + used, sizeof(live->said) - 1 - used)
                           : read(output, rest, sizeof(rest));
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        if (got > 0 && room)
            used += (size_t)got;
    }
    live->said[used] = '\0';
    live->said[strcspn(live->said, "\n")] = '\0';
}

static bool run(struct live *live, const struct command *command, struct pin_error *err) {
    pid_t child = -1;
    int output = -1, status = 0;
    if (!start(command, &child, &output, err))
        return false;
    take_output(live, output);
    (void)close(output);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    live->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

/* --- what each kind of question means to the prober --- */

/* NULL: it can be tried; else why not. */
static const char *push_syscall(struct live *live, struct command *command,
                                const struct pin_question *question) {
    const struct pin_syscall *call = pin_syscall_find(question->name);
    push(command, pin_arena_printf(&live->arena, "%d", call->number[live->reach->arch]));
    for (size_t i = 0; i < question->arg_count; i++)
        push(command, pin_arena_printf(&live->arena, "%" PRIu64, question->args[i]));
    return call->number[live->reach->arch] < 0 ? "this architecture doesn't have the call" : NULL;
}

static const char *push_connect(struct live *live, struct command *command,
                                const struct pin_question *question) {
    const struct pin_egress_rule *target = question->target;
    char address[PIN_ADDRESS_TEXT];
    if (live->reach->policy->network.egress_count > 0 || target->host != NULL)
        return "it takes a host on the other side";
    push(command, pin_arena_strdup(&live->arena, pin_address_print(address, target->address)));
    push(command, pin_arena_printf(&live->arena, "%u", target->ports[0].first));
    if (target->protocol == PIN_PROTOCOL_UDP)
        push(command, "udp");
    return NULL;
}

static char *print_number(char to[PIN_UNITS_TEXT], uint64_t value) {
    (void)snprintf(to, PIN_UNITS_TEXT, "%" PRIu64, value);
    return to;
}

static char *print_cpus(char to[PIN_UNITS_TEXT], uint64_t millicpus) {
    return pin_print_cpus(to, (uint32_t)millicpus);
}

/* Limits that a request may ask for: the run is refused, or starts. */
static const struct asked_limit {
    enum pin_field field;
    const char *option;
    char *(*print)(char to[PIN_UNITS_TEXT], uint64_t value);
} asked_limits[] = {
    {PIN_FIELD_MEMORY,    "--memory",  pin_print_size},
    {PIN_FIELD_CPUS,      "--cpus",    print_cpus    },
    {PIN_FIELD_PIDS,      "--pids",    print_number  },
    {PIN_FIELD_WALL_TIME, "--timeout", pin_print_time},
};

static const struct asked_limit *asked_limit(const struct pin_question *question) {
    for (size_t i = 0; i < PIN_COUNT(asked_limits); i++)
        if (asked_limits[i].field == question->field)
            return &asked_limits[i];
    return NULL;
}

/* What the request says, in front of the command. */
static const char *push_request(struct live *live, struct command *command,
                                const struct pin_question *question) {
    char text[PIN_UNITS_TEXT];
    if (question->kind == PIN_ASK_SECRET) {
        push(command, "--secret");
        push(command, question->name);
        push(command, "--secret-from-env");
        push(command, pin_arena_printf(&live->arena, "%s=" LIVE_SECRET, question->name));
    } else if (question->kind == PIN_ASK_PUBLISH) {
        push(command, "--publish");
        push(command, question->name);
    } else if (question->kind == PIN_ASK_LIMIT) {
        const struct asked_limit *limit = asked_limit(question);
        if (limit == NULL)
            return "no request asks for this limit";
        if (!question->has_value || question->value == PIN_UNLIMITED)
            return "it names no value to ask for";
        push(command, limit->option);
        push(command, pin_arena_strdup(&live->arena, limit->print(text, question->value)));
    }
    return NULL;
}

/* Answered by the request, before anything runs. */
static bool is_of_request(const struct pin_question *question) {
    return question->kind == PIN_ASK_SECRET || question->kind == PIN_ASK_LIMIT ||
           question->kind == PIN_ASK_PUBLISH;
}

/* A request that was refused, by the words of its refusal; any other fault is no answer. */
static bool refuses(const struct live *live, const struct pin_question *question) {
    if (live->exit_code != PIN_REPORT_EXIT)
        return false;
    if (question->kind == PIN_ASK_LIMIT)
        return strstr(live->said, asked_limit(question)->option) != NULL;
    return (question->kind == PIN_ASK_SECRET || question->kind == PIN_ASK_PUBLISH) &&
           strstr(live->said, question->name) != NULL;
}

static const char *push_question(struct live *live, struct command *command,
                                 const struct pin_question *question) {
    const char *skip = push_request(live, command, question);
    if (skip != NULL)
        return skip;
    push(command, "--");
    push(command, PIN_PROBE_TARGET);
    bool of_request = is_of_request(question);
    push(command, of_request ? "read" : pin_question_kind_name(question->kind));
    switch (question->kind) {
    case PIN_ASK_SYSCALL: return push_syscall(live, command, question);
    case PIN_ASK_CONNECT: return push_connect(live, command, question);
    case PIN_ASK_WRITE:
    case PIN_ASK_READ: push(command, question->name); return NULL;
    case PIN_ASK_SECRET:
    case PIN_ASK_PUBLISH:
    case PIN_ASK_LIMIT: push(command, "/"); return NULL;
    case PIN_ASK_COUNT: break;
    }
    return "unknown";
}

/* --- what came of it --- */

struct seen {
    bool allowed, denied; /* neither: unclear */
    int error;            /* of a denial by errno; 0: by a signal */
    const char *unclear;
};

static struct seen read_said(const struct live *live, const struct pin_question *question) {
    int number = 0;
    bool call = question->kind == PIN_ASK_SYSCALL;
    if (refuses(live, question))
        return (struct seen){.denied = true};
    if (strcmp(live->said, "done") == 0 || strcmp(live->said, "waits") == 0)
        return (struct seen){.allowed = true};
    if (sscanf(live->said, "signal %d", &number) == 1)
        return (struct seen){.allowed = number != SIGSYS, .denied = number == SIGSYS};
    if (sscanf(live->said, "errno %d", &number) != 1)
        return (struct seen){.unclear = live->said};
    if (call) /* any other errno comes from the call itself, behind the filter */
        return (struct seen){.allowed = number != EPERM && number != ENOSYS,
                             .denied = number == EPERM || number == ENOSYS,
                             .error = number};
    return (struct seen){.denied = true, .error = number};
}

/* The kernel may refuse what the policy grants, for reasons of its own; it never grants what the policy
 * refuses. */
static const char *reason_of_its_own(const struct pin_question *question, const struct seen *seen) {
    if (!seen->denied)
        return NULL;
    if (question->kind == PIN_ASK_SYSCALL)
        return "the kernel may refuse this call by itself";
    if (is_of_request(question))
        return NULL; /* nobody else has a say in these */
    return "files and permissions of the image decide";
}

static void judge(struct live *live, struct pin_cases *cases, struct pin_case *one, struct pin_buffer *notes,
                  struct pin_live_count *count) {
    const struct pin_answer *answer = &one->answer;
    struct seen seen = read_said(live, &one->question);
    const char *skip = seen.unclear;
    bool offline = pin_answer_allows(answer);
    if (skip == NULL && answer->verdict == PIN_ANSWER_DEPENDS)
        skip = "it depends on arguments that aren't given";
    if (skip == NULL && offline)
        skip = reason_of_its_own(&one->question, &seen);
    if (skip != NULL) {
        pin_buffer_printf(notes, "# not tried: %s: %s\n", one->question.text, skip);
        count->skipped++;
        return;
    }
    count->tried++;
    bool wrong_errno = answer->verdict == PIN_ANSWER_ERRNO && seen.error != answer->error;
    bool survived = answer->verdict == PIN_ANSWER_KILL && seen.error != 0;
    if (offline != seen.allowed || (!offline && (wrong_errno || survived)))
        one->live = pin_arena_printf(&cases->arena, "%s", live->said);
}

static bool try_case(struct live *live, struct pin_cases *cases, struct pin_case *one,
                     struct pin_buffer *notes, struct pin_live_count *count, struct pin_error *err) {
    struct command command = {0};
    push_run(live, &command);
    const char *skip = push_question(live, &command, &one->question);
    if (skip != NULL) {
        pin_buffer_printf(notes, "# not tried: %s: %s\n", one->question.text, skip);
        count->skipped++;
        return true;
    }
    if (!run(live, &command, err))
        return false;
    if (live->exit_code == PIN_REPORT_EXIT && !refuses(live, &one->question))
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "no sandbox can be run under this policy: %s",
                        live->said);
    judge(live, cases, one, notes, count);
    return true;
}

bool pin_live_try(struct pin_cases *cases, const char *policy, const struct pin_reach *reach,
                  struct pin_buffer *notes, struct pin_live_count *count, struct pin_error *err) {
    struct live live = {.reach = reach};
    (void)setenv(LIVE_SECRET, "live", 1); /* the value of every secret that is asked for */
    bool good = find_programs(&live, err) && make_folder(&live, policy, err);
    for (size_t i = 0; good && i < cases->count; i++)
        good = try_case(&live, cases, &cases->list[i], notes, count, err);
    remove_folder(&live);
    pin_arena_free(&live.arena);
    return good;
}
