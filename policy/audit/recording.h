/* recording.h: what a traced command did: the calls it made, the paths it named, the destinations it wanted,
 * and the most that it used of each resource.
 *
 * Each fact is kept once, with a count: a loop inside adds nothing. Bounded; what doesn't fit is counted. Of
 * a call's arguments only those are kept that some rule can look at. Pure: runtime/watch fills it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/arena.h"
#include "policy/filter.h"
#include "policy/policy.h"

#define PIN_RECORDING_MAX 50000 /* of each kind of fact */

enum pin_use {                   /* a set: what was done, or tried, with a path */
               PIN_USE_LOOK = 1, /* asked about */
               PIN_USE_READ = 2,
               PIN_USE_WRITE = 4, /* opened for writing, made, removed, changed */
               PIN_USE_EXEC = 8,
               PIN_USE_CONNECT = 16, /* a Unix socket */
               PIN_USE_MISSING = 32, /* it wasn't there when it was first named */
               PIN_USE_NEW = 64, /* … and neither was the folder that it would be in, or that one is empty */
               PIN_USE_FOLDER = 128, /* made as a folder */
};

struct pin_recorded_call {
    const char *name;
    uint64_t args[PIN_FILTER_ARGS_MAX]; /* 0 where no rule looks */
    uint64_t count;
    bool denied; /* the trace's own filter denied it */
};

struct pin_recorded_path {
    const char
        *path; /* as it is inside: absolute and plain, links resolved; other bytes than UTF-8 escaped */
    unsigned uses;
};

struct pin_recorded_target {
    const char *host; /* NULL: a literal address */
    uint8_t address[16];
    uint16_t port; /* 0: the name alone was asked for */
    enum pin_protocol protocol;
    bool reached;
    const char *refused; /* what was said there, and why: the judge's word, "not-tls"; NULL: nothing */
    uint64_t count;
};

struct pin_recording {
    struct pin_arena arena;
    json_t *index; /* a fact's key -> its place in its list */
    struct pin_recorded_call *calls;
    struct pin_recorded_path *paths;
    struct pin_recorded_target *targets;
    size_t call_count, path_count, target_count;
    size_t most; /* facts of each kind; 0: PIN_RECORDING_MAX */
    uint64_t total_calls, dropped;
    uint8_t looked_at[512]; /* by row of pin_syscalls: set of arguments that rules look at */
    struct {
        uint64_t memory_bytes, pids, wall_ns, cpu_ns, tmp_bytes, stdout_bytes, stderr_bytes, files;
    } peaks;
};

/* Readies a zeroed recording for what the filters of these policies can look at. */
void pin_recording_open(struct pin_recording *recording, const struct pin_policy *const *policies,
                        size_t count);
void pin_recording_free(struct pin_recording *recording);

void pin_recording_call(struct pin_recording *recording, const char *name,
                        const uint64_t args[PIN_FILTER_ARGS_MAX], bool denied);
void pin_recording_path(struct pin_recording *recording, const char *path, unsigned uses);
/* `host` NULL: the address counts. */
void pin_recording_target(struct pin_recording *recording, const struct pin_recorded_target *target);

/* For programs: {"calls", "paths", "destinations", "peaks", "dropped"}; the caller owns it. */
json_t *pin_recording_json(const struct pin_recording *recording);
