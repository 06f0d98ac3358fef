/* device_list.h: device rules as the list of exceptions that cgroup v1 keeps. Pure.
 *
 * Version 1 can't be given the rules as they are: denying "c *:*" there leaves an exception for "c 1:3" in
 * force. So the rules are worked out first, into what is allowed in the end; all else is denied. A rule that
 * cuts a hole into a wider one ("all but this device") can't be written as such a list, and is refused.
 * Source: security/device_cgroup.c, dev_exception_rm(); admin-guide/cgroup-v1/devices.rst.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "runtime/bundle/bundle.h"

#define PIN_DEVICE_LIST_MAX 512

struct pin_device_exception {
    char type;            /* 'b' or 'c' */
    int64_t major, minor; /* -1: any */
    unsigned access;      /* BPF_DEVCG_ACC_*; 0: nothing is left of it */
};

struct pin_device_list {
    size_t count;
    struct pin_device_exception items[PIN_DEVICE_LIST_MAX];
};

/* The rules must have passed pin_device_filter_build(). */
bool pin_device_list_build(const struct pin_bundle_device_rule *rules, size_t count,
                           struct pin_device_list *list, struct pin_error *err);

/* The line for devices.allow. */
#define PIN_DEVICE_LINE 64
char *pin_device_list_line(const struct pin_device_exception *exception, char line[PIN_DEVICE_LINE]);
