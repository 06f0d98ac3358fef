#include "tools/pinfold-oci/stats.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/units.h"

enum { FILE_MAX = 256 * 1024 };

/* A file of the group, in whichever of its directories; NULL where it isn't. */
static char *read_file(const struct pin_cgroup *group, const char *name) {
    const char *hierarchy;
    char *text = NULL;
    size_t size;
    int dir;
    for (size_t i = 0; text == NULL && pin_cgroup_directory(group, i, &dir, &hierarchy); i++) {
        struct pin_error absent = {0};
        text = pin_read_file_at(dir, name, FILE_MAX, &size, &absent);
    }
    return text;
}

/* The object at `name`, made where it is missing. */
static json_t *member(json_t *object, const char *name) {
    json_t *found = json_object_get(object, name);
    if (found == NULL && json_object_set_new(object, name, json_object()) == 0)
        found = json_object_get(object, name);
    return found;
}

struct figure { /* one number, or the first of two names that is there */
    const char *v1, *v2;
    const char *part, *under, *key; /* `under` may be NULL */
};

static const struct figure figures[] = {
    {"memory.usage_in_bytes",           "memory.current",      "memory", "usage",     "usage"                   },
    {"memory.limit_in_bytes",           "memory.max",          "memory", "usage",     "limit"                   },
    {"memory.max_usage_in_bytes",       "memory.peak",         "memory", "usage",     "max"                     },
    {"memory.failcnt",                  NULL,                  "memory", "usage",     "failcnt"                 },
    {"memory.memsw.usage_in_bytes",     "memory.swap.current", "memory", "swap",      "usage"                   },
    {"memory.memsw.limit_in_bytes",     "memory.swap.max",     "memory", "swap",      "limit"                   },
    {"memory.memsw.max_usage_in_bytes", "memory.swap.peak",    "memory", "swap",      "max"                     },
    {"memory.memsw.failcnt",            NULL,                  "memory", "swap",      "failcnt"                 },
    {"memory.kmem.usage_in_bytes",      NULL,                  "memory", "kernel",    "usage"                   },
    {"memory.kmem.limit_in_bytes",      NULL,                  "memory", "kernel",    "limit"                   },
    {"memory.kmem.max_usage_in_bytes",  NULL,                  "memory", "kernel",    "max"                     },
    {"memory.kmem.failcnt",             NULL,                  "memory", "kernel",    "failcnt"                 },
    {"memory.kmem.tcp.limit_in_bytes",  NULL,                  "memory", "kernelTCP", "limit"                   },
    {"memory.kmem.tcp.failcnt",         NULL,                  "memory", "kernelTCP", "failcnt"                 },
    {"cpuset.cpu_exclusive",            NULL,                  "cpuset", NULL,        "cpu_exclusive"           },
    {"cpuset.mem_exclusive",            NULL,                  "cpuset", NULL,        "mem_exclusive"           },
    {"cpuset.mem_hardwall",             NULL,                  "cpuset", NULL,        "mem_hardwall"            },
    {"cpuset.memory_migrate",           NULL,                  "cpuset", NULL,        "memory_migrate"          },
    {"cpuset.memory_pressure",          NULL,                  "cpuset", NULL,        "memory_pressure"         },
    {"cpuset.memory_spread_page",       NULL,                  "cpuset", NULL,        "memory_spread_page"      },
    {"cpuset.memory_spread_slab",       NULL,                  "cpuset", NULL,        "memory_spread_slab"      },
    {"cpuset.sched_load_balance",       NULL,                  "cpuset", NULL,        "sched_load_balance"      },
    {"cpuset.sched_relax_domain_level", NULL,                  "cpuset", NULL,        "sched_relax_domain_level"},
};

#define UNLIMITED INT64_C(9223372036854771712) /* what version 1 writes for no limit */

static json_int_t number_of(const char *text) {
    return strncmp(text, "max", 3) == 0 ? UNLIMITED : strtoll(text, NULL, 10);
}

/* Of usages a 0 is left out, as Go leaves it out where its types say so. */
static void set_usage(json_t *place, const char *key, json_int_t value) {
    if (value != 0)
        (void)json_object_set_new(place, key, json_integer(value));
}

