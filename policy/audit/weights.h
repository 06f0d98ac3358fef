/* weights.h: how much each thing that a policy grants weighs in its score.
 *
 * Read from JSON: the built-in table (policy/data/weights.json, with its sources), then a file of the
 * operator's own over it. Pure.
 */
#pragma once

#include "base/arena.h"
#include "base/findings.h"
#include "policy/policy.h"

enum pin_score_part {
    PIN_SCORE_CALLS,
    PIN_SCORE_FAMILIES,
    PIN_SCORE_FILES,
    PIN_SCORE_DESCRIPTORS,
    PIN_SCORE_CAPABILITIES,
    PIN_SCORE_IDENTITY,
    PIN_SCORE_EGRESS,
    PIN_SCORE_SECRETS,
    PIN_SCORE_LIMITS,
    PIN_SCORE_PART_COUNT
};
const char *pin_score_part_name(enum pin_score_part part);

enum pin_weight_grant {
    PIN_WEIGHT_WORKSPACE_READ,
    PIN_WEIGHT_WORKSPACE_COW,
    PIN_WEIGHT_WORKSPACE_WRITE,
    PIN_WEIGHT_ROOT_OVERLAY,
    PIN_WEIGHT_WRITE_ROOT,
    PIN_WEIGHT_WRITE_PATH,
    PIN_WEIGHT_MOUNT_READ,
    PIN_WEIGHT_MOUNT_WRITE,
    PIN_WEIGHT_STDIO,
    PIN_WEIGHT_TTY,
    PIN_WEIGHT_FRAMES_FD,
    PIN_WEIGHT_FRAMES_STDOUT,
    PIN_WEIGHT_ROOT_INSIDE,
    PIN_WEIGHT_IDS,
    PIN_WEIGHT_PRIVILEGED,
    PIN_WEIGHT_HOST_NAME,
    PIN_WEIGHT_HOST_WILDCARD,
    PIN_WEIGHT_HOST_INTERNAL,
    PIN_WEIGHT_CIDR,
    PIN_WEIGHT_CIDR_BIT,
    PIN_WEIGHT_PORT,
    PIN_WEIGHT_PUBLISHED,
    PIN_WEIGHT_PUBLISHED_UNIX,
    PIN_WEIGHT_SECRET,
    PIN_WEIGHT_NO_LIMIT,
    PIN_WEIGHT_OPTIONAL,
    PIN_WEIGHT_GRANT_COUNT
};

#define PIN_WEIGHT_FAMILIES_MAX 64

struct pin_weight {
    double weight; /* 0 to 1000 */
    const char *why;
};

struct pin_weights {
    struct pin_arena arena;
    double partial;                     /* what a call counts when only some arguments get through */
    double parts[PIN_SCORE_PART_COUNT]; /* the most that a part adds to the score */
    struct pin_weight *calls;           /* in the order of pin_syscalls */
    struct pin_weight families[PIN_WEIGHT_FAMILIES_MAX]; /* in the order of pin_arg_family() */
    struct pin_weight capabilities[PIN_CAPABILITY_COUNT];
    struct pin_weight grants[PIN_WEIGHT_GRANT_COUNT];
};

#define PIN_WEIGHTS __attribute__((cleanup(pin_weights_free)))

/* Fills zeroed weights with the built-in table. */
bool pin_weights_builtin(struct pin_weights *weights, struct pin_findings *found);
/* Lays a text over them; what it doesn't name stays. */
bool pin_weights_read(struct pin_weights *weights, const char *file, const char *text, size_t size,
                      struct pin_findings *found);
void pin_weights_free(struct pin_weights *weights);
