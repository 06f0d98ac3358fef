#include "runtime/build/cgroup/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "policy/policy.h"

enum {
    VALUE_ROOM = 256,
    PERIOD_US = 100000,       /* the kernel's default */
    LONG_PERIOD_US = 1000000, /* the longest one: a quota below 1 ms is refused */
    QUOTA_LEAST_US = 1000,
};

typedef bool print_value(const struct pin_cgroup_limits *limits, bool v2, char value[VALUE_ROOM]);

static bool print_number(char value[VALUE_ROOM], uint64_t number) {
    (void)snprintf(value, VALUE_ROOM, "%" PRIu64, number);
    return true;
}

static bool print_text(const char *text, char value[VALUE_ROOM]) {
    if (text == NULL)
        return false;
    (void)snprintf(value, VALUE_ROOM, "%s", text);
    return true;
}

/* Version 1 counts the buffers of internet sockets (kmem.tcp: datagrams, too) apart from the rest, and only
 * in a group that limits them: without that limit they are nobody's. */
static bool print_memory(const struct pin_cgroup_limits *limits, bool v2, char value[VALUE_ROOM]) {
    (void)v2;
    return limits->memory_bytes != PIN_UNLIMITED && print_number(value, limits->memory_bytes);
}

/* Version 1 limits the sum, so that without a limit of the memory there is none of the swap. */
static bool print_swap(const struct pin_cgroup_limits *limits, bool v2, char value[VALUE_ROOM]) {
    if (limits->swap_bytes == PIN_UNLIMITED)
        return false;
    if (v2)
        return print_number(value, limits->swap_bytes);
    uint64_t sum;
    if (limits->memory_bytes == PIN_UNLIMITED ||
        __builtin_add_overflow(limits->memory_bytes, limits->swap_bytes, &sum) || sum > INT64_MAX)
        return print_text("", value);
    return print_number(value, sum);
}

static bool print_swappiness(const struct pin_cgroup_limits *limits, bool v2, char value[VALUE_ROOM]) {
    (void)v2;
    return limits->swap_bytes == 0 && limits->host_swaps && print_number(value, 0);
}

static uint64_t period_us(uint32_t millicpus) {
    return (uint64_t)millicpus * PERIOD_US / 1000 >= QUOTA_LEAST_US ? PERIOD_US : LONG_PERIOD_US;
}

static bool print_period(const struct pin_cgroup_limits *limits, bool v2, char value[VALUE_ROOM]) {
    (void)v2;
    return limits->millicpus != 0 && period_us(limits->millicpus) != PERIOD_US &&
           print_number(value, period_us(limits->millicpus));
}

static bool print_quota(const struct pin_cgroup_limits *limits, bool v2, char value[VALUE_ROOM]) {
    if (limits->millicpus == 0)
        return false;
    uint64_t period = period_us(limits->millicpus), quota = limits->millicpus * period / 1000;
    if (!v2)
        return print_number(value, quota);
    (void)snprintf(value, VALUE_ROOM, "%" PRIu64 " %" PRIu64, quota, period);
    return true;
}

static bool print_pids(const struct pin_cgroup_limits *limits, bool v2, char value[VALUE_ROOM]) {
    (void)v2;
    return limits->pids != PIN_UNLIMITED && print_number(value, limits->pids);
}

static bool print_cpus(const struct pin_cgroup_limits *limits, bool v2, char value[VALUE_ROOM]) {
    (void)v2;
    return print_text(limits->cpuset_cpus, value);
}

static bool print_mems(const struct pin_cgroup_limits *limits, bool v2, char value[VALUE_ROOM]) {
    (void)v2;
    return print_text(limits->cpuset_mems, value);
}

/* An out-of-memory kill takes the whole sandbox: half of a tool's processes is no result. */
static bool print_oom_group(const struct pin_cgroup_limits *limits, bool v2, char value[VALUE_ROOM]) {
    (void)v2;
    return limits->memory_bytes != PIN_UNLIMITED && print_number(value, 1);
}

static const struct row {
    enum pin_cgroup_controller controller;
    int protection;
    enum pin_cgroup_need need;
    const char *v1, *v2; /* NULL: this version has none */
    print_value *print;
} rows[] = {
    {PIN_CGROUP_MEMORY, PIN_PROTECT_MEMORY, PIN_CGROUP_MUST, "memory.limit_in_bytes",          "memory.max",
     print_memory                                                                                                              },
    {PIN_CGROUP_MEMORY, PIN_PROTECT_SWAP,   PIN_CGROUP_MUST, "memory.memsw.limit_in_bytes",    "memory.swap.max",
     print_swap                                                                                                                },
    {PIN_CGROUP_MEMORY, -1,                 PIN_CGROUP_MAY,  "memory.kmem.tcp.limit_in_bytes", NULL,               print_memory},
    {PIN_CGROUP_MEMORY, -1,                 PIN_CGROUP_MAY,  "memory.swappiness",              NULL,
     print_swappiness                                                                                                          }, /* version 1 bounds the sum: this keeps it in memory */
    {PIN_CGROUP_MEMORY, -1,                 PIN_CGROUP_MAY,  NULL,                             "memory.oom.group",
     print_oom_group                                                                                                           }, /* before Linux 4.19 */
    {PIN_CGROUP_CPU,    PIN_PROTECT_CPUS,   PIN_CGROUP_MUST, "cpu.cfs_period_us",              NULL,               print_period},
    {PIN_CGROUP_CPU,    PIN_PROTECT_CPUS,   PIN_CGROUP_MUST, "cpu.cfs_quota_us",               "cpu.max",          print_quota },
    {PIN_CGROUP_PIDS,   PIN_PROTECT_PIDS,   PIN_CGROUP_MUST, "pids.max",                       "pids.max",         print_pids  },
    {PIN_CGROUP_CPUSET, -1,                 PIN_CGROUP_MUST, "cpuset.cpus",                    "cpuset.cpus",      print_cpus  },
    {PIN_CGROUP_CPUSET, -1,                 PIN_CGROUP_MUST, "cpuset.mems",                    "cpuset.mems",      print_mems  },
};

void pin_cgroup_settings_add(struct pin_cgroup_settings *settings, struct pin_cgroup_setting setting) {
    struct pin_cgroup_setting *made =
        pin_arena_grow(settings->arena, &settings->items, &settings->count, sizeof(*settings->items));
    *made = setting;
}

void pin_cgroup_settings_of(const struct pin_cgroup_limits *limits, uint32_t v2,
                            struct pin_cgroup_settings *settings) {
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        bool is_v2 = (v2 & 1u << row->controller) != 0;
        const char *file = is_v2 ? row->v2 : row->v1;
        char value[VALUE_ROOM];
        if (file == NULL || !row->print(limits, is_v2, value))
            continue;
        bool no_swap = row->protection == PIN_PROTECT_SWAP && limits->swap_bytes == 0;
        pin_cgroup_settings_add(settings, (struct pin_cgroup_setting){
                                              .controller = row->controller,
                                              .need = row->need,
                                              .protection = row->protection,
                                              .holds_anyway = no_swap,
                                              .file = file,
                                              .value = pin_arena_strdup(settings->arena, value),
                                          });
    }
}
