#include "runtime/bundle/bundle_codec.h"
#include "runtime/bundle/bundle_table.h"

/* process */

static const struct pin_bundle_row console_rows[] = {
    PIN_ROW("height", NUMBER, PIN_AT(struct pin_bundle, process.console_rows), .size = 2, .max = UINT16_MAX),
    PIN_ROW("width", NUMBER, PIN_AT(struct pin_bundle, process.console_columns), .size = 2,
            .max = UINT16_MAX),
};
static const struct pin_bundle_table console_fields = PIN_TABLE(console_rows);

static const struct pin_bundle_row user_rows[] = {
    PIN_ROW("uid", NUMBER, PIN_ID(struct pin_bundle, process.uid), .always = true),
    PIN_ROW("gid", NUMBER, PIN_ID(struct pin_bundle, process.gid), .always = true),
    PIN_ROW("umask", NUMBER, PIN_AT(struct pin_bundle, process.umask), .size = 4, .max = 0777,
            PIN_HAS(struct pin_bundle, process.has_umask)),
    PIN_ROW("additionalGids", IDS, PIN_AT(struct pin_bundle, process.groups),
            PIN_N(struct pin_bundle, process.group_count)),
    PIN_ROW("username", REFUSED, .note = "it is for Windows; write uid and gid"),
};
static const struct pin_bundle_table user_fields = PIN_TABLE(user_rows);

static const char *capability_name(unsigned capability) {
    return pin_capability_name(capability);
}

#define CAPABILITIES(word, set)                                                                              \
    PIN_ROW(word, SET, PIN_AT(struct pin_bundle, process.capabilities[set]), .size = 8, .always = true,      \
            .name = capability_name, .names = PIN_CAPABILITY_COUNT,                                          \
            .unknown = offsetof(struct pin_bundle, process.unknown_capabilities) + 1,                        \
            PIN_N(struct pin_bundle, process.unknown_capability_count))
static const struct pin_bundle_row capability_rows[] = {
    CAPABILITIES("bounding", PIN_CAP_BOUNDING),       CAPABILITIES("effective", PIN_CAP_EFFECTIVE),
    CAPABILITIES("inheritable", PIN_CAP_INHERITABLE), CAPABILITIES("permitted", PIN_CAP_PERMITTED),
    CAPABILITIES("ambient", PIN_CAP_AMBIENT),
};
static const struct pin_bundle_table capability_fields = PIN_TABLE(capability_rows);

static const struct pin_bundle_row rlimit_rows[] = {
    PIN_ROW("type", TEXT, PIN_AT(struct pin_bundle_rlimit, type), .required = true),
    PIN_ROW("soft", NUMBER, PIN_U64(struct pin_bundle_rlimit, soft), .always = true, .required = true),
    PIN_ROW("hard", NUMBER, PIN_U64(struct pin_bundle_rlimit, hard), .always = true, .required = true),
};
static const struct pin_bundle_table rlimit_fields = PIN_TABLE(rlimit_rows);

static const struct pin_bundle_row scheduler_rows[] = {
    PIN_ROW("policy", TEXT, PIN_AT(struct pin_bundle, process.scheduler_policy), .required = true),
    PIN_ROW("nice", NUMBER, PIN_AT(struct pin_bundle, process.scheduler_nice), .size = 4, .min = -20,
            .max = 19),
    PIN_ROW("priority", NUMBER, PIN_AT(struct pin_bundle, process.scheduler_priority), .size = 4,
            .min = INT32_MIN, .max = INT32_MAX),
    PIN_ROW("flags", TEXTS, PIN_AT(struct pin_bundle, process.scheduler_flags),
            PIN_N(struct pin_bundle, process.scheduler_flag_count)),
    PIN_ROW("runtime", NUMBER, PIN_U64(struct pin_bundle, process.scheduler_runtime)),
    PIN_ROW("deadline", NUMBER, PIN_U64(struct pin_bundle, process.scheduler_deadline)),
    PIN_ROW("period", NUMBER, PIN_U64(struct pin_bundle, process.scheduler_period)),
};
static const struct pin_bundle_table scheduler_fields = PIN_TABLE(scheduler_rows);