static void add_figures(const struct pin_cgroup *group, json_t *data) {
    for (size_t i = 0; i < PIN_COUNT(figures); i++) {
        const struct figure *figure = &figures[i];
        PIN_FREE char *text = read_file(group, figure->v1);
        if (text == NULL && figure->v2 != NULL)
            text = read_file(group, figure->v2);
        json_t *place = member(data, figure->part);
        if (figure->under != NULL)
            place = member(place, figure->under);
        json_int_t value = text != NULL ? number_of(text) : 0;
        if (strcmp(figure->key, "usage") == 0 || strcmp(figure->key, "max") == 0)
            set_usage(place, figure->key, value);
        else
            (void)json_object_set_new(place, figure->key, json_integer(value));
    }
}

/* Version 2 counts swap by itself, version 1, whose keys these are, together with the memory. */
static void add_memory_to_swap(const struct pin_cgroup *group, json_t *memory) {
    static const char *const keys[] = {"usage", "limit"};
    PIN_FREE char *text = read_file(group, "memory.swap.current");
    for (size_t i = 0; i < PIN_COUNT(keys) && text != NULL; i++) {
        json_int_t swap = json_integer_value(json_object_get(member(memory, "swap"), keys[i])),
                   own = json_integer_value(json_object_get(member(memory, "usage"), keys[i]));
        bool endless = swap == UNLIMITED || own == UNLIMITED;
        (void)json_object_set_new(member(memory, "swap"), keys[i],
                                  json_integer(endless ? UNLIMITED : swap + own));
    }
}

/* An empty one is left out; takes the reference. */
static void set_list(json_t *place, const char *key, json_t *list) {
    if (json_array_size(list) > 0)
        (void)json_object_set(place, key, list);
    json_decref(list);
}

/* "0-1,4": each of them. */
static void add_list(const struct pin_cgroup *group, json_t *cpuset, const char *file, const char *key) {
    PIN_FREE char *text = read_file(group, file);
    unsigned first, last;
    int used;
    json_t *list = json_array();
    for (const char *at = text; at != NULL && sscanf(at, "%u%n", &first, &used) == 1;) {
        at += used;
        last = first;
        if (*at == '-' && sscanf(at + 1, "%u%n", &last, &used) == 1)
            at += 1 + used;
        for (unsigned number = first; number <= last && last - first < 65536; number++)
            (void)json_array_append_new(list, json_integer(number));
        at = *at == ',' ? at + 1 : NULL;
    }
    set_list(cpuset, key, list);
}

/* Calls with each "key value" of a file. */
static void each_line(const struct pin_cgroup *group, const char *file,
                      void (*take)(json_t *object, const char *key, json_int_t value), json_t *object) {
    PIN_FREE char *text = read_file(group, file);
    char *rest = text, key[64];
    long long value;
    for (char *line; (line = rest != NULL ? strsep(&rest, "\n") : NULL) != NULL;)
        if (sscanf(line, "%63s %lld", key, &value) == 2)
            take(object, key, value);
}

static void take_raw(json_t *memory, const char *key, json_int_t value) {
    (void)json_object_set_new(member(memory, "raw"), key, json_integer(value));
    if (value != 0 && (strcmp(key, "cache") == 0 || strcmp(key, "file") == 0))
        (void)json_object_set_new(memory, "cache", json_integer(value));
}

static void take_times(json_t *usage, const char *key, json_int_t value) {
    const json_int_t tick = (json_int_t)PIN_NS_PER_S / sysconf(_SC_CLK_TCK);
    if (strcmp(key, "user") == 0 || strcmp(key, "user_usec") == 0)
        (void)json_object_set_new(usage, "user", json_integer(value * (key[4] == '_' ? 1000 : tick)));
    if (strcmp(key, "system") == 0 || strcmp(key, "system_usec") == 0)
        (void)json_object_set_new(usage, "kernel", json_integer(value * (key[6] == '_' ? 1000 : tick)));
}

static void take_throttling(json_t *throttling, const char *key, json_int_t value) {
    static const struct {
        const char *file, *key;
        json_int_t factor;
    } names[] = {
        {"nr_periods",     "periods",          1   },
        {"nr_throttled",   "throttledPeriods", 1   },
        {"throttled_time", "throttledTime",    1   },
        {"throttled_usec", "throttledTime",    1000}, /* of version 2 */
    };
    for (size_t i = 0; i < PIN_COUNT(names) && value != 0; i++)
        if (strcmp(names[i].file, key) == 0)
            (void)json_object_set_new(throttling, names[i].key, json_integer(value * names[i].factor));
}

