/* policy_fixture.h: what the tests of policy/ share: policies from text, findings by pointer. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/findings.h"
#include "policy/policy_read.h"

static inline struct pin_policy *parse(const char *text, struct pin_findings *found) {
    memset(found, 0, sizeof(*found));
    return pin_policy_parse("test.json", text, strlen(text), found);
}

static inline void print_findings(const struct pin_findings *found) {
    for (size_t i = 0; i < found->count; i++)
        print_error("%s: %s (%s)\n", found->list[i].pointer, found->list[i].message, found->list[i].hint);
}

/* A policy that must be good. */
static inline struct pin_policy *good(const char *text) {
    static struct pin_findings found;
    struct pin_policy *policy = parse(text, &found);
    if (policy == NULL)
        print_findings(&found);
    assert_non_null(policy);
    return policy;
}

/* The body of a policy: {"pinfold": 1, BODY}. */
static inline struct pin_policy *body(const char *text) {
    char whole[4096];
    (void)snprintf(whole, sizeof(whole), "{\"pinfold\": 1, %s}", text);
    return good(whole);
}

/* The finding whose pointer ends so, or NULL. */
static inline const struct pin_error *finding_at(const struct pin_findings *found, const char *pointer) {
    for (size_t i = 0; i < found->count; i++) {
        size_t length = strlen(found->list[i].pointer), wanted = strlen(pointer);
        if (length >= wanted && strcmp(found->list[i].pointer + length - wanted, pointer) == 0)
            return &found->list[i];
    }
    return NULL;
}
