#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "runtime/build/cgroup/oci.h"

enum { VALUE_ROOM = 256 };

/* What a field comes to in one of the versions. */
enum outcome { ABSENT, SET, IMPOSSIBLE };

typedef enum outcome print_field(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]);

static enum outcome print_u64(char value[VALUE_ROOM], uint64_t number) {
    (void)snprintf(value, VALUE_ROOM, "%" PRIu64, number);
    return SET;
}

/* In every limit 0 asks for nothing, as engines mean it, and as the ceiling takes it.
 * Negative is "unlimited", which version 1 writes as -1. */
static enum outcome print_limit(char value[VALUE_ROOM], bool v2, int64_t number) {
    if (number == 0)
        return ABSENT;
    if (number >= 0)
        return print_u64(value, (uint64_t)number);
    (void)snprintf(value, VALUE_ROOM, "%s", v2 ? "max" : "-1");
    return SET;
}

static enum outcome print_text(char value[VALUE_ROOM], const char *text) {
    if (text == NULL || text[0] == '\0')
        return ABSENT;
    return snprintf(value, VALUE_ROOM, "%s", text) < VALUE_ROOM ? SET : IMPOSSIBLE;
}

static enum outcome memory(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    return from->has_memory ? print_limit(value, v2, from->memory) : ABSENT;
}

/* OCI's swap is memory and swap together; version 2 limits swap alone. */
static enum outcome swap(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    if (!from->has_swap)
        return ABSENT;
    if (!v2 || from->swap <= 0)
        return print_limit(value, v2, from->swap);
    if (!from->has_memory || from->memory <= 0 || from->swap < from->memory)
        return IMPOSSIBLE;
    return print_u64(value, (uint64_t)(from->swap - from->memory));
}

static enum outcome reservation(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    if (!from->has_reservation)
        return ABSENT;
    return v2 && from->reservation < 0 ? print_u64(value, 0) : print_limit(value, v2, from->reservation);
}

/* Version 2 counts it with the rest of the memory. */
static enum outcome kernel_tcp(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    if (!from->has_kernel_tcp || from->kernel_tcp == 0 || (v2 && from->kernel_tcp < 0))
        return ABSENT;
    return v2 ? IMPOSSIBLE : print_limit(value, false, from->kernel_tcp);
}

static enum outcome swappiness(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    if (!from->has_swappiness)
        return ABSENT;
    return v2 ? IMPOSSIBLE : print_u64(value, from->swappiness);
}

static enum outcome no_oom_killer(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    if (!from->disable_oom_killer)
        return ABSENT;
    return v2 ? IMPOSSIBLE : print_u64(value, 1);
}

/* Shares are 2 to 262144, weights 1 to 10000. */
static enum outcome cpu_shares(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    uint64_t shares = from->cpu_shares;
    if (!from->has_cpu_shares || shares == 0)
        return ABSENT;
    if (!v2)
        return print_u64(value, shares);
    shares = shares < 2 ? 2 : shares > 262144 ? 262144 : shares;
    return print_u64(value, 1 + (shares - 2) * 9999 / 262142);
}

static enum outcome cpu_period(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    if (v2 || !from->has_cpu_period || from->cpu_period == 0)
        return ABSENT;
    return print_u64(value, from->cpu_period);
}

static enum outcome cpu_quota(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    bool quota = from->has_cpu_quota && from->cpu_quota != 0;
    bool period = from->has_cpu_period && from->cpu_period != 0;
    if (!v2)
        return quota ? print_limit(value, false, from->cpu_quota < 0 ? -1 : from->cpu_quota) : ABSENT;
    if (!quota && !period)
        return ABSENT;
    char limit[VALUE_ROOM] = "max";
    if (quota && from->cpu_quota > 0)
        (void)print_u64(limit, (uint64_t)from->cpu_quota);
    (void)snprintf(value, VALUE_ROOM, "%.32s %" PRIu64, limit, period ? from->cpu_period : 100000);
    return SET;
}

static enum outcome cpu_burst(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    (void)v2;
    return from->has_cpu_burst ? print_u64(value, from->cpu_burst) : ABSENT;
}

static enum outcome cpu_idle(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    (void)v2;
    if (!from->has_cpu_idle)
        return ABSENT;
    (void)snprintf(value, VALUE_ROOM, "%" PRId64, from->cpu_idle);
    return SET;
}

