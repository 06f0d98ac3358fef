/* policy.h: what a sandbox may do, as one resolved, immutable value.
 *
 * A policy is read from JSON (policy_read.h), its `extends` resolved, its defaults filled in: every field
 * below has its final value. Strings and arrays live in `arena` and as long as the policy. The order over
 * policies (who grants more) is in policy_order.h. Reference of the fields: docs/policy.md. Published schema:
 * policy/schema.json.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/sha256.h"
#include "policy/filter.h"

#define PIN_POLICY_VERSION 1 /* the value of the key "pinfold" */
#define PIN_UNLIMITED UINT64_MAX

enum pin_access { PIN_ACCESS_NONE, PIN_ACCESS_READ, PIN_ACCESS_COW, PIN_ACCESS_WRITE, PIN_ACCESS_COUNT };
enum pin_root_mode { PIN_ROOT_READ_ONLY, PIN_ROOT_OVERLAY, PIN_ROOT_MODE_COUNT };
enum pin_root_storage { PIN_ROOT_IN_MEMORY, PIN_ROOT_ON_DISK, PIN_ROOT_STORAGE_COUNT };
enum pin_on_cap { PIN_ON_CAP_DISCARD, PIN_ON_CAP_KILL, PIN_ON_CAP_COUNT };
enum pin_on_deny { PIN_ON_DENY_ERRNO, PIN_ON_DENY_KILL, PIN_ON_DENY_COUNT };
enum pin_protocol { PIN_PROTOCOL_TCP, PIN_PROTOCOL_UDP, PIN_PROTOCOL_COUNT };
enum pin_audit_failure { PIN_AUDIT_REFUSE, PIN_AUDIT_COUNT, PIN_AUDIT_FAILURE_COUNT };
enum pin_unknown_names { PIN_UNKNOWN_NXDOMAIN, PIN_UNKNOWN_REFUSED, PIN_UNKNOWN_COUNT };
enum pin_inspect {                   /* what the first bytes of a connection to a name are held to */
                   PIN_INSPECT_AUTO, /* TLS on port 443, HTTP on port 80 */
                   PIN_INSPECT_TLS,
                   PIN_INSPECT_HTTP,
                   PIN_INSPECT_NONE,
                   PIN_INSPECT_COUNT
};
enum pin_accept {                                 /* a set: what passes where TLS is expected */
                  PIN_ACCEPT_NO_NAME = 1,         /* a hello without a server name */
                  PIN_ACCEPT_ENCRYPTED_HELLO = 2, /* one inside; the outer name is compared all the same */
                  PIN_ACCEPT_PLAIN_TEXT = 4,      /* what isn't TLS */
};
enum pin_space { /* namespaces of an engine's container that need not be its own. A set */
                 PIN_SPACE_USER,
                 PIN_SPACE_PID,
                 PIN_SPACE_NETWORK,
                 PIN_SPACE_IPC,
                 PIN_SPACE_UTS,
                 PIN_SPACE_CGROUP,
                 PIN_SPACE_COUNT
};
enum pin_frames { /* a set: where result frames may be read */
                  PIN_FRAMES_NONE = 0,
                  PIN_FRAMES_FD = 1,           /* the descriptor PINFOLD_FRAME_FD */
                  PIN_FRAMES_STDOUT = 2,       /* pinfold frames in stdout */
                  PIN_FRAMES_STDOUT_LETTA = 4, /* Letta frames in stdout */
};

/* Protections that a policy may call optional; without that, a host that lacks one refuses the run. A set. */
enum pin_protection {
    PIN_PROTECT_MEMORY,        /* the memory limit by cgroup */
    PIN_PROTECT_SWAP,          /* the swap limit by cgroup */
    PIN_PROTECT_CPUS,          /* the CPU limit by cgroup */
    PIN_PROTECT_PIDS,          /* the process limit by cgroup */
    PIN_PROTECT_LANDLOCK,      /* the second wall behind the mounts */
    PIN_PROTECT_SECRET_MEMORY, /* memory that secrets pass through is never in swap */
    PIN_PROTECT_COUNT
};
const char *pin_protection_name(enum pin_protection protection);

