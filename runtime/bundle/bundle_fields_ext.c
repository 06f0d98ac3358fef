#include "runtime/bundle/bundle_codec.h"
#include "runtime/bundle/bundle_table.h"

#define EXT struct pin_bundle_ext

static const char *access_name(unsigned access) {
    return pin_access_name((enum pin_access)access);
}

static const char *on_cap_name(unsigned on_cap) {
    return pin_on_cap_name((enum pin_on_cap)on_cap);
}

static const char *protection_name(unsigned protection) {
    return pin_protection_name((enum pin_protection)protection);
}

static const char *protocol_name(unsigned protocol) {
    return pin_protocol_name((enum pin_protocol)protocol);
}

static const char *inspect_name(unsigned inspect) {
    return pin_inspect_name((enum pin_inspect)inspect);
}

static const char *audit_failure_name(unsigned reaction) {
    return pin_audit_failure_name((enum pin_audit_failure)reaction);
}

static const char *unknown_names_name(unsigned answer) {
    return pin_unknown_names_name((enum pin_unknown_names)answer);
}

static const char *root_storage_name(unsigned storage) {
    return pin_root_storage_name((enum pin_root_storage)storage);
}

static const char *on_exit_name(unsigned on_exit) {
    static const char *const names[] = {
        [PIN_ON_EXIT_DISCARD] = "discard", [PIN_ON_EXIT_KEEP] = "keep", [PIN_ON_EXIT_MERGE] = "merge"};
    return names[on_exit];
}

static const char *frames_name(unsigned bit) { /* the index is the bit of enum pin_frames */
    static const char *const names[] = {"fd", "stdout", "stdout-letta"};
    return names[bit];
}

static const struct pin_bundle_row policy_rows[] = {
    PIN_ROW("name", TEXT, PIN_AT(EXT, policy_name)),
    PIN_ROW("digest", DIGEST, PIN_AT(EXT, policy_digest)),
};
static const struct pin_bundle_table policy_fields = PIN_TABLE(policy_rows);

static const struct pin_bundle_row workspace_rows[] = {
    PIN_ROW("source", TEXT, PIN_AT(EXT, workspace.source), .required = true),
    PIN_ROW("target", TEXT, PIN_AT(EXT, workspace.target), .required = true),
    PIN_ROW("access", CHOICE, PIN_AT(EXT, workspace.access), .name = access_name, .names = PIN_ACCESS_COUNT,
            .required = true),
    PIN_ROW("size", LIMIT, PIN_AT(EXT, workspace.size_bytes)),
    PIN_ROW("onExit", CHOICE, PIN_AT(EXT, workspace.on_exit), .name = on_exit_name,
            .names = PIN_ON_EXIT_COUNT),
};
static const struct pin_bundle_table workspace_fields = PIN_TABLE(workspace_rows);

static const struct pin_bundle_row landlock_rows[] = {
    PIN_ROW("write", TEXTS, PIN_AT(EXT, landlock.write), PIN_N(EXT, landlock.write_count)),
};
static const struct pin_bundle_table landlock_fields = PIN_TABLE(landlock_rows);

static const struct pin_bundle_row limit_rows[] = {
    PIN_ROW("wallTimeNs", LIMIT, PIN_AT(EXT, wall_time_ns)),
    PIN_ROW("cpuTimeNs", LIMIT, PIN_AT(EXT, cpu_time_ns)),
    PIN_ROW("graceNs", LIMIT, PIN_AT(EXT, grace_ns)),
    PIN_ROW("stdoutBytes", LIMIT, PIN_AT(EXT, stdout_bytes)),
    PIN_ROW("stderrBytes", LIMIT, PIN_AT(EXT, stderr_bytes)),
    PIN_ROW("frameBytes", LIMIT, PIN_AT(EXT, frame_bytes)),
    PIN_ROW("onOutputCap", CHOICE, PIN_AT(EXT, on_output_cap), .name = on_cap_name,
            .names = PIN_ON_CAP_COUNT),
};
static const struct pin_bundle_table limit_fields = PIN_TABLE(limit_rows);

static const struct pin_bundle_row egress_rows[] = {
    PIN_ROW("to", CODEC, .codec = &pin_codec_destination, .required = true),
    PIN_ROW("ports", CODEC, .codec = &pin_codec_ports, .required = true),
    PIN_ROW("protocol", CHOICE, PIN_AT(struct pin_egress_rule, protocol), .name = protocol_name,
            .names = PIN_PROTOCOL_COUNT),
    PIN_ROW("place", CODEC, .codec = &pin_codec_place),
    PIN_ROW("inspect", CHOICE, PIN_AT(struct pin_egress_rule, inspect), .name = inspect_name,
            .names = PIN_INSPECT_COUNT),
    PIN_ROW("accept", SET, PIN_AT(struct pin_egress_rule, accept), .size = 4, .name = pin_accept_name,
            .names = 3),
    PIN_ROW("budget", CODEC, .codec = &pin_codec_budget),
};
static const struct pin_bundle_table egress_fields = PIN_TABLE(egress_rows);

static const struct pin_bundle_row deny_rows[] = {
    PIN_ROW("to", CODEC, .codec = &pin_codec_denied, .required = true),
    PIN_ROW("ports", CODEC, .codec = &pin_codec_ports, .required = true),
    PIN_ROW("protocol", CHOICE, PIN_AT(struct pin_egress_rule, protocol), .name = protocol_name,
            .names = PIN_PROTOCOL_COUNT),
};
static const struct pin_bundle_table deny_fields = PIN_TABLE(deny_rows);