static enum outcome rt_period(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    if (!from->has_rt_period || from->rt_period == 0)
        return ABSENT;
    return v2 ? IMPOSSIBLE : print_u64(value, from->rt_period);
}

static enum outcome rt_runtime(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    if (!from->has_rt_runtime || from->rt_runtime == 0)
        return ABSENT;
    return v2 ? IMPOSSIBLE : print_limit(value, false, from->rt_runtime);
}

static enum outcome cpuset_cpus(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    (void)v2;
    return print_text(value, from->cpuset_cpus);
}

static enum outcome cpuset_mems(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    (void)v2;
    return print_text(value, from->cpuset_mems);
}

static enum outcome pids(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    (void)v2;
    return from->has_pids ? print_limit(value, true, from->pids) : ABSENT;
}

/* Weights of block devices are 10 to 1000 in version 1, and 1 to 10000 in version 2. */
static uint64_t io_weight(uint64_t weight) {
    return weight <= 10 ? 1 : 1 + (weight - 10) * 9999 / 990;
}

static enum outcome net_class(const struct pin_bundle_resources *from, bool v2, char value[VALUE_ROOM]) {
    if (from->net_class_id == 0)
        return ABSENT;
    return v2 ? IMPOSSIBLE : print_u64(value, from->net_class_id);
}

static const struct row {
    enum pin_cgroup_controller controller;
    const char *v1, *v2, *pointer; /* below /linux/resources */
    print_field *print;
} rows[] = {
    {PIN_CGROUP_MEMORY,  "memory.limit_in_bytes",          "memory.max",      "memory/limit",            memory       },
    {PIN_CGROUP_MEMORY,  "memory.memsw.limit_in_bytes",    "memory.swap.max", "memory/swap",             swap         },
    {PIN_CGROUP_MEMORY,  "memory.soft_limit_in_bytes",     "memory.low",      "memory/reservation",      reservation  },
    {PIN_CGROUP_MEMORY,  "memory.swappiness",              NULL,              "memory/swappiness",       swappiness   },
    {PIN_CGROUP_MEMORY,  "memory.kmem.tcp.limit_in_bytes", NULL,              "memory/kernelTCP",        kernel_tcp   },
    {PIN_CGROUP_MEMORY,  "memory.oom_control",             NULL,              "memory/disableOOMKiller", no_oom_killer},
    {PIN_CGROUP_CPU,     "cpu.idle",                       "cpu.idle",        "cpu/idle",                cpu_idle     },
    {PIN_CGROUP_CPU,     "cpu.shares",                     "cpu.weight",      "cpu/shares",              cpu_shares   },
    {PIN_CGROUP_CPU,     "cpu.cfs_period_us",              NULL,              "cpu/period",              cpu_period   },
    {PIN_CGROUP_CPU,     "cpu.cfs_quota_us",               "cpu.max",         "cpu/quota",               cpu_quota    },
    {PIN_CGROUP_CPU,     "cpu.cfs_burst_us",               "cpu.max.burst",   "cpu/burst",               cpu_burst    },
    {PIN_CGROUP_CPU,     "cpu.rt_period_us",               NULL,              "cpu/realtimePeriod",      rt_period    },
    {PIN_CGROUP_CPU,     "cpu.rt_runtime_us",              NULL,              "cpu/realtimeRuntime",     rt_runtime   },
    {PIN_CGROUP_CPUSET,  "cpuset.cpus",                    "cpuset.cpus",     "cpu/cpus",                cpuset_cpus  },
    {PIN_CGROUP_CPUSET,  "cpuset.mems",                    "cpuset.mems",     "cpu/mems",                cpuset_mems  },
    {PIN_CGROUP_PIDS,    "pids.max",                       "pids.max",        "pids/limit",              pids         },
    {PIN_CGROUP_NET_CLS, "net_cls.classid",                NULL,              "network/classID",         net_class    },
};

static bool refuse(struct pin_error *err, const char *pointer, bool v2) {
    (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "cgroup v%d can't express this value", v2 ? 2 : 1);
    return pin_point(err, "/linux/resources/%s", pointer);
}

