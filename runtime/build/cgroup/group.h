/* group.h: what a struct pin_cgroup is made of; for this folder alone. */
#pragma once

#include "runtime/build/cgroup/cgroup.h"
#include "runtime/build/cgroup/settings.h"

#define PIN_CGROUP_FULL (2 * PIN_CGROUP_PATH)

struct pin_cgroup_dir {
    int fd; /* O_PATH */
    bool v2;
    uint32_t controllers;
    char base[PIN_CGROUP_PATH]; /* absolute on the host */
};

/* What is read of a group again and again; of a leaf it may stay open. */
enum pin_cgroup_counter {
    PIN_CGROUP_COUNT_CPU,
    PIN_CGROUP_COUNT_MEMORY_PEAK,
    PIN_CGROUP_COUNT_OOM_KILLS,
    PIN_CGROUP_COUNT_PIDS_PEAK,
    PIN_CGROUP_COUNT_PIDS,
    PIN_CGROUP_COUNTERS
};

struct pin_cgroup {
    char path[PIN_CGROUP_PATH]; /* below each base */
    bool shared_parent;         /* the folder of the groups stays: it is used again at once */
    bool in_unit;               /* the group above is a unit of systemd's, version 1 */
    bool same_processes;        /* in every directory: looking into the first is enough */
    bool swap;                  /* the host has swap space */
    size_t count;
    struct pin_cgroup_dir dirs[PIN_CGROUP_HIERARCHIES];
    int8_t where[PIN_CGROUP_CONTROLLER_COUNT]; /* index of the directory, or -1 */
    int8_t unified;
    int oom_fd, oom_counter; /* what the caller polls, and the file that counts; -1 */
    uint64_t oom_seen;
    int *counters; /* descriptors, -1 until they are read; NULL: opened each time */
};

/* A group without directories. NULL on failure. */
struct pin_cgroup *pin_cgroup_new(const struct pin_cgroup_facts *facts, const char *path,
                                  struct pin_error *err);

/* Opens the group's directory in the hierarchy, and adds it; false with errno. */
bool pin_cgroup_open_dir(struct pin_cgroup *group, const struct pin_cgroup_hierarchy *hierarchy);

/* The path of the group below a base. */
void pin_cgroup_full_path(const struct pin_cgroup *group, const char *base, char full[PIN_CGROUP_FULL]);

/* Reads a file of the directory that is that counter, as pin_cgroup_file_read() does. */
ssize_t pin_cgroup_counter_read(const struct pin_cgroup *group, enum pin_cgroup_counter which,
                                const struct pin_cgroup_dir *dir, const char *file, char *text, size_t room);

/* One that holds one number; false with errno. */
bool pin_cgroup_counter_u64(const struct pin_cgroup *group, enum pin_cgroup_counter which,
                            const struct pin_cgroup_dir *dir, const char *file, uint64_t *value);

/* The counters of a leaf that were kept open. */
void pin_cgroup_close_counters(struct pin_cgroup *group);

/* The directory of a controller, or NULL. */
const struct pin_cgroup_dir *pin_cgroup_dir_of(const struct pin_cgroup *group,
                                               enum pin_cgroup_controller controller);

/* Calls `each` for the base and for every directory between it and the group; stops at the first false. */
typedef bool pin_cgroup_each_level(void *context, const char *directory);
bool pin_cgroup_walk_levels(const struct pin_cgroup *group, const char *base, pin_cgroup_each_level *each,
                            void *context);

/* Writes the settings, each of which must succeed. */
bool pin_cgroup_apply(struct pin_cgroup *group, const struct pin_cgroup_settings *settings,
                      struct pin_error *err);

/* The set of controllers that are of version 2 for this group. */
uint32_t pin_cgroup_v2_controllers(const struct pin_cgroup *group);

/* Kills, waits for and removes what a dead owner left. Gives up after about a second. */
bool pin_cgroup_clear(struct pin_cgroup *group, struct pin_error *err);
