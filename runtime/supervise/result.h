/* result.h: what came of a run: the one object that --json prints, and the exit code.
 *
 * pin_supervise() fills it; the caller adds what only it knows (sandbox, fingerprint, labels, missing,
 * egress, changes) and prints it. The result owns what it points to, but for the strings that say otherwise.
 * Bytes from inside are data here: never evaluated, and escaped or encoded before they are printed. Forms of
 * the JSON: docs/frames.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "runtime/egress/usage.h"
#include "runtime/supervise/frames.h"

enum pin_status {
    PIN_STATUS_SUCCESS, /* exit code 0 */
    PIN_STATUS_ERROR,   /* another exit code, or the command couldn't be executed */
    PIN_STATUS_TIMEOUT, /* wall or CPU time */
    PIN_STATUS_MEMORY,  /* the kernel killed a process of the sandbox for its memory limit */
    PIN_STATUS_OUTPUT,  /* over its output cap, where the policy says that this kills */
    PIN_STATUS_KILLED,  /* ended by a signal */
    PIN_STATUS_REFUSED, /* never started */
    PIN_STATUS_COUNT
};
const char *pin_status_name(enum pin_status status);

enum pin_exit_code { /* besides the command's own and 128 + signal */
                     PIN_EXIT_TIMEOUT = 124,
                     PIN_EXIT_REFUSED = 125,
                     PIN_EXIT_NOT_EXECUTABLE = 126,
                     PIN_EXIT_NOT_FOUND = 127,
                     PIN_EXIT_MEMORY = 137,
};

#define PIN_FRAMES_KEPT_MAX 1024 /* and, the result aside, as many payload bytes as one frame may have */

struct pin_text { /* captured bytes; `data` may be NULL when `size` is 0 */
    uint8_t *data;
    size_t size;
    bool truncated;
    uint64_t total_bytes; /* that were written inside, frames not counted */
};

/* One frame, or one thing in a frame's place that wasn't one. */
struct pin_frame_record {
    struct pin_frame_info info;
    bool from_fd;     /* from the frame descriptor, not from stdout */
    uint8_t *payload; /* NULL when `info.verdict` isn't PIN_FRAME_WHOLE */
};

struct pin_usage {
    uint64_t wall_ns;
    uint64_t cpu_ns, memory_peak_bytes, pids_peak;
    uint64_t oom_kills;
    uint64_t memory_byte_ms; /* what was held, times how long; sampled where somebody wants it, else 0 */
    struct pin_egress_usage egress;
};

struct pin_result {
    enum pin_status status;
    int exit_code;
    int signal; /* that ended the command; 0: none */
    struct pin_text out, err;
    struct pin_frame_record *frames; /* in the order in which they came */
    size_t frame_count;
    uint64_t frame_bytes;  /* of the payloads kept, the result's aside */
    size_t frames_dropped; /* for want of room, see PIN_FRAMES_KEPT_MAX */
    uint64_t stray_bytes;  /* on the frame descriptor, in no frame */
    struct pin_usage usage;
    struct pin_error error; /* why the command never ran, or why it ended so; NONE: nothing to say */
    bool outlived;          /* a process of it hangs in the kernel: the sandbox isn't dead */

    /* by the caller; borrowed but for the json_t, which pin_result_free() releases */
    const char *sandbox, *fingerprint;
    const char *const *missing; /* names of protections */
    size_t missing_count;
    json_t *labels;    /* object; NULL: {} */
    json_t *published; /* ports that the host could reach; NULL: the key is left out */
    json_t *changes;   /* of a copy-on-write workspace; NULL: the key is left out */
    json_t *denials;   /* what was denied, each with its verdict; NULL: the key is left out */
};

void pin_result_free(struct pin_result *result);

/* Keeps a copy of the frame, where there is room for it: `limit_bytes` for all payloads but the result's. */
void pin_result_add_frame(struct pin_result *result, const struct pin_frame_info *info,
                          const uint8_t *payload, bool from_fd, uint64_t limit_bytes);
/* The kept frame of kind "result", or NULL. */
const struct pin_frame_record *pin_result_frame(const struct pin_result *result);

/* Status, exit code and signal from a status of waitpid(2). */
void pin_result_set_exit(struct pin_result *result, int wait_status);

/* The command has run, and what it did can't be handed over whole: the result stays, and says so. The first
 * error stays; an exit code of the command's own that isn't 0 does too. */
void pin_result_note(struct pin_result *result, const struct pin_error *error);

/* The object of --json, keys in the documented order; the caller owns it. NULL when memory is out. */
json_t *pin_result_json(const struct pin_result *result);
/* The same without "stdout", "stderr" and "encoding", which a stream has told already. */
json_t *pin_result_json_end(const struct pin_result *result);
json_t *pin_result_signal(int number); /* "SIGTERM"; null for 0 */
/* One element of "frames". */
json_t *pin_frame_json(const struct pin_frame_info *info, bool from_fd, const uint8_t *payload);
/* {"encoding": "utf-8" | "base64", key: …} into the object. */
bool pin_json_set_bytes(json_t *object, const char *key, const uint8_t *data, size_t size);

/* {"error": {"kind", "message", "pointer", "hint"}} */
json_t *pin_error_json(const struct pin_error *error);
/* One line, with its end, to a descriptor. */
bool pin_json_print(int fd, const json_t *value, struct pin_error *err);
