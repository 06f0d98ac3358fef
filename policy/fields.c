#include "policy/fields.h"

#include "base/names.h"
#include "base/units.h"
#include "policy/checks.h"
#include "policy/words.h"

#define FIELD(name, kind, id, member, ...)                                                                   \
    {                                                                                                        \
        .key = (name), .type = PIN_TYPE_##kind, .field = PIN_FIELD_##id,                                     \
        .offset = offsetof(struct pin_policy, member), __VA_ARGS__                                           \
    }
#define LIST(name, kind, id, list, n)                                                                        \
    FIELD(name, kind, id, list, .count_offset = offsetof(struct pin_policy, n))
/* NOLINTBEGIN(bugprone-macro-parentheses): the name of a member can't stand in parentheses */
#define STRINGS(name, id, list, accepts, such)                                                               \
    FIELD(name, STRINGS, id, list.items, .count_offset = offsetof(struct pin_policy, list.count),            \
          .check = (accepts), .example = "such as '" such "'")
/* NOLINTEND(bugprone-macro-parentheses) */
#define WORDS(name, kind, id, member, table)                                                                 \
    FIELD(name, kind, id, member, .words = (table), .word_count = PIN_COUNT(table))
#define LIMIT(name, kind, id, member, low, high) FIELD(name, kind, id, member, .min = (low), .max = (high))
#define UNLIMITED(name, kind, id, member, low, high)                                                         \
    FIELD(name, kind, id, member, .min = (low), .max = (high), .unlimited = true)
#define OBJECT(name, rows_of)                                                                                \
    { .key = (name), .type = PIN_TYPE_OBJECT, .object = &(rows_of) }
