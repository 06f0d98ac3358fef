/* egress_harness: a program in a network namespace of its own with the egress of a sandbox, and nothing else
 * of one: for tests and measurements of the broker alone.
 *
 *   egress_harness BROKER [-a] [-u] [-c] [-l LIMIT=N]... [-d DENY]... RULE... -- CMD ARG...
 *
 * RULE and DENY are as on the command line ("HOST:PORT", "10.0.0.0/8:443/udp"); -a takes connections to any
 * address to the broker, -u serves UDP, -c cuts at the end what is on its way. Events go to descriptor 3, if
 * that is open, one line each. A line "replace RULE..." on descriptor 4 replaces the rules.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/units.h"
#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "runtime/egress/start.h"

#define RULES_MAX 64
#define EVENTS_FD 3
#define REQUESTS_FD 4

struct harness {
    const char *broker;
    struct pin_arena arena;
    struct pin_egress_rule allow[RULES_MAX], deny[RULES_MAX];
    struct pin_egress_setup setup;
    bool udp, addresses, events, requests, cuts;
    char **command;
};

static const struct {
    const char *name;
    size_t offset;
} limits[] = {
    {"at-once",    offsetof(struct pin_egress_limits, connections_at_once)},
    {"total",      offsetof(struct pin_egress_limits, connections_total)  },
    {"out",        offsetof(struct pin_egress_limits, bytes_out)          },
    {"in",         offsetof(struct pin_egress_limits, bytes_in)           },
    {"rate",       offsetof(struct pin_egress_limits, bytes_per_second)   },
    {"idle",       offsetof(struct pin_egress_limits, idle_ns)            },
    {"lifetime",   offsetof(struct pin_egress_limits, lifetime_ns)        },
    {"names",      offsetof(struct pin_egress_limits, names_total)        },
    {"names-rate", offsetof(struct pin_egress_limits, names_per_second)   },
    {"drain",      offsetof(struct pin_egress_limits, drain_ns)           },
};

static struct pin_egress_limits default_limits(void) {
    struct pin_egress_limits most = pin_egress_no_limits;
    most.connections_at_once = 1024;
    most.idle_ns = 30 * 60 * PIN_NS_PER_S;
    most.names_total = 4096;
    most.names_per_second = 100;
    most.drain_ns = 2 * PIN_NS_PER_S;
    return most;
}

static int die(const struct pin_error *err) {
    (void)fprintf(stderr, "egress_harness: %s\n", err->message);
    return 125;
}

static void must(bool done, const char *what) {
    if (done)
        return;
    perror(what);
    _exit(125);
}

static bool set_limit(struct harness *harness, const char *text) {
    const char *value = strchr(text, '=');
    for (size_t i = 0; value != NULL && i < PIN_COUNT(limits); i++)
        if (strncmp(limits[i].name, text, (size_t)(value - text)) == 0 &&
            strlen(limits[i].name) == (size_t)(value - text))
            return pin_parse_u64(value + 1,
                                 (uint64_t *)(void *)((char *)&harness->setup.limits + limits[i].offset));
    return false;
}

static bool add_rule(struct harness *harness, struct pin_egress_rule *list, size_t *count, const char *text,
                     struct pin_error *err) {
    if (*count == RULES_MAX || !pin_egress_parse(text, &harness->arena, &list[*count], err))
        return false;
    ++*count;
    return true;
}

static bool read_arguments(struct harness *harness, int argc, char **argv, struct pin_error *err) {
    int option;
    size_t allowed = 0, denied = 0;
    harness->setup.limits = default_limits();
    if (argc < 2)
        return pin_fail(err, PIN_ERROR_USAGE, "no broker named");
    harness->broker = argv[1];
    argc--;
    argv++;
    while ((option = getopt(argc, argv, "+aucl:d:")) != -1)
        switch (option) {
        case 'a': harness->addresses = true; break;
        case 'u': harness->udp = true; break;
        case 'c': harness->cuts = true; break;
        case 'l':
            if (!set_limit(harness, optarg))
                return pin_fail(err, PIN_ERROR_USAGE, "no such limit");
            break;
        case 'd':
            if (!add_rule(harness, harness->deny, &denied, optarg, err))
                return false;
            break;
        default: return pin_fail(err, PIN_ERROR_USAGE, "no such option");
        }
    bool separated = strcmp(argv[optind - 1], "--") == 0;
    for (; !separated && optind < argc && strcmp(argv[optind], "--") != 0; optind++)
        if (!add_rule(harness, harness->allow, &allowed, argv[optind], err))
            return false;
    harness->command = argv + optind + (separated ? 0 : 1);
    harness->setup.rules = (struct pin_egress_rules){harness->allow, harness->deny, allowed, denied, NULL};
    if (optind >= argc || *harness->command == NULL)
        return pin_fail(err, PIN_ERROR_USAGE, "no command");
    return true;
}

/* The sandbox's side. */
static int inside(const struct harness *harness, int channel) {
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    struct pin_egress_plan plan = {.udp = harness->udp, .addresses = harness->addresses};
    struct pin_egress_sockets sockets;
    struct timespec from, to;
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    if (!pin_egress_inside(&plan, &sockets, &err) || !pin_egress_send(channel, &sockets, &err))
        return die(&err);
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    if (getenv("EGRESS_HARNESS_TIME") != NULL)
        (void)fprintf(stderr, "set-up: %ld us\n",
                      (to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000);
    pin_egress_close(&sockets);
    char go;
    must(read(channel, &go, 1) == 1, "wait for the broker");
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        must(prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0, "bounding set");
    cap_t none = cap_init();
    must(none != NULL && cap_set_proc(none) == 0, "capabilities");
    (void)close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    (void)execvp(harness->command[0], harness->command);
    perror(harness->command[0]);
    return 127;
}

/* One id, mapped to itself. */
static void write_map(pid_t pid, const char *file, unsigned id) {
    char path[64], text[64];
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    (void)snprintf(text, sizeof(text), strcmp(file, "setgroups") == 0 ? "deny" : "%u %u 1", id, id);
    must(pin_write_value_at(AT_FDCWD, path, text, &err), err.message);
}

static pid_t start_inside(const struct harness *harness, int channel, int other) {
    int mapped[2];
    must(pipe2(mapped, O_CLOEXEC) == 0, "pipe");
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        char byte;
        (void)close(other);
        must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0, "unshare");
        must(write(channel, "U", 1) == 1 && read(mapped[0], &byte, 1) == 1, "wait for the map");
        _exit(inside(harness, channel));
    }
    char byte;
    must(read(other, &byte, 1) == 1, "wait for the namespaces");
    write_map(pid, "setgroups", 0);
    write_map(pid, "uid_map", geteuid());
    write_map(pid, "gid_map", getegid());
    must(write(mapped[1], "M", 1) == 1, "go on");
    (void)close(mapped[0]);
    (void)close(mapped[1]);
    return pid;
}