static const struct pin_bundle_row io_priority_rows[] = {
    PIN_ROW("class", TEXT, PIN_AT(struct pin_bundle, process.io_priority_class), .required = true),
    PIN_ROW("priority", NUMBER, PIN_AT(struct pin_bundle, process.io_priority), .size = 4, .min = -1,
            .max = 7, .always = true),
};
static const struct pin_bundle_table io_priority_fields = PIN_TABLE(io_priority_rows);

static const struct pin_bundle_row process_rows[] = {
    PIN_ROW("terminal", FLAG, PIN_AT(struct pin_bundle, process.terminal)),
    PIN_ROW("consoleSize", OBJECT, .table = &console_fields),
    PIN_ROW("user", OBJECT, .table = &user_fields, .always = true),
    PIN_ROW("args", TEXTS, PIN_AT(struct pin_bundle, process.args),
            PIN_N(struct pin_bundle, process.arg_count)),
    PIN_ROW("commandLine", REFUSED, .note = "it is for Windows; write args"),
    PIN_ROW("env", TEXTS, PIN_AT(struct pin_bundle, process.env),
            PIN_N(struct pin_bundle, process.env_count)),
    PIN_ROW("cwd", TEXT, PIN_AT(struct pin_bundle, process.cwd), .required = true),
    PIN_ROW("capabilities", OBJECT, PIN_HAS(struct pin_bundle, process.has_capabilities),
            .table = &capability_fields),
    PIN_ROW("rlimits", LIST, PIN_AT(struct pin_bundle, process.rlimits),
            PIN_N(struct pin_bundle, process.rlimit_count), .size = sizeof(struct pin_bundle_rlimit),
            .table = &rlimit_fields),
    PIN_ROW("noNewPrivileges", FLAG, PIN_AT(struct pin_bundle, process.no_new_privileges)),
    PIN_ROW("oomScoreAdj", NUMBER, PIN_AT(struct pin_bundle, process.oom_score_adj), .size = 4, .min = -1000,
            .max = 1000, PIN_HAS(struct pin_bundle, process.has_oom_score_adj)),
    PIN_ROW("apparmorProfile", TEXT, PIN_AT(struct pin_bundle, process.apparmor_profile)),
    PIN_ROW("selinuxLabel", TEXT, PIN_AT(struct pin_bundle, process.selinux_label)),
    PIN_ROW("ioPriority", OBJECT, PIN_HAS(struct pin_bundle, process.has_io_priority),
            .table = &io_priority_fields),
    PIN_ROW("scheduler", OBJECT, PIN_HAS(struct pin_bundle, process.has_scheduler),
            .table = &scheduler_fields),
    PIN_ROW("execCPUAffinity", REFUSED, .note = "choose processors by linux.resources.cpu.cpus"),
};
const struct pin_bundle_table pin_bundle_process_fields = PIN_TABLE(process_rows);

/* root, mounts, hooks */

static const struct pin_bundle_row root_rows[] = {
    PIN_ROW("path", TEXT, PIN_AT(struct pin_bundle, root.path), .required = true),
    PIN_ROW("readonly", FLAG, PIN_AT(struct pin_bundle, root.read_only)),
};
static const struct pin_bundle_table root_fields = PIN_TABLE(root_rows);

static const struct pin_bundle_row id_map_rows[] = {
    PIN_ROW("containerID", NUMBER, PIN_U32(struct pin_id_map, inside), .always = true, .required = true),
    PIN_ROW("hostID", NUMBER, PIN_U32(struct pin_id_map, outside), .always = true, .required = true),
    PIN_ROW("size", NUMBER, PIN_U32(struct pin_id_map, count), .always = true, .required = true),
};
const struct pin_bundle_table pin_bundle_id_map_fields = PIN_TABLE(id_map_rows);

#define ID_MAPS(word, type, items, number)                                                                   \
    PIN_ROW(word, LIST, PIN_AT(type, items), PIN_N(type, number), .size = sizeof(struct pin_id_map),         \
            .table = &pin_bundle_id_map_fields)

