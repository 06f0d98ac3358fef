#include "policy/policy.h"

#include <stdio.h>
#include <stdlib.h>

#include <linux/capability.h>

#include "base/names.h"
#include "policy/words.h"

const char *const pin_access_words[] = {
    [PIN_ACCESS_NONE] = "none",
    [PIN_ACCESS_READ] = "read-only",
    [PIN_ACCESS_COW] = "copy-on-write",
    [PIN_ACCESS_WRITE] = "read-write",
};
_Static_assert(PIN_COUNT(pin_access_words) == PIN_ACCESS_COUNT, "every access has a word");

const char *const pin_root_mode_words[] = {
    [PIN_ROOT_READ_ONLY] = "read-only", [PIN_ROOT_OVERLAY] = "overlay"};
_Static_assert(PIN_COUNT(pin_root_mode_words) == PIN_ROOT_MODE_COUNT, "every mode has a word");

const char *const pin_root_storage_words[] = {[PIN_ROOT_IN_MEMORY] = "memory", [PIN_ROOT_ON_DISK] = "disk"};
_Static_assert(PIN_COUNT(pin_root_storage_words) == PIN_ROOT_STORAGE_COUNT, "every storage has a word");

const char *const pin_on_cap_words[] = {[PIN_ON_CAP_DISCARD] = "discard", [PIN_ON_CAP_KILL] = "kill"};
_Static_assert(PIN_COUNT(pin_on_cap_words) == PIN_ON_CAP_COUNT, "every reaction has a word");

const char *const pin_on_deny_words[] = {[PIN_ON_DENY_ERRNO] = "errno", [PIN_ON_DENY_KILL] = "kill"};
_Static_assert(PIN_COUNT(pin_on_deny_words) == PIN_ON_DENY_COUNT, "every reaction has a word");

const char *const pin_protocol_words[] = {[PIN_PROTOCOL_TCP] = "tcp", [PIN_PROTOCOL_UDP] = "udp"};
_Static_assert(PIN_COUNT(pin_protocol_words) == PIN_PROTOCOL_COUNT, "every protocol has a word");

const char *const pin_audit_failure_words[] = {[PIN_AUDIT_REFUSE] = "refuse", [PIN_AUDIT_COUNT] = "count"};
_Static_assert(PIN_COUNT(pin_audit_failure_words) == PIN_AUDIT_FAILURE_COUNT, "every reaction has a word");

const char *const pin_unknown_names_words[] = {
    [PIN_UNKNOWN_NXDOMAIN] = "nxdomain",
    [PIN_UNKNOWN_REFUSED] = "refused",
};
_Static_assert(PIN_COUNT(pin_unknown_names_words) == PIN_UNKNOWN_COUNT, "every answer has a word");

const char *const pin_inspect_words[] = {
    [PIN_INSPECT_AUTO] = "auto",
    [PIN_INSPECT_TLS] = "tls",
    [PIN_INSPECT_HTTP] = "http",
    [PIN_INSPECT_NONE] = "none",
};
_Static_assert(PIN_COUNT(pin_inspect_words) == PIN_INSPECT_COUNT, "every inspection has a word");

const char *const pin_accept_words[] = {"no-name", "encrypted-hello", "plain-text"};
_Static_assert(PIN_ACCEPT_NO_NAME == 1u << 0 && PIN_ACCEPT_ENCRYPTED_HELLO == 1u << 1 &&
                   PIN_ACCEPT_PLAIN_TEXT == 1u << 2,
               "the word's index is the bit");

const char *const pin_protection_words[] = {
    [PIN_PROTECT_MEMORY] = "memory",     [PIN_PROTECT_SWAP] = "swap",
    [PIN_PROTECT_CPUS] = "cpus",         [PIN_PROTECT_PIDS] = "pids",
    [PIN_PROTECT_LANDLOCK] = "landlock", [PIN_PROTECT_SECRET_MEMORY] = "secret-memory",
};
_Static_assert(PIN_COUNT(pin_protection_words) == PIN_PROTECT_COUNT, "every protection has a word");

const char *const pin_frames_words[] = {"fd", "stdout", "stdout-letta"};
_Static_assert(PIN_FRAMES_FD == 1u << 0 && PIN_FRAMES_STDOUT == 1u << 1 && PIN_FRAMES_STDOUT_LETTA == 1u << 2,
               "the word's index is the bit");

const char *const pin_baseline_words[] = {"strict", "tool", "build", "oci"};
const char *const pin_space_words[] = {
    [PIN_SPACE_USER] = "user", [PIN_SPACE_PID] = "pid", [PIN_SPACE_NETWORK] = "network",
    [PIN_SPACE_IPC] = "ipc",   [PIN_SPACE_UTS] = "uts", [PIN_SPACE_CGROUP] = "cgroup",
};
_Static_assert(PIN_COUNT(pin_space_words) == PIN_SPACE_COUNT, "every namespace has a word");

const char *const pin_record_words[] = {"lifecycle", "egress", "syscalls"};
const char *const pin_op_words[] = {
    [PIN_FILTER_EQ] = "eq", [PIN_FILTER_MASKED_EQ] = "masked_eq",
    [PIN_FILTER_NE] = "ne", [PIN_FILTER_LT] = "lt",
    [PIN_FILTER_LE] = "le", [PIN_FILTER_GE] = "ge",
    [PIN_FILTER_GT] = "gt",
};
_Static_assert(PIN_COUNT(pin_op_words) == PIN_FILTER_OP_COUNT, "every comparison has a word");