static void print_event(const struct pin_egress_event *event) {
    char address[PIN_ADDRESS_TEXT], mend[512] = "";
    (void)pin_egress_event_mend(event, mend, sizeof(mend));
    (void)dprintf(EVENTS_FD, "%s %s %s %s %u %s rule=%d errno=%d times=%llu out=%llu in=%llu %s\n",
                  pin_egress_event_name((enum pin_egress_event_kind)event->kind),
                  pin_egress_reason_name((enum pin_egress_reason)event->reason),
                  event->name_size > 0 ? event->name : "-", pin_address_print(address, event->address),
                  event->port, event->protocol == PIN_PROTOCOL_UDP ? "udp" : "tcp", event->rule,
                  event->os_errno, (unsigned long long)(event->repeated > 0 ? event->repeated : 1),
                  (unsigned long long)event->bytes_out, (unsigned long long)event->bytes_in, mend);
}

/* False: the broker is gone. */
static bool drain(const struct harness *harness, const struct pin_broker *broker, bool *ready) {
    struct pin_egress_event event;
    for (;;) {
        enum pin_broker_news news = pin_broker_next(
            broker, harness->setup.rules.allow_count + harness->setup.rules.deny_count, &event);
        if (news != PIN_BROKER_EVENT)
            return news == PIN_BROKER_NOTHING;
        if (harness->events && event.kind != PIN_EGRESS_EVENT_BYTES)
            print_event(&event);
        if (event.kind == PIN_EGRESS_EVENT_READY)
            *ready = true;
        if (event.kind == PIN_EGRESS_EVENT_FAULT)
            (void)fprintf(stderr, "egress_harness: broker: %s\n", event.name);
    }
}

