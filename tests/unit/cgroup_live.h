/* cgroup_live.h: groups on the cgroups of this host, for tests that run as root or as a user whose cgroup was
 * delegated. They are of a folder of the test's own. What the host can't do is skipped by name.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/units.h"
#include "policy/policy.h"
#include "runtime/build/cgroup/cgroup.h"
#include "tests/unit/test.h"

#define PATIENCE_NS (20 * PIN_NS_PER_S)
#define NEED_ALL 0xfu

extern struct pin_cgroup_facts facts; /* since gather(), which is the set-up of a group of tests */
extern const struct pin_cgroup_limits no_limits, usual;

int gather(void **state);
/* PINFOLD_CGROUP_MUST: a host on which nothing may be skipped. */
void need(uint32_t protections);

struct pin_cgroup *make(uint32_t slot, const struct pin_cgroup_limits *limits);
void end(struct pin_cgroup *group);
/* A child that waits until it is in the group, then runs `body`. */
pid_t start(struct pin_cgroup *group, void (*body)(void));
int wait_for(pid_t child);
void sleep_forever(void);
void spin_a_while(void);

/* NULL: the host has no such controller. */
const char *path_of(enum pin_cgroup_controller controller, uint32_t slot, const char *file, char path[2048]);
bool exists(uint32_t slot);