/* The words of the policy language. */
const char *pin_access_name(enum pin_access access); /* "none", "read-only", "copy-on-write", "read-write" */
const char *pin_root_mode_name(enum pin_root_mode mode);
const char *pin_root_storage_name(enum pin_root_storage storage);
const char *pin_on_cap_name(enum pin_on_cap on_cap);
const char *pin_audit_failure_name(enum pin_audit_failure reaction); /* "refuse", "count" */
const char *pin_unknown_names_name(enum pin_unknown_names answer);   /* "nxdomain", "refused" */
const char *pin_inspect_name(enum pin_inspect inspect);
const char *pin_accept_name(unsigned bit);
const char *pin_protocol_name(enum pin_protocol protocol);
int pin_protocol_find(const char *name);

/* "CAP_CHOWN" and the like, by the number of linux/capability.h; NULL or -1 if unknown. */
#define PIN_CAPABILITY_COUNT 41
const char *pin_capability_name(unsigned capability);
int pin_capability_find(const char *name);

/* Where a value came from: for `policy show --effective`, refusals and the audit log. */
struct pin_place {
    const char *file; /* as given, or "built-in:tool", or "default" (then line is 0), or "command line" */
    uint32_t line, column;
};

/* "file:line:column", or "default", into `to`, which it returns. */
#define PIN_PLACE_TEXT 300
char *pin_place_print(char to[PIN_PLACE_TEXT], const struct pin_place *place);

struct pin_string {
    const char *text;
    struct pin_place place;
};

struct pin_strings {
    struct pin_string *items;
    size_t count;
};

struct pin_variable {
    const char *name, *value;
    struct pin_place place;
};

struct pin_mount_rule {     /* a host directory or file that is shown inside */
    const char *source;     /* absolute on the host */
    const char *target;     /* absolute inside */
    enum pin_access access; /* READ or WRITE */
    struct pin_place place;
};

struct pin_port_range {
    uint16_t first, last;
};

struct pin_egress_limits { /* PIN_UNLIMITED: none */
    uint64_t connections_at_once, connections_total;
    uint64_t bytes_out, bytes_in;
    uint64_t bytes_per_second; /* both ways together */
    uint64_t idle_ns, lifetime_ns;
    uint64_t names_total, names_per_second; /* below wildcards; of a sandbox, not of a budget */
    uint64_t drain_ns;                      /* for what is on its way at the end; the same */
};

struct pin_egress_budget { /* limits that some rules share */
    const char *name;
    struct pin_egress_limits limits;
    struct pin_place place;
};

struct pin_egress_rule {
    const char *host;    /* canonical name or "*.name"; NULL for a cidr rule */
    uint8_t address[16]; /* of a cidr rule: IPv6, or IPv4 in its mapped form ::ffff:a.b.c.d */
    uint8_t prefix;      /* 0 to 128; an IPv4 /n is n + 96 */
    bool any_address;    /* "*", only of a site's file: all of both families, special ones as well */
    struct pin_port_range *ports;
    size_t port_count;
    enum pin_protocol protocol;
    enum pin_inspect inspect;
    uint32_t accept;                        /* set of enum pin_accept */
    const struct pin_egress_budget *budget; /* one of the policy's; NULL: none */
    struct pin_place place;
};

struct pin_image_rule {
    const char *pattern; /* a name with `*`, or "sha256:…" */
    bool require_signature;
    struct pin_strings keys; /* files with the public keys, of require_signature */
    struct pin_place place;
};

struct pin_syscall_entry { /* one line of syscalls.allow or .deny: "openat", "@network", or with arguments */
    const char *name;      /* a call or a group with its "@" */
    uint8_t arg_count;
    struct pin_filter_arg args[PIN_FILTER_ARGS_MAX];
    struct pin_place place;
};