static void replace(struct harness *harness, const struct pin_broker *broker) {
    char line[4096], *rest = NULL;
    ssize_t size = read(REQUESTS_FD, line, sizeof(line) - 1);
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    size_t count = 0;
    if (size <= 0) {
        harness->requests = false;
        return;
    }
    line[size] = '\0';
    (void)strtok_r(line, " \n", &rest);
    for (const char *text; (text = strtok_r(NULL, " \n", &rest)) != NULL;)
        must(add_rule(harness, harness->allow, &count, text, &err), err.message);
    harness->setup.rules.allow_count = count;
    must(pin_broker_replace(broker, &harness->setup, &err), err.message);
}

static int supervise(struct harness *harness, pid_t child, int channel, const struct pin_broker *broker) {
    bool ready = false, started = false, gone = false;
    PIN_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    for (;;) {
        struct pollfd fds[] = {
            {.fd = gone ? -1 : broker->control,          .events = POLLIN},
            {.fd = pidfd,                                .events = POLLIN},
            {.fd = harness->requests ? REQUESTS_FD : -1, .events = POLLIN}
        };
        (void)poll(fds, PIN_COUNT(fds), -1);
        gone = gone || !drain(harness, broker, &ready);
        if (gone && !started)
            return 125;
        if (ready && !started) {
            started = true;
            pin_ignore(write(channel, "G", 1));
        }
        if (fds[2].revents != 0)
            replace(harness, broker);
        if (fds[1].revents != 0)
            break;
    }
    int status;
    must(waitpid(child, &status, 0) == child, "wait");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
    static struct harness harness;
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    if (!read_arguments(&harness, argc, argv, &err))
        return die(&err);
    harness.events = fcntl(EVENTS_FD, F_GETFD) >= 0;
    harness.requests = fcntl(REQUESTS_FD, F_GETFD) >= 0;
    int ends[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    pid_t child = start_inside(&harness, ends[1], ends[0]);
    (void)close(ends[1]);
    struct pin_egress_sockets sockets = PIN_EGRESS_SOCKETS_NONE;
    struct pin_broker broker;
    struct pin_broker_options options = {
        .program = harness.broker,
        .resolv_conf = getenv("PINFOLD_RESOLV_CONF"),
        .setup = &harness.setup,
        .life = -1,
        .door = -1,
    };
    if (!pin_egress_receive(ends[0], &sockets, &err) || !pin_broker_start(&options, &sockets, &broker, &err))
        return die(&err);
    if (getenv("EGRESS_HARNESS_PID") != NULL)
        (void)dprintf(EVENTS_FD, "broker %d\n", broker.pid);
    int code = supervise(&harness, child, ends[0], &broker);
    pin_broker_end(&broker, !harness.cuts);
    bool ready;
    int status;
    struct pollfd end = {.fd = broker.control, .events = POLLIN};
    while (poll(&end, 1, 60000) > 0 && drain(&harness, &broker, &ready))
        ;
    (void)kill(broker.pid, SIGKILL);
    (void)waitpid(broker.pid, &status, 0);
    if (harness.events)
        (void)dprintf(EVENTS_FD, "ended %d\n",
                      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    pin_arena_free(&harness.arena);
    return code;
}
