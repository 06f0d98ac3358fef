#include "runtime/bundle/bundle_codec.h"
#include "runtime/bundle/bundle_table.h"

/* linux.resources */

#define RESOURCE struct pin_bundle_resources
#define UP_TO_ALL(type, field)                                                                               \
    PIN_AT(type, field), .size = 8, .min = -1, .max = INT64_MAX /* -1: no limit                              \
                                                                 */

static const struct pin_bundle_row rule_rows[] = {
    PIN_ROW("allow", FLAG, PIN_AT(struct pin_bundle_device_rule, allow), .always = true, .required = true),
    PIN_ROW("type", CHAR, PIN_AT(struct pin_bundle_device_rule, type), .letters = "abc"),
    PIN_ROW("major", NUMBER, PIN_I64(struct pin_bundle_device_rule, major), .always = true, .absent = -1),
    PIN_ROW("minor", NUMBER, PIN_I64(struct pin_bundle_device_rule, minor), .always = true, .absent = -1),
    PIN_ROW("access", TEXT, PIN_AT(struct pin_bundle_device_rule, access)),
};
static const struct pin_bundle_table rule_fields = PIN_TABLE(rule_rows);

static const struct pin_bundle_row memory_rows[] = {
    PIN_ROW("limit", NUMBER, UP_TO_ALL(RESOURCE, memory), PIN_HAS(RESOURCE, has_memory)),
    PIN_ROW("reservation", NUMBER, UP_TO_ALL(RESOURCE, reservation), PIN_HAS(RESOURCE, has_reservation)),
    PIN_ROW("swap", NUMBER, UP_TO_ALL(RESOURCE, swap), PIN_HAS(RESOURCE, has_swap)),
    PIN_ROW("kernel", NOTHING, .note = "the kernel has no such limit any more; leave it out"),
    PIN_ROW("kernelTCP", NUMBER, UP_TO_ALL(RESOURCE, kernel_tcp), PIN_HAS(RESOURCE, has_kernel_tcp)),
    PIN_ROW("swappiness", NUMBER, PIN_AT(RESOURCE, swappiness), .size = 8, .max = 200,
            PIN_HAS(RESOURCE, has_swappiness)),
    PIN_ROW("disableOOMKiller", FLAG, PIN_AT(RESOURCE, disable_oom_killer)),
    PIN_ROW("useHierarchy", FLAG, PIN_AT(RESOURCE, use_hierarchy)),
    PIN_ROW("checkBeforeUpdate", FLAG, PIN_AT(RESOURCE, check_before_update),
            PIN_HAS(RESOURCE, has_check_before_update)),
};
static const struct pin_bundle_table memory_fields = PIN_TABLE(memory_rows);

static const struct pin_bundle_row cpu_rows[] = {
    PIN_ROW("shares", NUMBER, PIN_U64(RESOURCE, cpu_shares), PIN_HAS(RESOURCE, has_cpu_shares)),
    PIN_ROW("quota", NUMBER, UP_TO_ALL(RESOURCE, cpu_quota), PIN_HAS(RESOURCE, has_cpu_quota)),
    PIN_ROW("burst", NUMBER, PIN_U64(RESOURCE, cpu_burst), PIN_HAS(RESOURCE, has_cpu_burst)),
    PIN_ROW("period", NUMBER, PIN_U64(RESOURCE, cpu_period), PIN_HAS(RESOURCE, has_cpu_period)),
    PIN_ROW("realtimeRuntime", NUMBER, UP_TO_ALL(RESOURCE, rt_runtime), PIN_HAS(RESOURCE, has_rt_runtime)),
    PIN_ROW("realtimePeriod", NUMBER, PIN_U64(RESOURCE, rt_period), PIN_HAS(RESOURCE, has_rt_period)),
    PIN_ROW("cpus", TEXT, PIN_AT(RESOURCE, cpuset_cpus)),
    PIN_ROW("mems", TEXT, PIN_AT(RESOURCE, cpuset_mems)),
    PIN_ROW("idle", NUMBER, PIN_AT(RESOURCE, cpu_idle), .size = 8, .min = INT64_MIN, .max = 1,
            PIN_HAS(RESOURCE, has_cpu_idle)),
};
static const struct pin_bundle_table cpu_fields = PIN_TABLE(cpu_rows);

static const struct pin_bundle_row pids_rows[] = {
    PIN_ROW("limit", NUMBER, UP_TO_ALL(RESOURCE, pids), PIN_HAS(RESOURCE, has_pids), .required = true),
};
static const struct pin_bundle_table pids_fields = PIN_TABLE(pids_rows);

#define THROTTLE struct pin_bundle_throttle
static const struct pin_bundle_row throttle_rows[] = {
    PIN_ROW("major", NUMBER, PIN_I64(THROTTLE, major), .always = true, .required = true),
    PIN_ROW("minor", NUMBER, PIN_I64(THROTTLE, minor), .always = true, .required = true),
    PIN_ROW("rate", NUMBER, PIN_U64(THROTTLE, rate), .always = true, .required = true),
};
static const struct pin_bundle_table throttle_fields = PIN_TABLE(throttle_rows);

