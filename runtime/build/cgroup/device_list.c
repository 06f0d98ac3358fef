#include "runtime/build/cgroup/device_list.h"

#include <inttypes.h>
#include <stdio.h>

#include "runtime/build/cgroup/device_filter.h"

enum { ACCESS_ALL = BPF_DEVCG_ACC_MKNOD | BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE };

static bool covers(int64_t wide, int64_t narrow) {
    return wide < 0 || wide == narrow;
}

static bool overlaps(int64_t one, int64_t other) {
    return one < 0 || other < 0 || one == other;
}

static bool allow(struct pin_device_list *list, struct pin_device_exception made, struct pin_error *err) {
    for (size_t i = 0; i < list->count; i++) {
        struct pin_device_exception *known = &list->items[i];
        if (known->type == made.type && known->major == made.major && known->minor == made.minor) {
            known->access |= made.access;
            return true;
        }
    }
    if (list->count == PIN_DEVICE_LIST_MAX)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "the device rules are too many for cgroup v1");
    list->items[list->count++] = made;
    return true;
}

static bool deny(struct pin_device_list *list, struct pin_device_exception cut, struct pin_error *err) {
    for (size_t i = 0; i < list->count; i++) {
        struct pin_device_exception *known = &list->items[i];
        if (known->type != cut.type || !overlaps(known->major, cut.major) ||
            !overlaps(known->minor, cut.minor) || (known->access & cut.access) == 0)
            continue;
        if (!covers(cut.major, known->major) || !covers(cut.minor, known->minor))
            return pin_fail(err, PIN_ERROR_UNSUPPORTED,
                            "cgroup v1 can't deny one device out of a range that is allowed");
        known->access &= ~cut.access;
    }
    return true;
}

static bool add(const struct pin_bundle_device_rule *rule, char type, struct pin_device_list *list,
                struct pin_error *err) {
    struct pin_device_exception one = {
        .type = type,
        .major = rule->major,
        .minor = rule->minor,
        .access = rule->access == NULL ? ACCESS_ALL : pin_device_access(rule->access),
    };
    return rule->allow ? allow(list, one, err) : deny(list, one, err);
}

bool pin_device_list_build(const struct pin_bundle_device_rule *rules, size_t count,
                           struct pin_device_list *list, struct pin_error *err) {
    list->count = 0;
    for (size_t i = 0; i < count; i++) {
        bool ok = (rules[i].type == 'c' || add(&rules[i], 'b', list, err)) &&
                  (rules[i].type == 'b' || add(&rules[i], 'c', list, err));
        if (!ok)
            return pin_point(err, "/linux/resources/devices/%zu", i);
    }
    return true;
}

static const char *print_number(int64_t number, char text[24]) {
    (void)snprintf(text, 24, "%" PRId64, number);
    return number < 0 ? "*" : text;
}

char *pin_device_list_line(const struct pin_device_exception *exception, char line[PIN_DEVICE_LINE]) {
    char major[24], minor[24];
    (void)snprintf(line, PIN_DEVICE_LINE, "%c %s:%s %s%s%s", exception->type,
                   print_number(exception->major, major), print_number(exception->minor, minor),
                   exception->access & BPF_DEVCG_ACC_READ ? "r" : "",
                   exception->access & BPF_DEVCG_ACC_WRITE ? "w" : "",
                   exception->access & BPF_DEVCG_ACC_MKNOD ? "m" : "");
    return line;
}
