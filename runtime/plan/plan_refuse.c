#include "runtime/plan/plan_refuse.h"

#include <string.h>

#include "base/names.h"

static bool has_cpu_weights(const struct pin_bundle *bundle) {
    const struct pin_bundle_resources *asked = &bundle->resources;
    return asked->has_cpu_shares || asked->has_cpu_burst || asked->has_cpu_idle || asked->has_rt_runtime ||
           asked->has_rt_period || asked->cpuset_cpus != NULL || asked->cpuset_mems != NULL;
}

static bool has_memory_details(const struct pin_bundle *bundle) {
    const struct pin_bundle_resources *asked = &bundle->resources;
    return asked->has_reservation || asked->has_swappiness || asked->disable_oom_killer ||
           asked->has_kernel_tcp;
}

static bool has_block_io(const struct pin_bundle *bundle) {
    const struct pin_bundle_resources *asked = &bundle->resources;
    return asked->has_blkio_weight || asked->weight_device_count > 0 || asked->read_bps_count > 0 ||
           asked->write_bps_count > 0 || asked->read_iops_count > 0 || asked->write_iops_count > 0;
}

/* An access that is taken away is no loss: the sandbox has the default devices and can make none. */
static bool has_device_grants(const struct pin_bundle *bundle) {
    for (size_t i = 0; i < bundle->resources.device_count; i++)
        if (bundle->resources.devices[i].allow)
            return true;
    return bundle->device_count > 0;
}

static bool has_other_resources(const struct pin_bundle *bundle) {
    const struct pin_bundle_resources *asked = &bundle->resources;
    return asked->hugepage_count > 0 || asked->unified_count > 0 || asked->net_priority_count > 0 ||
           asked->net_class_id != 0 || asked->rdma_count > 0;
}

static bool has_scheduling(const struct pin_bundle *bundle) {
    return bundle->process.has_io_priority || bundle->process.has_scheduler;
}

static bool has_unknown_capabilities(const struct pin_bundle *bundle) {
    return bundle->process.unknown_capability_count > 0;
}

static bool has_label(const struct pin_bundle *bundle) {
    return bundle->process.apparmor_profile != NULL || bundle->process.selinux_label != NULL ||
           bundle->mount_label != NULL;
}

static bool has_sysctls(const struct pin_bundle *bundle) {
    return bundle->sysctl_count > 0;
}
static bool has_maps(const struct pin_bundle *bundle) {
    return bundle->uid_map_count + bundle->gid_map_count > 0;
}
static bool has_personality(const struct pin_bundle *bundle) {
    return bundle->personality_domain != NULL;
}
static bool has_time_offsets(const struct pin_bundle *bundle) {
    return bundle->time_offset_count > 0;
}
static bool has_cgroups_path(const struct pin_bundle *bundle) {
    return bundle->cgroups_path != NULL;
}
static bool has_listener(const struct pin_bundle *bundle) {
    return bundle->seccomp.listener_path != NULL;
}

static bool has_propagation(const struct pin_bundle *bundle) {
    const char *asked = bundle->rootfs_propagation;
    return asked != NULL && strcmp(asked, "private") != 0 && strcmp(asked, "rprivate") != 0;
}

struct refusal {
    bool (*asked)(const struct pin_bundle *bundle);
    const char *pointer, *what;
};

static const struct refusal refusals[] = {
    {pin_bundle_has_hooks,     "/hooks",                   "hooks"                               },
    {has_maps,                 "/linux/uidMappings",       "id mappings of its own"              },
    {has_device_grants,        "/linux/devices",           "devices beyond the default ones"     },
    {has_sysctls,              "/linux/sysctl",            "sysctls"                             },
    {has_cgroups_path,         "/linux/cgroupsPath",       "a cgroup path of its own"            },
    {has_cpu_weights,          "/linux/resources/cpu",     "processor settings beside the quota" },
    {has_memory_details,       "/linux/resources/memory",  "memory settings beside the limits"   },
    {has_block_io,             "/linux/resources/blockIO", "block I/O limits"                    },
    {has_other_resources,      "/linux/resources",         "resources beside memory, cpu, pids"  },
    {has_scheduling,           "/process/scheduler",       "a scheduler or I/O priority"         },
    {has_unknown_capabilities, "/process/capabilities",    "capabilities that aren't known"      },
    {has_label,                "/process/selinuxLabel",    "an AppArmor profile or SELinux label"},
    {has_personality,          "/linux/personality",       "a personality"                       },
    {has_time_offsets,         "/linux/timeOffsets",       "clock offsets"                       },
    {has_listener,             "/linux/seccomp",           "a seccomp listener"                  },
    {has_propagation,          "/linux/rootfsPropagation", "mount propagation"                   },
};

void pin_plan_refuse(const struct pin_bundle *bundle, struct pin_findings *found) {
    for (size_t i = 0; i < PIN_COUNT(refusals); i++)
        if (refusals[i].asked(bundle))
            (void)pin_find(found, PIN_ERROR_UNSUPPORTED, refusals[i].pointer, "leave it out of the bundle",
                           "a sandbox of `pinfold run` can't have %s", refusals[i].what);
}