/* Every field of a policy; the index of `places`. */
enum pin_field {
    PIN_FIELD_NAME,
    PIN_FIELD_DESCRIPTION,
    PIN_FIELD_FILESYSTEM_ROOT,
    PIN_FIELD_FILESYSTEM_ROOT_SIZE,
    PIN_FIELD_FILESYSTEM_ROOT_STORAGE,
    PIN_FIELD_WORKSPACE_ACCESS,
    PIN_FIELD_WORKSPACE_SIZE,
    PIN_FIELD_FILESYSTEM_TMP,
    PIN_FIELD_MEMORY,
    PIN_FIELD_SWAP,
    PIN_FIELD_CPUS,
    PIN_FIELD_PIDS,
    PIN_FIELD_FILES,
    PIN_FIELD_CORE,
    PIN_FIELD_WALL_TIME,
    PIN_FIELD_CPU_TIME,
    PIN_FIELD_GRACE,
    PIN_FIELD_STDOUT,
    PIN_FIELD_STDERR,
    PIN_FIELD_FRAME,
    PIN_FIELD_ON_OUTPUT_CAP,
    PIN_FIELD_FRAMES,
    PIN_FIELD_UNKNOWN_NAMES,
    PIN_FIELD_PROXY_URL,
    PIN_FIELD_PROXY_SECRET,
    PIN_FIELD_CONNECTIONS,
    PIN_FIELD_CONNECTIONS_TOTAL,
    PIN_FIELD_BYTES_OUT,
    PIN_FIELD_BYTES_IN,
    PIN_FIELD_RATE,
    PIN_FIELD_IDLE,
    PIN_FIELD_LIFETIME,
    PIN_FIELD_NAMES,
    PIN_FIELD_NAMES_RATE,
    PIN_FIELD_DRAIN,
    PIN_FIELD_SYSCALLS_BASELINE,
    PIN_FIELD_SYSCALLS_ON_DENY,
    PIN_FIELD_USER,
    PIN_FIELD_GROUP,
    PIN_FIELD_IDS,
    PIN_FIELD_PRIVILEGED,
    PIN_FIELD_ENGINE_SHARES,
    PIN_FIELD_ENGINE_JOINS,
    PIN_FIELD_ENGINE_UNFILTERED,
    PIN_FIELD_TTY,
    /* lists: the place is the last statement about the list; its items have places of their own */
    PIN_FIELD_IMAGES,
    PIN_FIELD_WRITE,
    PIN_FIELD_MOUNTS,
    PIN_FIELD_EGRESS,
    PIN_FIELD_EGRESS_DENY,
    PIN_FIELD_PUBLISH,
    PIN_FIELD_BUDGETS,
    PIN_FIELD_SYSCALLS_ALLOW,
    PIN_FIELD_SYSCALLS_DENY,
    PIN_FIELD_CAPABILITIES,
    PIN_FIELD_PASS,
    PIN_FIELD_SET,
    PIN_FIELD_REFUSE,
    PIN_FIELD_SECRETS,
    PIN_FIELD_ENGINE_ROOTS,
    PIN_FIELD_ENGINE_READ,
    PIN_FIELD_ENGINE_WRITE,
    PIN_FIELD_ENGINE_HOOKS,
    PIN_FIELD_ENGINE_CGROUPS,
    PIN_FIELD_RECORD,
    PIN_FIELD_REQUIRE_LABELS,
    PIN_FIELD_LABELS_SECRETS,
    PIN_FIELD_LABELS_EGRESS,
    PIN_FIELD_LABELS_PRIVILEGED,
    PIN_FIELD_AUDIT_SYNC,
    PIN_FIELD_AUDIT_FAILURE,
    PIN_FIELD_OPTIONAL,
    PIN_FIELD_COUNT
};
/* "/resources/memory" and the like. */
const char *pin_field_pointer(enum pin_field field);