/* "cpu user system", and a line for each processor */
static void add_processors(const struct pin_cgroup *group, json_t *usage) {
    PIN_FREE char *text = read_file(group, "cpuacct.usage_all");
    long long user, kernel;
    json_t *both = json_array(), *users = json_array(), *kernels = json_array();
    char *rest = text;
    for (char *line; (line = rest != NULL ? strsep(&rest, "\n") : NULL) != NULL;) {
        if (sscanf(line, "%*d %lld %lld", &user, &kernel) != 2)
            continue;
        (void)json_array_append_new(both, json_integer(user + kernel));
        (void)json_array_append_new(users, json_integer(user));
        (void)json_array_append_new(kernels, json_integer(kernel));
    }
    set_list(usage, "percpu", both);
    set_list(usage, "percpu_user", users);
    set_list(usage, "percpu_kernel", kernels);
}

static json_t *new_block(json_int_t major, json_int_t minor, const char *op, json_int_t value) {
    json_t *entry = json_pack("{s:s}", "op", op);
    set_usage(entry, "major", major);
    set_usage(entry, "minor", minor);
    set_usage(entry, "value", value);
    return entry;
}

/* "254:0 Read 8192" */
static void add_blocks(const struct pin_cgroup *group, json_t *blkio, const char *file, const char *key) {
    PIN_FREE char *text = read_file(group, file);
    char *rest = text, op[32];
    long long major, minor, value;
    json_t *list = json_array();
    for (char *line; (line = rest != NULL ? strsep(&rest, "\n") : NULL) != NULL;) {
        if (sscanf(line, "%lld:%lld %31s %lld", &major, &minor, op, &value) != 4)
            continue;
        (void)json_array_append_new(list, new_block(major, minor, op, value));
    }
    set_list(blkio, key, list);
}

/* Version 2 has all of a device in one line: "254:0 rbytes=8192 wbytes=0 rios=2 wios=0 dbytes=0 dios=0". */
static void add_io(const struct pin_cgroup *group, json_t *blkio) {
    static const struct {
        const char *word, *op, *key;
    } counters[] = {
        {"rbytes=", "Read",  "ioServiceBytesRecursive"},
        {"wbytes=", "Write", "ioServiceBytesRecursive"},
        {"rios=",   "Read",  "ioServicedRecursive"    },
        {"wios=",   "Write", "ioServicedRecursive"    },
    };
    PIN_FREE char *text = read_file(group, "io.stat");
    char *rest = text;
    long long major, minor;
    for (char *line; (line = rest != NULL ? strsep(&rest, "\n") : NULL) != NULL;) {
        if (sscanf(line, "%lld:%lld ", &major, &minor) != 2)
            continue;
        for (char *word; (word = strsep(&line, " ")) != NULL;)
            for (size_t i = 0; i < PIN_COUNT(counters); i++) {
                size_t length = strlen(counters[i].word);
                if (strncmp(word, counters[i].word, length) != 0)
                    continue;
                json_t *list = json_object_get(blkio, counters[i].key);
                if (list == NULL && json_object_set_new(blkio, counters[i].key, list = json_array()) != 0)
                    return;
                (void)json_array_append_new(
                    list, new_block(major, minor, counters[i].op, strtoll(word + length, NULL, 10)));
            }
    }
}

static void take_refusals(json_t *page, const char *key, json_int_t value) {
    if (strcmp(key, "max") == 0)
        (void)json_object_set_new(page, "failcnt", json_integer(value));
}

/* What is written of huge pages of one size, "2MB": version 1 counts refusals in a file of their own. */
static void add_huge_page(const struct pin_cgroup *group, const char *size, json_t *pages) {
    static const char *const files[][2] = {
        {"usage_in_bytes",     "usage"  },
        {"current",            "usage"  }, /* of version 2 */
        {"max_usage_in_bytes", "max"    },
        {"failcnt",            "failcnt"},
    };
    json_t *page = json_pack("{s:i}", "failcnt", 0);
    char file[NAME_MAX + 1];
    for (size_t i = 0; i < PIN_COUNT(files); i++) {
        (void)snprintf(file, sizeof(file), "hugetlb.%s.%s", size, files[i][0]);
        PIN_FREE char *text = read_file(group, file);
        if (text != NULL && strcmp(files[i][1], "failcnt") == 0)
            (void)json_object_set_new(page, "failcnt", json_integer(number_of(text)));
        else if (text != NULL)
            set_usage(page, files[i][1], number_of(text));
    }
    (void)snprintf(file, sizeof(file), "hugetlb.%s.events", size);
    each_line(group, file, take_refusals, page);
    (void)json_object_set_new(pages, size, page);
}

/* The sizes that the kernel has, by the names of its files: "hugetlb.2MB.usage_in_bytes",
 * "hugetlb.2MB.current". */
