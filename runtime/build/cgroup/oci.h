/* oci.h: the resources of an OCI bundle, applied to a group.
 *
 * Every field that the bundle has is set or refused: none is dropped silently. A field that the version of
 * its controller can't express (real-time scheduling on v2, `unified` on v1) is an error of kind UNSUPPORTED.
 * Source: OCI runtime-spec, config-linux.md "Control groups"; the conversions of shares and weights are those
 * of runc and crun.
 */
#pragma once

#include "runtime/build/cgroup/cgroup.h"
#include "runtime/build/cgroup/settings.h"
#include "runtime/bundle/bundle.h"

/* The controllers that the resources need: for pin_cgroup_limits.also. */
uint32_t pin_cgroup_oci_controllers(const struct pin_bundle_resources *resources);

/* Pure: the settings of all fields but the devices; `v2` is the set of controllers of version 2, `unified`
 * whether the group has a directory of version 2. */
bool pin_cgroup_oci_settings(const struct pin_bundle_resources *resources, uint32_t v2, bool unified,
                             struct pin_cgroup_settings *settings, struct pin_error *err);

/* Sets all fields but the devices. On failure some may have been set. */
bool pin_cgroup_apply_oci(struct pin_cgroup *group, const struct pin_bundle_resources *resources,
                          struct pin_error *err);

/* Sets the rules for devices in place of earlier ones: see device_filter.h for what they mean. A list that v1
 * can't hold is UNSUPPORTED. With v2 this needs CAP_BPF and CAP_NET_ADMIN, or CAP_SYS_ADMIN: without, the
 * error has os_errno EPERM. */
bool pin_cgroup_apply_devices(struct pin_cgroup *group, const struct pin_bundle_device_rule *rules,
                              size_t count, struct pin_error *err);
