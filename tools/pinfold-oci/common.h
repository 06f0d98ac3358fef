/* common.h: what the verbs share: the root directory, facts about the host, a container by its name. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "runtime/build/build.h"
#include "runtime/bundle/bundle.h"
#include "runtime/host/host.h"
#include "runtime/oci/container.h"
#include "runtime/plan/plan.h"
#include "tools/pinfold-oci/cli.h"

struct pin_oci_host {
    int root; /* ROOT; -1: not opened */
    struct pin_host host;
    struct pin_cgroup_facts cgroups;
};
#define PIN_OCI_HOST_NONE ((struct pin_oci_host){.root = -1})

bool pin_oci_open_host(const struct pin_oci_options *options, struct pin_oci_host *host,
                       struct pin_error *err);
void pin_oci_close_host(struct pin_oci_host *host);

/* The two above and pin_container_open(), for verbs about one container. */
bool pin_oci_open_container(const struct pin_oci_options *options, const char *id, bool lock,
                            struct pin_oci_host *host, struct pin_container *container,
                            struct pin_error *err);

/* The copy of config.json in the container's directory; the caller frees it. */
struct pin_bundle *pin_oci_read_config(const struct pin_container *container, struct pin_findings *found);

/* settle.h, with a warning about what was left out. */
void pin_oci_settle(const struct pin_oci_options *options, struct pin_bundle *bundle);

/* What the plan leaves out of what was asked for; NULL is fine. */
void pin_oci_warn_of_plan(const struct pin_oci_options *options, const struct pin_plan *plan);

void pin_oci_fill_request(const struct pin_oci_options *options, struct pin_engine_request *request);
bool pin_oci_parse_number(const char *text, long *value);
bool pin_oci_write_pid(const char *path, pid_t pid, struct pin_error *err);

/* Before a process is made that pin_oci_wait() will wait for: signals that come too early are kept for it. */
void pin_oci_hold_signals(void);

/* Waits for the process, with signals handed on to it and, where `terminal` isn't -1, with the terminal's
 * master between the caller's stdin and stdout: its exit code. The master is closed. */
int pin_oci_wait(pid_t pid, int pidfd, int terminal);

/* For the hooks of a container: true once a `delete --force` waits, or it is deleted already. */
struct pin_oci_ending {
    int root;
    const struct pin_container *container;
};
bool pin_oci_is_ending(const void *ending);

/* Ends all processes of a container, and waits for that. */
bool pin_oci_end(const struct pin_oci_host *host, const struct pin_container *container,
                 struct pin_error *err);
/* Deletes what there is of a container, whose lock is held. */
bool pin_oci_clear(const struct pin_oci_options *options, struct pin_oci_host *host,
                   struct pin_container *container, struct pin_error *err);
