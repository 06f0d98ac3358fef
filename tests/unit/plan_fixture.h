/* plan_fixture.h: what a plan is made from, and hosts that don't exist: what they can do is what a test says.
 */
#pragma once

#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "images/rootfs.h"
#include "policy/policy_read.h"
#include "runtime/bundle/resolve.h"
#include "runtime/plan/plan.h"

static const struct pin_host root_host = {
    .uid = 0, .privileged = true, .landlock_abi = 7, .raises_limits = true, .time_namespaces = true};
static const struct pin_host user_host = {
    .uid = 1234, .gid = 1235, .landlock_abi = 7, .raises_limits = true, .time_namespaces = true};

struct fixture {
    struct pin_policy *policy, *effective;
    struct pin_request request;
    struct pin_arena arena;
    struct pin_rootfs rootfs;
    struct pin_bundle *bundle;
    struct pin_plan *plan;
    struct pin_findings found;
};

/* The request is for `true` and narrowed below this policy; what it asks for beside is set before. */
static inline void narrow(struct fixture *fixture, const char *policy) {
    static const char *const command[] = {"true", NULL};
    fixture->policy = pin_policy_parse("test.json", policy, strlen(policy), &fixture->found);
    assert_non_null(fixture->policy);
    fixture->request.args = command;
    fixture->request.arg_count = 1;
    fixture->effective = pin_request_narrow(fixture->policy, &fixture->request, &fixture->found);
    assert_non_null(fixture->effective);
}

static inline void clear(struct fixture *fixture) {
    pin_plan_free(fixture->plan);
    pin_bundle_free(fixture->bundle);
    pin_policy_free(fixture->effective);
    pin_policy_free(fixture->policy);
    pin_arena_free(&fixture->arena);
    *fixture = (struct fixture){0};
}

static inline int set_up(void **state) {
    *state = calloc(1, sizeof(struct fixture));
    return *state == NULL;
}

static inline int tear_down(void **state) {
    clear(*state);
    free(*state);
    return 0;
}
