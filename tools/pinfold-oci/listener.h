/* listener.h: the agent of a filter with SCMP_ACT_NOTIFY, which answers for the container.
 *
 * The bundle names its socket; the container's process sends it the listener of its filter, with the state of
 * the container as seccomp's containers-process-state has it. Source: OCI runtime-spec 1.2, config-linux.md
 * "Seccomp", "The Container Process State".
 */
#pragma once

#include <sys/types.h>

#include <jansson.h>

#include "runtime/bundle/bundle.h"

#define PIN_OCI_SHARED_ROOM ((size_t)256 * 1024)

/* Zeroed memory that a child shares; NULL on failure. pin_oci_unshare() takes NULL. */
char *pin_oci_share(struct pin_error *err);
void pin_oci_unshare(char *memory);

/* A connection to the agent, and shared memory for what it is told; -1 and NULL, with no error, where the
 * bundle's filter has no listener. */
int pin_oci_listener_open(const struct pin_bundle *bundle, char **told, struct pin_error *err);

/* Writes it; the state is taken over. */
bool pin_oci_listener_tell(const struct pin_bundle *bundle, json_t *state, pid_t pid, char *told,
                           struct pin_error *err);