struct pin_policy {
    struct pin_arena arena;
    const char *name, *description;
    uint8_t digest[PIN_SHA256_SIZE]; /* of the canonical form of the resolved policy */
    struct pin_place places[PIN_FIELD_COUNT];
    struct pin_policy *site; /* a copy of what it is held below, its own; NULL: nothing */
    bool is_site;            /* a site's file: nothing runs under it, and each item of it grants by itself */

    struct pin_image_rule *images;
    size_t image_count;

    struct {
        enum pin_root_mode root;
        uint64_t root_size_bytes;           /* of the overlay's upper */
        enum pin_root_storage root_storage; /* where the upper lies */
        enum pin_access workspace;          /* the most that a request may ask for; NONE: no workspace */
        uint64_t workspace_size_bytes;      /* of a copy-on-write workspace */
        uint64_t tmp_bytes;
        struct pin_strings write; /* absolute paths inside that are writable, for Landlock and for mounts */
        struct pin_mount_rule *mounts;
        size_t mount_count;
    } filesystem;

    struct {
        uint64_t memory_bytes, swap_bytes; /* PIN_UNLIMITED: no limit */
        uint32_t millicpus;                /* 0: no limit */
        uint64_t pids, files;
        uint64_t core_bytes;
        uint64_t wall_time_ns, cpu_time_ns, grace_ns;
        uint64_t stdout_bytes, stderr_bytes, frame_bytes;
        enum pin_on_cap on_output_cap;
    } resources;

    struct {
        struct pin_egress_rule *egress, *deny;
        size_t egress_count, deny_count;
        struct pin_egress_budget *budgets;
        size_t budget_count;
        struct pin_strings publish;           /* publish.h: ports inside that the host can reach */
        struct pin_egress_limits limits;      /* of the whole sandbox */
        const char *proxy_url, *proxy_secret; /* through which all TCP leaves; "": none */
        enum pin_unknown_names unknown_names; /* how a name is answered that no rule allows */
    } network;

    struct {
        const char *baseline; /* "strict", "tool", "build", "oci" */
        struct pin_syscall_entry *allow, *deny;
        size_t allow_count, deny_count;
        enum pin_on_deny on_deny;
    } syscalls;

    uint64_t capabilities; /* bit n: capability n */
    struct pin_place capability_places[PIN_CAPABILITY_COUNT];
    struct {
        uint32_t user, group;
        uint32_t ids; /* how many ids the sandbox needs; 1: an ordinary user's own id will do */
    } identity;
    struct {
        struct pin_strings pass, refuse; /* names; `refuse` with globs, and it beats pass, set and requests */
        struct pin_variable *set;
        size_t set_count;
    } environment;
    struct pin_strings secrets;
    bool privileged;
    struct {                            /* beneath pinfold-oci */
        uint32_t shares, joins;         /* sets of 1u << enum pin_space: the host's; others', by path */
        struct pin_strings roots;       /* host paths, with `*`, below which a container's root may lie */
        struct pin_strings read, write; /* host paths below which a bundle may bind, with `*` */
        struct pin_strings hooks;       /* "PROGRAM" or "PROGRAM ARGV0", globs: what may be run on the host */
        struct pin_strings cgroups;     /* places below which a bundle may put its group, with `*` */
        bool unfiltered; /* a bundle without a filter of its own is taken, and has the policy's */
    } engine;
    bool tty;        /* a terminal may be asked for */
    uint32_t frames; /* set of enum pin_frames that a request may ask for */
    struct {
        struct pin_strings record;         /* "lifecycle", "egress", "syscalls" */
        struct pin_strings require_labels; /* keys */
        struct pin_strings labels_secrets, labels_egress, labels_privileged; /* for runs that ask for these */
        bool sync;                         /* each record is on the disk before the run goes on */
        enum pin_audit_failure on_failure; /* what becomes of a run whose log can't be written */
    } audit;
    uint32_t optional; /* set of 1u << enum pin_protection */
};

/* Frees the policy and all that it points to; NULL is fine. */
void pin_policy_free(struct pin_policy *policy);
