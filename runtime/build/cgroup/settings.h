/* settings.h: from limits to the files that hold them. Pure.
 *
 * One table says for each limit its controller, its file in either version, and how its value is written. A
 * setting is one write(2). The order counts: memory before memory and swap, for the kernel refuses a sum that
 * is smaller.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "runtime/build/cgroup/cgroup.h"

enum pin_cgroup_need {
    PIN_CGROUP_MUST, /* a failure is an error, unless `protection` is optional */
    PIN_CGROUP_MAY,  /* a kernel without the file does without it */
};

struct pin_cgroup_setting {
    enum pin_cgroup_controller controller;
    enum pin_cgroup_need need;
    int protection;    /* enum pin_protection, or -1 */
    bool holds_anyway; /* where the file is missing and the host has no swap: it limits swap to nothing */
    const char *file;
    const char *other_file, *other_value; /* where the kernel has no such file; NULL: there is no other */
    const char
        *value; /* "": this version can't express the limit, which then counts as one that can't be set */
};

struct pin_cgroup_settings {
    struct pin_arena *arena; /* of the values, and of the list */
    struct pin_cgroup_setting *items;
    size_t count;
};

/* `v2` is the set of 1u << controller that is of version 2 here. */
void pin_cgroup_settings_of(const struct pin_cgroup_limits *limits, uint32_t v2,
                            struct pin_cgroup_settings *settings);

/* Adds one; its texts live in the arena, or for ever. For other sources of settings. */
void pin_cgroup_settings_add(struct pin_cgroup_settings *settings, struct pin_cgroup_setting setting);