/* `file` and `value` live in the arena, or for ever. */
static struct pin_cgroup_setting *add(struct pin_cgroup_settings *settings,
                                      enum pin_cgroup_controller controller, const char *file,
                                      const char *value) {
    pin_cgroup_settings_add(settings, (struct pin_cgroup_setting){.controller = controller,
                                                                  .need = PIN_CGROUP_MUST,
                                                                  .protection = -1,
                                                                  .file = file,
                                                                  .value = value});
    return &settings->items[settings->count - 1];
}

static bool add_rows(const struct pin_bundle_resources *from, uint32_t v2,
                     struct pin_cgroup_settings *settings, struct pin_error *err) {
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        bool is_v2 = (v2 & 1u << rows[i].controller) != 0;
        char value[VALUE_ROOM];
        switch (rows[i].print(from, is_v2, value)) {
        case ABSENT: break;
        case IMPOSSIBLE: return refuse(err, rows[i].pointer, is_v2);
        case SET:
            (void)add(settings, rows[i].controller, is_v2 ? rows[i].v2 : rows[i].v1,
                      pin_arena_strdup(settings->arena, value));
        }
    }
    return true;
}

/* One line a device; in version 2 all kinds are in one file. */
static void add_throttles(const struct pin_bundle_throttle *items, size_t count, const char *v1,
                          const char *v2_key, bool v2, struct pin_cgroup_settings *settings) {
    for (size_t i = 0; i < count; i++)
        (void)add(settings, PIN_CGROUP_IO, v2 ? "io.max" : v1,
                  pin_arena_printf(settings->arena, "%" PRId64 ":%" PRId64 " %s%" PRIu64, items[i].major,
                                   items[i].minor, v2 ? v2_key : "", items[i].rate));
}

/* Kernels whose scheduler is BFQ have weights in files of its own, in the range of version 1. */
static void add_weight(struct pin_cgroup_settings *settings, const char *device, uint64_t weight, bool v2,
                       const char *v1_file, const char *v1_other) {
    struct pin_arena *arena = settings->arena;
    struct pin_cgroup_setting *made =
        add(settings, PIN_CGROUP_IO, v2 ? "io.weight" : v1_file,
            pin_arena_printf(arena, "%s%" PRIu64, device, v2 ? io_weight(weight) : weight));
    made->other_file = v2 ? "io.bfq.weight" : v1_other;
    made->other_value = pin_arena_printf(arena, "%s%" PRIu64, device, weight);
}

static void add_weights(const struct pin_bundle_resources *from, bool v2,
                        struct pin_cgroup_settings *settings) {
    if (from->has_blkio_weight && from->blkio_weight != 0)
        add_weight(settings, "", from->blkio_weight, v2, "blkio.weight", "blkio.bfq.weight");
    for (size_t i = 0; i < from->weight_device_count; i++) {
        const struct pin_bundle_throttle *one = &from->weight_device[i];
        const char *device =
            pin_arena_printf(settings->arena, "%" PRId64 ":%" PRId64 " ", one->major, one->minor);
        add_weight(settings, device, one->rate, v2, "blkio.weight_device", "blkio.bfq.weight_device");
    }
}

static void add_io(const struct pin_bundle_resources *from, bool v2, struct pin_cgroup_settings *settings) {
    add_weights(from, v2, settings);
    add_throttles(from->read_bps, from->read_bps_count, "blkio.throttle.read_bps_device", "rbps=", v2,
                  settings);
    add_throttles(from->write_bps, from->write_bps_count, "blkio.throttle.write_bps_device", "wbps=", v2,
                  settings);
    add_throttles(from->read_iops, from->read_iops_count, "blkio.throttle.read_iops_device", "riops=", v2,
                  settings);
    add_throttles(from->write_iops, from->write_iops_count, "blkio.throttle.write_iops_device", "wiops=", v2,
                  settings);
}

/* A name that becomes part of a file's name: one plain component. */
static bool is_plain_name(const char *name) {
    return name != NULL && name[0] != '\0' && name[0] != '.' && strlen(name) < 128 &&
           strchr(name, '/') == NULL;
}

static bool refuse_name(struct pin_error *err, const char *pointer, const char *name) {
    (void)pin_fail(err, PIN_ERROR_INVALID, "'%.40s' is no name of a cgroup file here",
                   name != NULL ? name : "");
    return pin_point(err, "/linux/resources/%s", pointer);
}