#define SPECIAL(name, kind)                                                                                  \
    { .key = (name), .type = PIN_TYPE_##kind }

#define YEAR (8760 * 3600 * PIN_NS_PER_S)
#define LARGEST (UINT64_C(1) << 60) /* of sizes; sums of a few of them can't overflow */

static const struct pin_field_row workspace_rows[] = {
    WORDS("access", CHOICE, WORKSPACE_ACCESS, filesystem.workspace, pin_access_words),
    UNLIMITED("size", SIZE, WORKSPACE_SIZE, filesystem.workspace_size_bytes, 0, LARGEST),
};
static const struct pin_field_object workspace = {workspace_rows, PIN_COUNT(workspace_rows)};

static const struct pin_field_row filesystem_rows[] = {
    WORDS("root", CHOICE, FILESYSTEM_ROOT, filesystem.root, pin_root_mode_words),
    UNLIMITED("root_size", SIZE, FILESYSTEM_ROOT_SIZE, filesystem.root_size_bytes, 0, LARGEST),
    WORDS("root_storage", CHOICE, FILESYSTEM_ROOT_STORAGE, filesystem.root_storage, pin_root_storage_words),
    OBJECT("workspace", workspace),
    STRINGS("write", WRITE, filesystem.write, pin_check_write_path, "/workspace"),
    LIMIT("tmp", SIZE, FILESYSTEM_TMP, filesystem.tmp_bytes, 0, LARGEST),
    LIST("mounts", MOUNTS, MOUNTS, filesystem.mounts, filesystem.mount_count),
};
static const struct pin_field_object filesystem = {filesystem_rows, PIN_COUNT(filesystem_rows)};

static const struct pin_field_row resources_rows[] = {
    UNLIMITED("memory", SIZE, MEMORY, resources.memory_bytes, PIN_MIB, LARGEST),
    UNLIMITED("swap", SIZE, SWAP, resources.swap_bytes, 0, LARGEST),
    UNLIMITED("cpus", CPUS, CPUS, resources.millicpus, 10, 1000000),
    UNLIMITED("pids", COUNT, PIDS, resources.pids, 1, 4194304),
    LIMIT("files", COUNT, FILES, resources.files, 8, 1073741816),
    UNLIMITED("core", SIZE, CORE, resources.core_bytes, 0, LARGEST),
    UNLIMITED("wall_time", TIME, WALL_TIME, resources.wall_time_ns, PIN_NS_PER_MS, YEAR),
    UNLIMITED("cpu_time", TIME, CPU_TIME, resources.cpu_time_ns, PIN_NS_PER_MS, YEAR),
    LIMIT("grace", TIME, GRACE, resources.grace_ns, 0, 3600 * PIN_NS_PER_S),
    UNLIMITED("stdout", SIZE, STDOUT, resources.stdout_bytes, 0, LARGEST),
    UNLIMITED("stderr", SIZE, STDERR, resources.stderr_bytes, 0, LARGEST),
    LIMIT("frame", SIZE, FRAME, resources.frame_bytes, 0, PIN_GIB),
    WORDS("on_output_cap", CHOICE, ON_OUTPUT_CAP, resources.on_output_cap, pin_on_cap_words),
};
static const struct pin_field_object resources = {resources_rows, PIN_COUNT(resources_rows)};

#define COUNT_MAX UINT32_MAX

static const struct pin_field_row limit_rows[] = {
    UNLIMITED("connections", COUNT, CONNECTIONS, network.limits.connections_at_once, 1, COUNT_MAX),
    UNLIMITED("connections_total", COUNT, CONNECTIONS_TOTAL, network.limits.connections_total, 1, COUNT_MAX),
    UNLIMITED("bytes_out", SIZE, BYTES_OUT, network.limits.bytes_out, 1, LARGEST),
    UNLIMITED("bytes_in", SIZE, BYTES_IN, network.limits.bytes_in, 1, LARGEST),
    UNLIMITED("rate", SIZE, RATE, network.limits.bytes_per_second, PIN_KIB, LARGEST),
    UNLIMITED("idle", TIME, IDLE, network.limits.idle_ns, PIN_NS_PER_S, YEAR),
    UNLIMITED("lifetime", TIME, LIFETIME, network.limits.lifetime_ns, PIN_NS_PER_S, YEAR),
    UNLIMITED("names", COUNT, NAMES, network.limits.names_total, 1, COUNT_MAX),
    UNLIMITED("names_rate", COUNT, NAMES_RATE, network.limits.names_per_second, 1, COUNT_MAX),
    LIMIT("drain", TIME, DRAIN, network.limits.drain_ns, 0, 3600 * PIN_NS_PER_S),
};
const struct pin_field_object pin_limit_fields = {limit_rows, PIN_COUNT(limit_rows)};

#define STRING(name, id, member, accepts, such)                                                              \
    FIELD(name, STRING, id, member, .check = (accepts), .example = "such as '" such "'")

static const struct pin_field_row proxy_rows[] = {
    STRING("url", PROXY_URL, network.proxy_url, pin_check_proxy, "http://proxy.example.com:3128"),
    STRING("secret", PROXY_SECRET, network.proxy_secret, pin_check_proxy_secret, "PROXY_LOGIN"),
};
static const struct pin_field_object proxy = {proxy_rows, PIN_COUNT(proxy_rows)};

static const struct pin_field_row network_rows[] = {
    LIST("egress", EGRESS, EGRESS, network.egress, network.egress_count),
    LIST("deny", DENY, EGRESS_DENY, network.deny, network.deny_count),
    LIST("budgets", BUDGETS, BUDGETS, network.budgets, network.budget_count),
    STRINGS("publish", PUBLISH, network.publish, pin_check_publish, "3000=127.0.0.1:0"),
    OBJECT("limits", pin_limit_fields),
    OBJECT("upstream_proxy", proxy),
    WORDS("unknown_names", CHOICE, UNKNOWN_NAMES, network.unknown_names, pin_unknown_names_words),
};
static const struct pin_field_object network = {network_rows, PIN_COUNT(network_rows)};

static const struct pin_field_row syscalls_rows[] = {
    WORDS("baseline", WORD, SYSCALLS_BASELINE, syscalls.baseline, pin_baseline_words),
    LIST("allow", SYSCALLS, SYSCALLS_ALLOW, syscalls.allow, syscalls.allow_count),
    LIST("deny", SYSCALLS, SYSCALLS_DENY, syscalls.deny, syscalls.deny_count),
    WORDS("on_deny", CHOICE, SYSCALLS_ON_DENY, syscalls.on_deny, pin_on_deny_words),
};
static const struct pin_field_object syscalls = {syscalls_rows, PIN_COUNT(syscalls_rows)};

static const struct pin_field_row identity_rows[] = {
    LIMIT("user", ID, USER, identity.user, 0, UINT32_MAX - 1),
    LIMIT("group", ID, GROUP, identity.group, 0, UINT32_MAX - 1),
    LIMIT("ids", ID, IDS, identity.ids, 1, 1048576),
};
static const struct pin_field_object identity = {identity_rows, PIN_COUNT(identity_rows)};

static const struct pin_field_row environment_rows[] = {
    STRINGS("pass", PASS, environment.pass, pin_check_variable, "LANG"),
    LIST("set", VARIABLES, SET, environment.set, environment.set_count),
    STRINGS("refuse", REFUSE, environment.refuse, pin_check_variable_pattern, "LD_*"),
};
static const struct pin_field_object environment = {environment_rows, PIN_COUNT(environment_rows)};

static const struct pin_field_row labels_rows[] = {
    STRINGS("secrets", LABELS_SECRETS, audit.labels_secrets, pin_check_label, "tenant"),
    STRINGS("egress", LABELS_EGRESS, audit.labels_egress, pin_check_label, "tenant"),
    STRINGS("privileged", LABELS_PRIVILEGED, audit.labels_privileged, pin_check_label, "tenant"),
};
static const struct pin_field_object require_labels_for = {labels_rows, PIN_COUNT(labels_rows)};

static const struct pin_field_row audit_rows[] = {
    FIELD("record", STRINGS, RECORD, audit.record.items,
          .count_offset = offsetof(struct pin_policy, audit.record.count), .words = pin_record_words,
          .word_count = PIN_COUNT(pin_record_words)),
    STRINGS("require_labels", REQUIRE_LABELS, audit.require_labels, pin_check_label, "tenant"),
    OBJECT("require_labels_for", require_labels_for),
    FIELD("sync", FLAG, AUDIT_SYNC, audit.sync, .max = 1),
    WORDS("on_failure", CHOICE, AUDIT_FAILURE, audit.on_failure, pin_audit_failure_words),
};
static const struct pin_field_object audit = {audit_rows, PIN_COUNT(audit_rows)};

static const struct pin_field_row engine_rows[] = {
    WORDS("shares", SET32, ENGINE_SHARES, engine.shares, pin_space_words),
    WORDS("joins", SET32, ENGINE_JOINS, engine.joins, pin_space_words),
    STRINGS("roots", ENGINE_ROOTS, engine.roots, pin_check_host_path, "/var/lib/containers/*"),
    STRINGS("read", ENGINE_READ, engine.read, pin_check_host_path, "/var/lib/containers/*"),
    STRINGS("write", ENGINE_WRITE, engine.write, pin_check_host_path, "/var/lib/containers/*"),
    STRINGS("hooks", ENGINE_HOOKS, engine.hooks, pin_check_hook, "/usr/bin/hook prestart"),
    STRINGS("cgroups", ENGINE_CGROUPS, engine.cgroups, pin_check_host_path, "/machine.slice"),
    FIELD("unfiltered", FLAG, ENGINE_UNFILTERED, engine.unfiltered, .max = 1),
};
static const struct pin_field_object engine = {engine_rows, PIN_COUNT(engine_rows)};

static const struct pin_field_row policy_rows[] = {
    SPECIAL("pinfold", VERSION),
    FIELD("name", NAME, NAME, name, .max = 63),
    LIMIT("description", TEXT, DESCRIPTION, description, 0, 1024),
    SPECIAL("extends", EXTENDS),
    LIST("images", IMAGES, IMAGES, images, image_count),
    OBJECT("filesystem", filesystem),
    OBJECT("resources", resources),
    OBJECT("network", network),
    OBJECT("syscalls", syscalls),
    WORDS("capabilities", SET64, CAPABILITIES, capabilities, pin_capability_words),
    OBJECT("identity", identity),
    OBJECT("environment", environment),
    STRINGS("secrets", SECRETS, secrets, pin_check_secret, "API_KEY"),
    FIELD("privileged", FLAG, PRIVILEGED, privileged, .max = 1),
    OBJECT("engine", engine),
    FIELD("tty", FLAG, TTY, tty, .max = 1),
    WORDS("frames", SET32, FRAMES, frames, pin_frames_words),
    OBJECT("audit", audit),
    WORDS("optional", SET32, OPTIONAL, optional, pin_protection_words),
};
const struct pin_field_object pin_policy_fields = {policy_rows, PIN_COUNT(policy_rows)};

static const char *const pointers[] = {
    [PIN_FIELD_NAME] = "/name",
    [PIN_FIELD_DESCRIPTION] = "/description",
    [PIN_FIELD_FILESYSTEM_ROOT] = "/filesystem/root",
    [PIN_FIELD_FILESYSTEM_ROOT_SIZE] = "/filesystem/root_size",
    [PIN_FIELD_FILESYSTEM_ROOT_STORAGE] = "/filesystem/root_storage",
    [PIN_FIELD_WORKSPACE_ACCESS] = "/filesystem/workspace/access",
    [PIN_FIELD_WORKSPACE_SIZE] = "/filesystem/workspace/size",
    [PIN_FIELD_FILESYSTEM_TMP] = "/filesystem/tmp",
    [PIN_FIELD_MEMORY] = "/resources/memory",
    [PIN_FIELD_SWAP] = "/resources/swap",
    [PIN_FIELD_CPUS] = "/resources/cpus",
    [PIN_FIELD_PIDS] = "/resources/pids",
    [PIN_FIELD_FILES] = "/resources/files",
    [PIN_FIELD_CORE] = "/resources/core",
    [PIN_FIELD_WALL_TIME] = "/resources/wall_time",
    [PIN_FIELD_CPU_TIME] = "/resources/cpu_time",
    [PIN_FIELD_GRACE] = "/resources/grace",
    [PIN_FIELD_STDOUT] = "/resources/stdout",
    [PIN_FIELD_STDERR] = "/resources/stderr",
    [PIN_FIELD_FRAME] = "/resources/frame",
    [PIN_FIELD_ON_OUTPUT_CAP] = "/resources/on_output_cap",
    [PIN_FIELD_FRAMES] = "/frames",
    [PIN_FIELD_UNKNOWN_NAMES] = "/network/unknown_names",
    [PIN_FIELD_PROXY_URL] = "/network/upstream_proxy/url",
    [PIN_FIELD_PROXY_SECRET] = "/network/upstream_proxy/secret",
    [PIN_FIELD_CONNECTIONS] = "/network/limits/connections",
    [PIN_FIELD_CONNECTIONS_TOTAL] = "/network/limits/connections_total",
    [PIN_FIELD_BYTES_OUT] = "/network/limits/bytes_out",
    [PIN_FIELD_BYTES_IN] = "/network/limits/bytes_in",
    [PIN_FIELD_RATE] = "/network/limits/rate",
    [PIN_FIELD_IDLE] = "/network/limits/idle",
    [PIN_FIELD_LIFETIME] = "/network/limits/lifetime",
    [PIN_FIELD_NAMES] = "/network/limits/names",
    [PIN_FIELD_NAMES_RATE] = "/network/limits/names_rate",
    [PIN_FIELD_DRAIN] = "/network/limits/drain",
    [PIN_FIELD_SYSCALLS_BASELINE] = "/syscalls/baseline",
    [PIN_FIELD_SYSCALLS_ON_DENY] = "/syscalls/on_deny",
    [PIN_FIELD_USER] = "/identity/user",
    [PIN_FIELD_GROUP] = "/identity/group",
    [PIN_FIELD_IDS] = "/identity/ids",
    [PIN_FIELD_PRIVILEGED] = "/privileged",
    [PIN_FIELD_ENGINE_SHARES] = "/engine/shares",
    [PIN_FIELD_ENGINE_JOINS] = "/engine/joins",
    [PIN_FIELD_ENGINE_UNFILTERED] = "/engine/unfiltered",
    [PIN_FIELD_ENGINE_ROOTS] = "/engine/roots",
    [PIN_FIELD_ENGINE_READ] = "/engine/read",
    [PIN_FIELD_ENGINE_WRITE] = "/engine/write",
    [PIN_FIELD_ENGINE_HOOKS] = "/engine/hooks",
    [PIN_FIELD_ENGINE_CGROUPS] = "/engine/cgroups",
    [PIN_FIELD_TTY] = "/tty",
    [PIN_FIELD_IMAGES] = "/images",
    [PIN_FIELD_WRITE] = "/filesystem/write",
    [PIN_FIELD_MOUNTS] = "/filesystem/mounts",
    [PIN_FIELD_EGRESS] = "/network/egress",
    [PIN_FIELD_EGRESS_DENY] = "/network/deny",
    [PIN_FIELD_PUBLISH] = "/network/publish",
    [PIN_FIELD_BUDGETS] = "/network/budgets",
    [PIN_FIELD_SYSCALLS_ALLOW] = "/syscalls/allow",
    [PIN_FIELD_SYSCALLS_DENY] = "/syscalls/deny",
    [PIN_FIELD_CAPABILITIES] = "/capabilities",
    [PIN_FIELD_PASS] = "/environment/pass",
    [PIN_FIELD_SET] = "/environment/set",
    [PIN_FIELD_REFUSE] = "/environment/refuse",
    [PIN_FIELD_SECRETS] = "/secrets",
    [PIN_FIELD_RECORD] = "/audit/record",
    [PIN_FIELD_REQUIRE_LABELS] = "/audit/require_labels",
    [PIN_FIELD_AUDIT_SYNC] = "/audit/sync",
    [PIN_FIELD_AUDIT_FAILURE] = "/audit/on_failure",
    [PIN_FIELD_LABELS_SECRETS] = "/audit/require_labels_for/secrets",
    [PIN_FIELD_LABELS_EGRESS] = "/audit/require_labels_for/egress",
    [PIN_FIELD_LABELS_PRIVILEGED] = "/audit/require_labels_for/privileged",
    [PIN_FIELD_OPTIONAL] = "/optional",
};
_Static_assert(PIN_COUNT(pointers) == PIN_FIELD_COUNT, "every field has a pointer");

const char *pin_field_pointer(enum pin_field field) {
    return (unsigned)field < PIN_FIELD_COUNT ? pointers[field] : "";
}

static bool holds_value(const struct pin_field_row *row) {
    return row->type != PIN_TYPE_OBJECT && row->type != PIN_TYPE_VERSION && row->type != PIN_TYPE_EXTENDS;
}

static const struct pin_field_row *find_row(const struct pin_field_object *object, enum pin_field field) {
    for (size_t i = 0; i < object->count; i++) {
        const struct pin_field_row *row = &object->rows[i];
        const struct pin_field_row *below =
            row->type == PIN_TYPE_OBJECT ? find_row(row->object, field) : NULL;
        if (below != NULL)
            return below;
        if (holds_value(row) && row->field == field)
            return row;
    }
    return NULL;
}

const struct pin_field_row *pin_field_row(enum pin_field field) {
    return find_row(&pin_policy_fields, field);
}