/* NOLINTBEGIN(bugprone-macro-parentheses): the name of a member can't stand in parentheses */
#define LIMITS(type, of)                                                                                     \
    PIN_ROW("connections", LIMIT, PIN_AT(type, of.connections_at_once), .absent = -1),                       \
        PIN_ROW("connectionsTotal", LIMIT, PIN_AT(type, of.connections_total), .absent = -1),                \
        PIN_ROW("bytesOut", LIMIT, PIN_AT(type, of.bytes_out), .absent = -1),                                \
        PIN_ROW("bytesIn", LIMIT, PIN_AT(type, of.bytes_in), .absent = -1),                                  \
        PIN_ROW("bytesPerSecond", LIMIT, PIN_AT(type, of.bytes_per_second), .absent = -1),                   \
        PIN_ROW("idleNs", LIMIT, PIN_AT(type, of.idle_ns), .absent = -1),                                    \
        PIN_ROW("lifetimeNs", LIMIT, PIN_AT(type, of.lifetime_ns), .absent = -1),                            \
        PIN_ROW("names", LIMIT, PIN_AT(type, of.names_total), .absent = -1),                                 \
        PIN_ROW("namesPerSecond", LIMIT, PIN_AT(type, of.names_per_second), .absent = -1),                   \
        PIN_ROW("drainNs", LIMIT, PIN_AT(type, of.drain_ns), .absent = -1)
/* NOLINTEND(bugprone-macro-parentheses) */

static const struct pin_bundle_row egress_limit_rows[] = {LIMITS(EXT, egress_limits)};
static const struct pin_bundle_table egress_limit_fields = PIN_TABLE(egress_limit_rows);

static const struct pin_bundle_row budget_rows[] = {
    PIN_ROW("name", TEXT, PIN_AT(struct pin_egress_budget, name), .required = true),
    LIMITS(struct pin_egress_budget, limits),
};
static const struct pin_bundle_table budget_fields = PIN_TABLE(budget_rows);

static const struct pin_bundle_row overlay_rows[] = {
    PIN_ROW("size", LIMIT, PIN_AT(EXT, root_overlay.size_bytes)),
    PIN_ROW("storage", CHOICE, PIN_AT(EXT, root_overlay.storage), .name = root_storage_name,
            .names = PIN_ROOT_STORAGE_COUNT),
};
static const struct pin_bundle_table overlay_fields = PIN_TABLE(overlay_rows);

static const struct pin_bundle_row ext_rows[] = {
    PIN_ROW("policy", OBJECT, .table = &policy_fields),
    PIN_ROW("image", TEXT, PIN_AT(EXT, image)),
    PIN_ROW("workspace", OBJECT, .table = &workspace_fields),
    PIN_ROW("landlock", OBJECT, PIN_HAS(EXT, landlock.enabled), .table = &landlock_fields),
    PIN_ROW("limits", OBJECT, .table = &limit_fields),
    PIN_ROW("frames", SET, PIN_AT(EXT, frames), .size = 4, .name = frames_name, .names = 3),
    PIN_ROW("egress", LIST, PIN_AT(EXT, egress), PIN_N(EXT, egress_count),
            .size = sizeof(struct pin_egress_rule), .table = &egress_fields),
    PIN_ROW("egressDeny", LIST, PIN_AT(EXT, egress_deny), PIN_N(EXT, egress_deny_count),
            .size = sizeof(struct pin_egress_rule), .table = &deny_fields),
    PIN_ROW("egressBudgets", LIST, PIN_AT(EXT, egress_budgets), PIN_N(EXT, egress_budget_count),
            .size = sizeof(struct pin_egress_budget), .table = &budget_fields),
    PIN_ROW("egressLimits", OBJECT, PIN_HAS(EXT, has_egress_limits), .table = &egress_limit_fields),
    PIN_ROW("upstreamProxy", TEXT, PIN_AT(EXT, proxy_url)),
    PIN_ROW("upstreamProxySecret", TEXT, PIN_AT(EXT, proxy_secret)),
    PIN_ROW("unknownNames", CHOICE, PIN_AT(EXT, unknown_names), .name = unknown_names_name,
            .names = PIN_UNKNOWN_COUNT),
    PIN_ROW("publish", TEXTS, PIN_AT(EXT, publish), PIN_N(EXT, publish_count)),
    PIN_ROW("secrets", TEXTS, PIN_AT(EXT, secrets), PIN_N(EXT, secret_count)),
    PIN_ROW("labels", PAIRS, PIN_AT(EXT, labels), PIN_N(EXT, label_count)),
    PIN_ROW("rootOverlay", OBJECT, PIN_HAS(EXT, root_overlay.enabled), .table = &overlay_fields),
    PIN_ROW("layers", TEXTS, PIN_AT(EXT, layers), PIN_N(EXT, layer_count)),
    PIN_ROW("auditSync", FLAG, PIN_AT(EXT, audit_sync)),
    PIN_ROW("auditOnFailure", CHOICE, PIN_AT(EXT, audit_failure), .name = audit_failure_name,
            .names = PIN_AUDIT_FAILURE_COUNT),
    PIN_ROW("record", TEXTS, PIN_AT(EXT, record), PIN_N(EXT, record_count)),
    PIN_ROW("places", PAIRS, PIN_AT(EXT, places), PIN_N(EXT, place_count)),
    PIN_ROW("ids", NUMBER, PIN_U32(EXT, ids)),
    PIN_ROW("optional", SET, PIN_AT(EXT, optional), .size = 4, .name = protection_name,
            .names = PIN_PROTECT_COUNT),
};
const struct pin_bundle_table pin_bundle_ext_fields = PIN_TABLE(ext_rows);