static const struct pin_bundle_row weight_rows[] = {
    PIN_ROW("major", NUMBER, PIN_I64(THROTTLE, major), .always = true, .required = true),
    PIN_ROW("minor", NUMBER, PIN_I64(THROTTLE, minor), .always = true, .required = true),
    PIN_ROW("weight", NUMBER, PIN_AT(THROTTLE, rate), .size = 8, .max = UINT16_MAX, .always = true),
    PIN_ROW("leafWeight", NOTHING, .note = "the kernel has no such weight any more; leave it out"),
};
static const struct pin_bundle_table weight_fields = PIN_TABLE(weight_rows);

#define THROTTLES(word, items, number, fields)                                                               \
    PIN_ROW(word, LIST, PIN_AT(RESOURCE, items), PIN_N(RESOURCE, number),                                    \
            .size = sizeof(struct pin_bundle_throttle), .table = &(fields))
static const struct pin_bundle_row block_rows[] = {
    PIN_ROW("weight", NUMBER, PIN_AT(RESOURCE, blkio_weight), .size = 2, .max = UINT16_MAX,
            PIN_HAS(RESOURCE, has_blkio_weight)),
    PIN_ROW("leafWeight", NOTHING, .note = "the kernel has no such weight any more; leave it out"),
    THROTTLES("weightDevice", weight_device, weight_device_count, weight_fields),
    THROTTLES("throttleReadBpsDevice", read_bps, read_bps_count, throttle_fields),
    THROTTLES("throttleWriteBpsDevice", write_bps, write_bps_count, throttle_fields),
    THROTTLES("throttleReadIOPSDevice", read_iops, read_iops_count, throttle_fields),
    THROTTLES("throttleWriteIOPSDevice", write_iops, write_iops_count, throttle_fields),
};
static const struct pin_bundle_table block_fields = PIN_TABLE(block_rows);

static const struct pin_bundle_row hugepage_rows[] = {
    PIN_ROW("pageSize", TEXT, PIN_AT(struct pin_pair, key), .required = true),
    PIN_ROW("limit", DIGITS, PIN_AT(struct pin_pair, value), .required = true),
};
static const struct pin_bundle_table hugepage_fields = PIN_TABLE(hugepage_rows);

static const struct pin_bundle_row priority_rows[] = {
    PIN_ROW("name", TEXT, PIN_AT(struct pin_pair, key), .required = true),
    PIN_ROW("priority", DIGITS, PIN_AT(struct pin_pair, value), .required = true),
};
static const struct pin_bundle_table priority_fields = PIN_TABLE(priority_rows);

static const struct pin_bundle_row network_rows[] = {
    PIN_ROW("classID", NUMBER, PIN_U32(RESOURCE, net_class_id)),
    PIN_ROW("priorities", LIST, PIN_AT(RESOURCE, net_priorities), PIN_N(RESOURCE, net_priority_count),
            .size = sizeof(struct pin_pair), .table = &priority_fields),
};
static const struct pin_bundle_table network_fields = PIN_TABLE(network_rows);

static const struct pin_bundle_row resource_rows[] = {
    PIN_ROW("devices", LIST, PIN_AT(RESOURCE, devices), PIN_N(RESOURCE, device_count),
            .size = sizeof(struct pin_bundle_device_rule), .table = &rule_fields),
    PIN_ROW("memory", OBJECT, .table = &memory_fields),
    PIN_ROW("cpu", OBJECT, .table = &cpu_fields),
    PIN_ROW("pids", OBJECT, .table = &pids_fields),
    PIN_ROW("blockIO", OBJECT, .table = &block_fields),
    PIN_ROW("hugepageLimits", LIST, PIN_AT(RESOURCE, hugepages), PIN_N(RESOURCE, hugepage_count),
            .size = sizeof(struct pin_pair), .table = &hugepage_fields),
    PIN_ROW("network", OBJECT, .table = &network_fields),
    PIN_ROW("rdma", CODEC, .codec = &pin_codec_rdma),
    PIN_ROW("unified", PAIRS, PIN_AT(RESOURCE, unified), PIN_N(RESOURCE, unified_count)),
};
const struct pin_bundle_table pin_bundle_resources_fields = PIN_TABLE(resource_rows);

/* linux.seccomp */

static const char *action_name(unsigned action) {
    return pin_filter_action_name((enum pin_filter_action)action);
}