const char *const pin_capability_words[] = {
    [CAP_CHOWN] = "CAP_CHOWN",
    [CAP_DAC_OVERRIDE] = "CAP_DAC_OVERRIDE",
    [CAP_DAC_READ_SEARCH] = "CAP_DAC_READ_SEARCH",
    [CAP_FOWNER] = "CAP_FOWNER",
    [CAP_FSETID] = "CAP_FSETID",
    [CAP_KILL] = "CAP_KILL",
    [CAP_SETGID] = "CAP_SETGID",
    [CAP_SETUID] = "CAP_SETUID",
    [CAP_SETPCAP] = "CAP_SETPCAP",
    [CAP_LINUX_IMMUTABLE] = "CAP_LINUX_IMMUTABLE",
    [CAP_NET_BIND_SERVICE] = "CAP_NET_BIND_SERVICE",
    [CAP_NET_BROADCAST] = "CAP_NET_BROADCAST",
    [CAP_NET_ADMIN] = "CAP_NET_ADMIN",
    [CAP_NET_RAW] = "CAP_NET_RAW",
    [CAP_IPC_LOCK] = "CAP_IPC_LOCK",
    [CAP_IPC_OWNER] = "CAP_IPC_OWNER",
    [CAP_SYS_MODULE] = "CAP_SYS_MODULE",
    [CAP_SYS_RAWIO] = "CAP_SYS_RAWIO",
    [CAP_SYS_CHROOT] = "CAP_SYS_CHROOT",
    [CAP_SYS_PTRACE] = "CAP_SYS_PTRACE",
    [CAP_SYS_PACCT] = "CAP_SYS_PACCT",
    [CAP_SYS_ADMIN] = "CAP_SYS_ADMIN",
    [CAP_SYS_BOOT] = "CAP_SYS_BOOT",
    [CAP_SYS_NICE] = "CAP_SYS_NICE",
    [CAP_SYS_RESOURCE] = "CAP_SYS_RESOURCE",
    [CAP_SYS_TIME] = "CAP_SYS_TIME",
    [CAP_SYS_TTY_CONFIG] = "CAP_SYS_TTY_CONFIG",
    [CAP_MKNOD] = "CAP_MKNOD",
    [CAP_LEASE] = "CAP_LEASE",
    [CAP_AUDIT_WRITE] = "CAP_AUDIT_WRITE",
    [CAP_AUDIT_CONTROL] = "CAP_AUDIT_CONTROL",
    [CAP_SETFCAP] = "CAP_SETFCAP",
    [CAP_MAC_OVERRIDE] = "CAP_MAC_OVERRIDE",
    [CAP_MAC_ADMIN] = "CAP_MAC_ADMIN",
    [CAP_SYSLOG] = "CAP_SYSLOG",
    [CAP_WAKE_ALARM] = "CAP_WAKE_ALARM",
    [CAP_BLOCK_SUSPEND] = "CAP_BLOCK_SUSPEND",
    [CAP_AUDIT_READ] = "CAP_AUDIT_READ",
    [CAP_PERFMON] = "CAP_PERFMON",
    [CAP_BPF] = "CAP_BPF",
    [CAP_CHECKPOINT_RESTORE] = "CAP_CHECKPOINT_RESTORE",
};
_Static_assert(PIN_COUNT(pin_capability_words) == PIN_CAPABILITY_COUNT, "every capability has a word");

static const char *word(const char *const *words, size_t count, unsigned index) {
    return index < count ? words[index] : NULL;
}

const char *pin_access_name(enum pin_access access) {
    return word(pin_access_words, PIN_ACCESS_COUNT, access);
}

const char *pin_root_mode_name(enum pin_root_mode mode) {
    return word(pin_root_mode_words, PIN_ROOT_MODE_COUNT, mode);
}

const char *pin_root_storage_name(enum pin_root_storage storage) {
    return word(pin_root_storage_words, PIN_ROOT_STORAGE_COUNT, storage);
}

const char *pin_on_cap_name(enum pin_on_cap on_cap) {
    return word(pin_on_cap_words, PIN_ON_CAP_COUNT, on_cap);
}

const char *pin_audit_failure_name(enum pin_audit_failure reaction) {
    return word(pin_audit_failure_words, PIN_AUDIT_FAILURE_COUNT, reaction);
}

const char *pin_unknown_names_name(enum pin_unknown_names answer) {
    return word(pin_unknown_names_words, PIN_UNKNOWN_COUNT, answer);
}

const char *pin_inspect_name(enum pin_inspect inspect) {
    return word(pin_inspect_words, PIN_INSPECT_COUNT, inspect);
}

const char *pin_accept_name(unsigned bit) {
    return word(pin_accept_words, PIN_ACCEPT_WORDS, bit);
}

const char *pin_protocol_name(enum pin_protocol protocol) {
    return word(pin_protocol_words, PIN_PROTOCOL_COUNT, protocol);
}

int pin_protocol_find(const char *name) {
    return pin_name_find(pin_protocol_words, PIN_PROTOCOL_COUNT, name);
}

const char *pin_protection_name(enum pin_protection protection) {
    return word(pin_protection_words, PIN_PROTECT_COUNT, protection);
}

const char *pin_capability_name(unsigned capability) {
    return word(pin_capability_words, PIN_CAPABILITY_COUNT, capability);
}

int pin_capability_find(const char *name) {
    return pin_name_find(pin_capability_words, PIN_CAPABILITY_COUNT, name);
}

void pin_policy_free(struct pin_policy *policy) {
    if (policy == NULL)
        return;
    pin_policy_free(policy->site);
    pin_arena_free(&policy->arena);
    free(policy);
}

char *pin_place_print(char to[PIN_PLACE_TEXT], const struct pin_place *place) {
    if (place->line == 0)
        (void)snprintf(to, PIN_PLACE_TEXT, "%s", place->file != NULL ? place->file : "default");
    else
        (void)snprintf(to, PIN_PLACE_TEXT, "%s:%u:%u", place->file, place->line, place->column);
    return to;
}
