/* device_filter.h: device rules as a BPF program of type CGROUP_DEVICE. Pure.
 *
 * Each access that is asked for (read, write, mknod) is decided by the last rule that names it for that
 * device; an access that no rule names is denied. So is the whole request where one of its accesses is.
 * Source: include/uapi/linux/bpf.h, struct bpf_cgroup_dev_ctx; OCI runtime-spec, config-linux.md "Allowed
 * Device list".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <linux/bpf.h>

#include "base/error.h"
#include "runtime/bundle/bundle.h"

#define PIN_DEVICE_RULES_MAX 256
#define PIN_DEVICE_PROGRAM_MAX (8 * PIN_DEVICE_RULES_MAX + 8) /* instructions */

struct pin_device_program {
    size_t count;
    struct bpf_insn code[PIN_DEVICE_PROGRAM_MAX];
};

/* INVALID for a rule that makes no sense, EXHAUSTED for too many. */
bool pin_device_filter_build(const struct pin_bundle_device_rule *rules, size_t count,
                             struct pin_device_program *program, struct pin_error *err);

/* The accesses of a text of "r", "w" and "m", as BPF_DEVCG_ACC_*; 0 for any other text. */
unsigned pin_device_access(const char *text);