static bool add_hugepages(const struct pin_bundle_resources *from, bool v2,
                          struct pin_cgroup_settings *settings, struct pin_error *err) {
    for (size_t i = 0; i < from->hugepage_count; i++) {
        const struct pin_pair *one = &from->hugepages[i];
        if (!is_plain_name(one->key))
            return refuse_name(err, "hugepageLimits", one->key);
        (void)add(settings, PIN_CGROUP_HUGETLB,
                  pin_arena_printf(settings->arena, "hugetlb.%s.%s", one->key, v2 ? "max" : "limit_in_bytes"),
                  one->value);
    }
    return true;
}

static const char *join(const struct pin_cgroup_settings *settings, const struct pin_pair *pair) {
    return pin_arena_printf(settings->arena, "%s %s", pair->key, pair->value);
}

static bool add_network(const struct pin_bundle_resources *from, bool v2,
                        struct pin_cgroup_settings *settings, struct pin_error *err) {
    if (v2 && from->net_priority_count > 0)
        return refuse(err, "network/priorities", true);
    for (size_t i = 0; i < from->net_priority_count; i++)
        (void)add(settings, PIN_CGROUP_NET_PRIO, "net_prio.ifpriomap",
                  join(settings, &from->net_priorities[i]));
    return true;
}

static void add_rdma(const struct pin_bundle_resources *from, struct pin_cgroup_settings *settings) {
    for (size_t i = 0; i < from->rdma_count; i++)
        (void)add(settings, PIN_CGROUP_RDMA, "rdma.max", join(settings, &from->rdma[i]));
}

/* The controller of "memory.high" is memory. The files of the group itself ("cgroup.procs") aren't resources:
 * with them a bundle could move processes and undo the walls. */
static int controller_of(const char *file) {
    for (int c = 0; c < PIN_CGROUP_CONTROLLER_COUNT; c++) {
        const char *name = pin_cgroup_controller_name((enum pin_cgroup_controller)c, true);
        size_t size = strlen(name);
        if (strncmp(file, name, size) == 0 && file[size] == '.')
            return c;
    }
    return -1;
}

static bool add_unified(const struct pin_bundle_resources *from, uint32_t v2, bool unified,
                        struct pin_cgroup_settings *settings, struct pin_error *err) {
    for (size_t i = 0; i < from->unified_count; i++) {
        const char *file = from->unified[i].key;
        int controller = is_plain_name(file) ? controller_of(file) : -1;
        if (controller < 0)
            return refuse_name(err, "unified", file);
        if (!unified || (v2 & 1u << controller) == 0)
            return refuse(err, "unified", false);
        (void)add(settings, (enum pin_cgroup_controller)controller, file, from->unified[i].value);
    }
    return true;
}

bool pin_cgroup_oci_settings(const struct pin_bundle_resources *from, uint32_t v2, bool unified,
                             struct pin_cgroup_settings *settings, struct pin_error *err) {
    bool net_v2 = unified && (v2 & 1u << PIN_CGROUP_NET_PRIO) != 0;
    if (!add_rows(from, v2, settings, err))
        return false;
    add_io(from, (v2 & 1u << PIN_CGROUP_IO) != 0, settings);
    add_rdma(from, settings);
    return add_hugepages(from, (v2 & 1u << PIN_CGROUP_HUGETLB) != 0, settings, err) &&
           add_network(from, net_v2, settings, err) && add_unified(from, v2, unified, settings, err);
}

/* What can't be expressed is said when the settings are applied. */
uint32_t pin_cgroup_oci_controllers(const struct pin_bundle_resources *resources) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_cgroup_settings settings = {.arena = &arena};
    struct pin_error later = {0};
    uint32_t set = resources->device_count > 0 ? 1u << PIN_CGROUP_DEVICES : 0;
    (void)pin_cgroup_oci_settings(resources, 0, false, &settings, &later);
    for (size_t i = 0; i < settings.count; i++)
        set |= 1u << settings.items[i].controller;
    for (size_t i = 0; i < resources->unified_count; i++) {
        int controller = controller_of(resources->unified[i].key);
        set |= controller >= 0 ? 1u << controller : 0;
    }
    return set;
}
