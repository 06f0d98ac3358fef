/* lint_checks.h: inside of lint.c: the checks, in three files by what they look at. */
#pragma once

#include "policy/audit/lint.h"

/* The order of pin_lint_rules. */
enum pin_lint_id {
    PIN_LINT_SECRET_HOSTS,
    PIN_LINT_WRITE_PARENT,
    PIN_LINT_WALL_SYSCALL,
    PIN_LINT_SHADOWED,
    PIN_LINT_DEAD_ALLOW,
    PIN_LINT_NO_LIMIT,
    PIN_LINT_BROAD_CIDR,
    PIN_LINT_SPECIAL_ADDRESS,
    PIN_LINT_MANY_PORTS,
    PIN_LINT_CAPABILITY,
    PIN_LINT_PRIVILEGED,
    PIN_LINT_PASSED_SECRET,
    PIN_LINT_SET_SECRET,
    PIN_LINT_LOADER,
    PIN_LINT_OPTIONAL,
    PIN_LINT_ANY_IMAGE,
    PIN_LINT_SENSITIVE_MOUNT,
    PIN_LINT_WRITABLE_MOUNT,
    PIN_LINT_PORT,
    PIN_LINT_ROOT,
    PIN_LINT_NOT_RECORDED,
    PIN_LINT_NO_EFFECT,
    PIN_LINT_HOST_INTERNAL,
    PIN_LINT_CORE_SECRETS,
    PIN_LINT_MOUNT_NOT_WRITABLE,
    PIN_LINT_PUBLISHED_LOOPBACK,
    PIN_LINT_ID_COUNT
};

struct pin_lint_check {
    struct pin_lint *lint;
    const struct pin_reach *reach;
    const struct pin_policy *policy;
};

/* Adds a fault; the message is a format. */
void pin_lint_add(const struct pin_lint_check *check, enum pin_lint_id id, const char *pointer,
                  const struct pin_place *place, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The same, about item `index` of a list. */
const char *pin_lint_item(const struct pin_lint_check *check, enum pin_field field, size_t index);

void pin_lint_check_network(const struct pin_lint_check *check);
void pin_lint_check_files(const struct pin_lint_check *check);
void pin_lint_check_grants(const struct pin_lint_check *check); /* all else */