static const struct pin_bundle_row seccomp_rows[] = {
    PIN_ROW("defaultAction", CHOICE, PIN_AT(struct pin_filter, default_action), .always = true,
            .required = true, .name = action_name, .names = PIN_FILTER_ACTION_COUNT, PIN_KILL_ALIAS),
    PIN_ROW("defaultErrnoRet", NUMBER, PIN_AT(struct pin_filter, default_error), .size = 2, .max = UINT16_MAX,
            PIN_HAS(struct pin_filter, has_default_error)),
    PIN_ROW("architectures", CODEC, .codec = &pin_codec_architectures),
    PIN_ROW("flags", CODEC, .codec = &pin_codec_flags),
    PIN_ROW("listenerPath", TEXT, PIN_AT(struct pin_filter, listener_path)),
    PIN_ROW("listenerMetadata", TEXT, PIN_AT(struct pin_filter, listener_metadata)),
    PIN_ROW("syscalls", CODEC, .codec = &pin_codec_rules),
};
static const struct pin_bundle_table seccomp_fields = PIN_TABLE(seccomp_rows);

/* linux */

#define DEVICE struct pin_bundle_device
static const struct pin_bundle_row device_rows[] = {
    PIN_ROW("type", CHAR, PIN_AT(DEVICE, type), .letters = "bcup", .required = true),
    PIN_ROW("path", TEXT, PIN_AT(DEVICE, path), .required = true),
    PIN_ROW("major", NUMBER, PIN_I64(DEVICE, major), .always = true, .absent = -1),
    PIN_ROW("minor", NUMBER, PIN_I64(DEVICE, minor), .always = true, .absent = -1),
    PIN_ROW("fileMode", NUMBER, PIN_U32(DEVICE, mode), PIN_HAS(DEVICE, has_mode)),
    PIN_ROW("uid", NUMBER, PIN_ID(DEVICE, uid), PIN_HAS(DEVICE, has_uid)),
    PIN_ROW("gid", NUMBER, PIN_ID(DEVICE, gid), PIN_HAS(DEVICE, has_gid)),
};
static const struct pin_bundle_table device_fields = PIN_TABLE(device_rows);

static const struct pin_bundle_row personality_rows[] = {
    PIN_ROW("domain", TEXT, PIN_AT(struct pin_bundle, personality_domain), .required = true),
    PIN_ROW("flags", NOTHING, .note = "the specification names none yet"),
};
static const struct pin_bundle_table personality_fields = PIN_TABLE(personality_rows);

#define ID_MAPS(word, items, number)                                                                         \
    PIN_ROW(word, LIST, PIN_AT(struct pin_bundle, items), PIN_N(struct pin_bundle, number),                  \
            .size = sizeof(struct pin_id_map), .table = &pin_bundle_id_map_fields)
static const struct pin_bundle_row linux_rows[] = {
    ID_MAPS("uidMappings", uid_maps, uid_map_count),
    ID_MAPS("gidMappings", gid_maps, gid_map_count),
    PIN_ROW("sysctl", PAIRS, PIN_AT(struct pin_bundle, sysctls), PIN_N(struct pin_bundle, sysctl_count)),
    PIN_ROW("resources", OBJECT, PIN_AT(struct pin_bundle, resources), .table = &pin_bundle_resources_fields),
    PIN_ROW("cgroupsPath", TEXT, PIN_AT(struct pin_bundle, cgroups_path)),
    PIN_ROW("namespaces", CODEC, .codec = &pin_codec_namespaces),
    PIN_ROW("devices", LIST, PIN_AT(struct pin_bundle, devices), PIN_N(struct pin_bundle, device_count),
            .size = sizeof(struct pin_bundle_device), .table = &device_fields),
    PIN_ROW("netDevices", REFUSED, .note = "pinfold moves no network device into a sandbox"),
    PIN_ROW("seccomp", OBJECT, PIN_AT(struct pin_bundle, seccomp),
            PIN_HAS(struct pin_bundle, seccomp.present), .table = &seccomp_fields),
    PIN_ROW("rootfsPropagation", TEXT, PIN_AT(struct pin_bundle, rootfs_propagation)),
    PIN_ROW("maskedPaths", TEXTS, PIN_AT(struct pin_bundle, masked_paths),
            PIN_N(struct pin_bundle, masked_path_count)),
    PIN_ROW("readonlyPaths", TEXTS, PIN_AT(struct pin_bundle, readonly_paths),
            PIN_N(struct pin_bundle, readonly_path_count)),
    PIN_ROW("mountLabel", TEXT, PIN_AT(struct pin_bundle, mount_label)),
    PIN_ROW("intelRdt", REFUSED, .note = "cache and memory bandwidth classes are not offered"),
    PIN_ROW("memoryPolicy", REFUSED, .note = "choose memory nodes by linux.resources.cpu.mems"),
    PIN_ROW("personality", OBJECT, .table = &personality_fields),
    PIN_ROW("timeOffsets", CODEC, .codec = &pin_codec_time_offsets),
};
const struct pin_bundle_table pin_bundle_linux_fields = PIN_TABLE(linux_rows);