static const struct pin_bundle_row mount_rows[] = {
    PIN_ROW("destination", TEXT, PIN_AT(struct pin_bundle_mount, destination), .required = true),
    PIN_ROW("type", TEXT, PIN_AT(struct pin_bundle_mount, type)),
    PIN_ROW("source", TEXT, PIN_AT(struct pin_bundle_mount, source)),
    PIN_ROW("options", TEXTS, PIN_AT(struct pin_bundle_mount, options),
            PIN_N(struct pin_bundle_mount, option_count)),
    ID_MAPS("uidMappings", struct pin_bundle_mount, uid_maps, uid_map_count),
    ID_MAPS("gidMappings", struct pin_bundle_mount, gid_maps, gid_map_count),
};
static const struct pin_bundle_table mount_fields = PIN_TABLE(mount_rows);

static const struct pin_bundle_row hook_rows[] = {
    PIN_ROW("path", TEXT, PIN_AT(struct pin_bundle_hook, path), .required = true),
    PIN_ROW("args", TEXTS, PIN_AT(struct pin_bundle_hook, args), PIN_N(struct pin_bundle_hook, arg_count)),
    PIN_ROW("env", TEXTS, PIN_AT(struct pin_bundle_hook, env), PIN_N(struct pin_bundle_hook, env_count)),
    PIN_ROW("timeout", NUMBER, PIN_AT(struct pin_bundle_hook, timeout_s), .size = 4, .min = 1,
            .max = UINT32_MAX),
};
static const struct pin_bundle_table hook_fields = PIN_TABLE(hook_rows);

#define HOOKS(word, stage)                                                                                   \
    PIN_ROW(word, LIST, PIN_AT(struct pin_bundle, hooks[stage]),                                             \
            PIN_N(struct pin_bundle, hook_count[stage]), .size = sizeof(struct pin_bundle_hook),             \
            .table = &hook_fields)
static const struct pin_bundle_row stage_rows[] = {
    HOOKS("prestart", PIN_HOOK_PRESTART),
    HOOKS("createRuntime", PIN_HOOK_CREATE_RUNTIME),
    HOOKS("createContainer", PIN_HOOK_CREATE_CONTAINER),
    HOOKS("startContainer", PIN_HOOK_START_CONTAINER),
    HOOKS("poststart", PIN_HOOK_POSTSTART),
    HOOKS("poststop", PIN_HOOK_POSTSTOP),
};
static const struct pin_bundle_table stage_fields = PIN_TABLE(stage_rows);

#define OTHER_PLATFORM .note = "it is for another platform"

static const struct pin_bundle_row bundle_rows[] = {
    PIN_ROW("ociVersion", TEXT, PIN_AT(struct pin_bundle, oci_version), .required = true),
    PIN_ROW("process", OBJECT, .table = &pin_bundle_process_fields),
    PIN_ROW("root", OBJECT, .table = &root_fields),
    PIN_ROW("hostname", TEXT, PIN_AT(struct pin_bundle, hostname)),
    PIN_ROW("domainname", TEXT, PIN_AT(struct pin_bundle, domainname)),
    PIN_ROW("mounts", LIST, PIN_AT(struct pin_bundle, mounts), PIN_N(struct pin_bundle, mount_count),
            .size = sizeof(struct pin_bundle_mount), .table = &mount_fields),
    PIN_ROW("hooks", OBJECT, .table = &stage_fields),
    PIN_ROW("annotations", PAIRS, PIN_AT(struct pin_bundle, annotations),
            PIN_N(struct pin_bundle, annotation_count)),
    PIN_ROW("linux", OBJECT, .table = &pin_bundle_linux_fields),
    PIN_ROW("pinfold", OBJECT, PIN_AT(struct pin_bundle, ext), PIN_HAS(struct pin_bundle, ext.present),
            .table = &pin_bundle_ext_fields),
    PIN_ROW("freebsd", REFUSED, OTHER_PLATFORM),
    PIN_ROW("solaris", REFUSED, OTHER_PLATFORM),
    PIN_ROW("vm", REFUSED, OTHER_PLATFORM),
    PIN_ROW("windows", REFUSED, OTHER_PLATFORM),
    PIN_ROW("zos", REFUSED, OTHER_PLATFORM),
};
const struct pin_bundle_table pin_bundle_fields = PIN_TABLE(bundle_rows);
