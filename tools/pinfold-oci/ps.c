#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/oci/processes.h"
#include "tools/pinfold-oci/common.h"
#include "tools/pinfold-oci/log.h"

struct pids {
    pid_t *list;
    size_t count;
};

/* Its output, and its number. */
static FILE *start_ps(char **argv, pid_t *pid, struct pin_error *err) {
    posix_spawn_file_actions_t actions;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        (void)pin_fail_errno(err, "run ps");
        return NULL;
    }
    PIN_CLOSE int ours = ends[0], theirs = ends[1];
    int code = posix_spawn_file_actions_init(&actions);
    if (code == 0) {
        code = posix_spawn_file_actions_adddup2(&actions, theirs, STDOUT_FILENO);
        code = code != 0 ? code : posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    errno = code;
    FILE *from = code == 0 ? fdopen(ours, "re") : NULL;
    if (from == NULL)
        (void)pin_fail_errno(err, "run ps");
    else
        (void)pin_steal_fd(&ours);
    return from;
}

/* Which of the words of the head is "PID"; -1: none. */
static int find_column(char *head) {
    char *rest = NULL;
    int column = 0;
    for (char *word = strtok_r(head, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest))
        if (strcmp(word, "PID") == 0)
            return column;
        else
            column++;
    return -1;
}

static bool is_ours(const char *line, int column, const struct pids *pids) {
    for (int i = 0; i < column; i++) {
        line += strspn(line, " ");
        line += strcspn(line, " ");
    }
    long pid = strtol(line, NULL, 10);
    for (size_t i = 0; i < pids->count; i++)
        if (pids->list[i] == pid)
            return true;
    return false;
}

/* ps(1)'s own table, of which the lines of the container's processes are kept. */
static bool filter(FILE *from, const struct pids *pids) {
    PIN_FREE char *line = NULL, *head = NULL;
    size_t room = 0, head_room = 0;
    if (getline(&head, &head_room, from) <= 0)
        return false;
    (void)fputs(head, stdout);
    int column = find_column(head);
    while (column >= 0 && getline(&line, &room, from) > 0)
        if (is_ours(line, column, pids))
            (void)fputs(line, stdout);
    return column >= 0;
}

static bool print_table(char **words, const struct pids *pids, struct pin_error *err) {
    static char name[] = "ps", all[] = "-ef";
    char *usual[] = {name, all, NULL};
    int status = 0;
    pid_t pid;
    words[0] = name;
    FILE *from = start_ps(words[1] != NULL ? words : usual, &pid, err);
    if (from == NULL)
        return false;
    bool told = filter(from, pids);
    (void)fclose(from);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        return pin_fail(err, PIN_ERROR_INVALID, "ps failed with these options");
    return told || pin_fail(err, PIN_ERROR_INVALID, "couldn't find PID field in ps output");
}

static void print_json(const struct pids *pids) {
    json_t *list = json_array();
    for (size_t i = 0; i < pids->count; i++)
        json_array_append_new(list, json_integer(pids->list[i]));
    (void)json_dumpf(list, stdout, JSON_COMPACT);
    (void)fputc('\n', stdout);
    json_decref(list);
}

static bool show(const struct pin_oci_options *options, const struct pin_oci_host *host,
                 const struct pin_container *container, char **words, struct pin_error *err) {
    PIN_ARENA struct pin_arena arena = {0};
    PIN_CGROUP struct pin_cgroup *group = pin_container_cgroup(container, &host->cgroups, err);
    struct pids pids = {0};
    if (pin_is_set(err) || !pin_processes_list(group, &arena, &pids.list, &pids.count, err))
        return false;
    if (options->format == NULL || strcmp(options->format, "json") != 0)
        return print_table(words, &pids, err);
    print_json(&pids);
    return true;
}

int pin_oci_ps(const struct pin_oci_options *options, char **arguments, size_t count) {
    struct pin_oci_host host = PIN_OCI_HOST_NONE;
    struct pin_container container = PIN_CONTAINER_NONE;
    struct pin_error err = {0};
    (void)count;
    bool ok = pin_oci_open_container(options, arguments[0], false, &host, &container, &err) &&
              show(options, &host, &container, arguments, &err);
    pin_container_close(&container);
    pin_oci_close_host(&host);
    return ok ? 0 : pin_oci_fail(options, &err);
}
