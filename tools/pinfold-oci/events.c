#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/oci/processes.h"
#include "tools/pinfold-oci/common.h"
#include "tools/pinfold-oci/log.h"
#include "tools/pinfold-oci/stats.h"

struct watch { /* what one `events` looks at, without the container's lock */
    const struct pin_oci_options *options;
    const char *id;
    struct pin_cgroup *group;
    int process; /* the container's, by pidfd: it polls when that has ended */
    int memory;  /* polls `memory_events` when memory runs out; -1: nothing tells; the group's */
    short memory_events;
};

enum { SOON_MS = 20, SOON_TRIES = 50 };

static void print_event(json_t *event) {
    (void)json_dumpf(event, stdout, JSON_COMPACT);
    (void)fputc('\n', stdout);
    (void)fflush(stdout);
    json_decref(event);
}

static bool print_stats(const struct watch *watch, struct pin_error *err) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_cgroup_usage usage = {0};
    pid_t *pids;
    size_t count = 0;
    if (!pin_cgroup_usage_read(watch->group, &usage, err) ||
        !pin_processes_list(watch->group, &arena, &pids, &count, err))
        return false;
    print_event(json_pack("{s:s, s:s, s:o}", "type", "stats", "id", watch->id, "data",
                          pin_oci_stats(watch->group, &usage, count)));
    return true;
}

/* Asked before the end is looked at, so that a kill that ended the container is told. */
static bool print_oom(const struct watch *watch, bool *happened, struct pin_error *err) {
    *happened = false;
    if (watch->memory < 0)
        return true;
    if (!pin_cgroup_oom_happened(watch->group, happened, err))
        return false;
    if (*happened)
        print_event(json_pack("{s:s, s:s}", "type", "oom", "id", watch->id));
    return true;
}

static bool has_ended(const struct watch *watch) {
    struct pollfd process = {.fd = watch->process, .events = POLLIN};
    return poll(&process, 1, 0) != 0;
}

/* A group that has gone with the container is no failure: it was its end. */
static bool settle_end(const struct watch *watch, bool ok, struct pin_error *err) {
    if (!ok && has_ended(watch))
        memset(err, 0, sizeof(*err));
    return ok || !pin_is_set(err);
}

static int wait_ms(uint64_t until_ns, int soon) {
    uint64_t now = pin_now_ns();
    int left_ms = now >= until_ns ? 0 : (int)((until_ns - now) / PIN_NS_PER_MS) + 1;
    return soon > 0 && left_ms > SOON_MS ? SOON_MS : left_ms;
}

/* Version 1 tells that memory runs out before it counts what it kills for that: so it is asked again soon. */
static bool follow(const struct watch *watch, uint64_t interval_ns, struct pin_error *err) {
    uint64_t next = pin_now_ns() + interval_ns;
    bool ended = false, killed, ok = true;
    int soon = 0;
    while (ok && !ended) {
        struct pollfd waited[] = {
            {.fd = watch->process, .events = POLLIN              },
            {.fd = watch->memory,  .events = watch->memory_events}
        };
        (void)poll(waited, 2, wait_ms(next, soon));
        ended = has_ended(watch);
        ok = print_oom(watch, &killed, err);
        soon = killed ? 0 : waited[1].revents != 0 ? SOON_TRIES : soon - (soon > 0);
        if (!ok || ended || pin_now_ns() < next)
            continue;
        ok = print_stats(watch, err);
        next = pin_now_ns() + interval_ns;
    }
    return settle_end(watch, ok, err);
}

static uint64_t interval_of(const struct pin_oci_options *options) {
    uint64_t ns = 5 * PIN_NS_PER_S;
    if (options->interval != NULL)
        (void)pin_parse_time(options->interval, &ns);           /* it was checked with the command line */
    return ns < 3600 * PIN_NS_PER_S ? ns : 3600 * PIN_NS_PER_S; /* poll(2) has no more room than some weeks */
}

static bool tell(struct watch *watch, struct pin_error *err) {
    struct pin_error none = {0};
    if (watch->options->stats)
        return settle_end(watch, print_stats(watch, err), err);
    watch->memory = pin_cgroup_oom_fd(watch->group, &watch->memory_events, &none);
    if (watch->memory < 0)
        pin_oci_warn(watch->options,
                     "no notices of memory that ran out: the container's memory isn't counted");
    return settle_end(watch, print_stats(watch, err), err) && follow(watch, interval_of(watch->options), err);
}

static bool open_watch(struct watch *watch, const struct pin_oci_host *host,
                       const struct pin_container *container, struct pin_error *err) {
    watch->process = pin_container_process(container);
    if (watch->process < 0)
        return pin_fail(err, PIN_ERROR_INVALID, "container with id %s is not running", container->id);
    watch->group = pin_container_cgroup(container, &host->cgroups, err);
    return watch->group != NULL || pin_is_set(err) ||
           pin_fail(err, PIN_ERROR_UNSUPPORTED, "the container is in no cgroup");
}

int pin_oci_events(const struct pin_oci_options *options, char **arguments, size_t count) {
    struct pin_oci_host host = PIN_OCI_HOST_NONE;
    struct pin_container container = PIN_CONTAINER_NONE;
    struct watch watch = {.options = options, .id = arguments[0], .process = -1, .memory = -1};
    struct pin_error err = {0};
    (void)count;
    bool ok = pin_oci_open_container(options, arguments[0], false, &host, &container, &err) &&
              open_watch(&watch, &host, &container, &err) && watch.group != NULL && tell(&watch, &err);
    pin_cgroup_free(watch.group);
    pin_close_fd(&watch.process);
    pin_container_close(&container);
    pin_oci_close_host(&host);
    return ok ? 0 : pin_oci_fail(options, &err);
}