static void add_huge_pages(const struct pin_cgroup *group, json_t *pages) {
    const char *hierarchy;
    char size[32], kind[32];
    int dir;
    for (size_t i = 0; pin_cgroup_directory(group, i, &dir, &hierarchy); i++) {
        PIN_CLOSE int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *list = fd < 0 ? NULL : fdopendir(fd);
        if (list == NULL)
            continue;
        (void)pin_steal_fd(&fd);
        for (const struct dirent *entry; (entry = readdir(list)) != NULL;)
            if (sscanf(entry->d_name, "hugetlb.%31[^.].%31s", size, kind) == 2 &&
                (strcmp(kind, "usage_in_bytes") == 0 || strcmp(kind, "current") == 0))
                add_huge_page(group, size, pages);
        (void)closedir(list);
    }
}

/* No limit is left out, as Go leaves its 0 out. */
static void add_processes(const struct pin_cgroup *group, json_t *pids, size_t processes) {
    PIN_FREE char *limit = read_file(group, "pids.max");
    set_usage(pids, "current", (json_int_t)processes);
    if (limit != NULL && strncmp(limit, "max", 3) != 0)
        (void)json_object_set_new(pids, "limit", json_integer(number_of(limit)));
}

/* "some avg10=0.00 avg60=1.50 avg300=0.20 total=4711": per cent of the time, and microseconds in all. Older
 * kernels have no "full" of processors, which is then nothing. Beside version 1, runc's keys are those of
 * version 1 alone. */
static void add_pressure(const struct pin_cgroup *group, json_t *part, const char *file) {
    const char *hierarchy;
    int dir;
    bool alone = pin_cgroup_unified_fd(group) >= 0 && !pin_cgroup_directory(group, 1, &dir, &hierarchy);
    PIN_FREE char *text = alone ? read_file(group, file) : NULL;
    char *rest = text, kind[8];
    double avg10, avg60, avg300;
    long long total;
    if (text == NULL) /* counting it may be switched off */
        return;
    json_t *psi = member(part, "psi");
    for (size_t i = 0; i < 2; i++)
        (void)json_object_set_new(
            psi, i == 0 ? "some" : "full",
            json_pack("{s:f, s:f, s:f, s:i}", "avg10", 0.0, "avg60", 0.0, "avg300", 0.0, "total", 0));
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (sscanf(line, "%7s avg10=%lf avg60=%lf avg300=%lf total=%lld", kind, &avg10, &avg60, &avg300,
                   &total) != 5 ||
            json_object_get(psi, kind) == NULL)
            continue;
        (void)json_object_set_new(psi, kind,
                                  json_pack("{s:f, s:f, s:f, s:I}", "avg10", avg10, "avg60", avg60, "avg300",
                                            avg300, "total", (json_int_t)total));
    }
}

json_t *pin_oci_stats(const struct pin_cgroup *group, const struct pin_cgroup_usage *used, size_t processes) {
    json_t *data = json_object(), *cpu = member(data, "cpu"), *usage = member(cpu, "usage"),
           *throttling = member(cpu, "throttling"), *cpuset = member(data, "cpuset"),
           *memory = member(data, "memory"), *blkio = member(data, "blkio");
    set_usage(usage, "total", (json_int_t)used->cpu_ns);
    (void)json_object_set_new(usage, "kernel", json_integer(0));
    (void)json_object_set_new(usage, "user", json_integer(0));
    add_processors(group, usage);
    each_line(group, "cpuacct.stat", take_times, usage);
    each_line(group, "cpu.stat", take_times, usage);
    each_line(group, "cpu.stat", take_throttling, throttling);
    add_list(group, cpuset, "cpuset.cpus", "cpus");
    add_list(group, cpuset, "cpuset.mems", "mems");
    add_figures(group, data);
    add_memory_to_swap(group, memory);
    each_line(group, "memory.stat", take_raw, memory);
    add_blocks(group, blkio, "blkio.throttle.io_service_bytes_recursive", "ioServiceBytesRecursive");
    add_blocks(group, blkio, "blkio.throttle.io_serviced_recursive", "ioServicedRecursive");
    add_io(group, blkio);
    add_pressure(group, cpu, "cpu.pressure");
    add_pressure(group, memory, "memory.pressure");
    add_pressure(group, blkio, "io.pressure");
    add_processes(group, member(data, "pids"), processes);
    add_huge_pages(group, member(data, "hugetlb"));
    (void)member(data, "intel_rdt");
    (void)json_object_set_new(data, "network_interfaces", json_null());
    return data;
}
