/* deps.h: the dependencies of a call: found in the store, or installed there first.
 *
 * An installation is a run like any other, by the built-in profile `build`, which may reach the index and
 * nothing else, and write its own new folder. What it prints comes to standard error as it comes. Calls that
 * want the same at once wait for one installation. docs/dependencies.md.
 */
#pragma once

#include <jansson.h>

#include "runtime/tool/deps_store.h"
#include "tools/pinfold-tool/configure.h"

struct pin_call_deps { /* zeroed: none */
    bool has[PIN_INSTALLER_COUNT];
    int locks[PIN_INSTALLER_COUNT]; /* of those that it has: held as long as the sandbox lives */
    char digests[PIN_INSTALLER_COUNT][PIN_DIGEST_TEXT]; /* of their lock files */
    struct pin_mount_rule layers[PIN_INSTALLER_COUNT];
    size_t layer_count;
    struct pin_pair env[PIN_INSTALLER_COUNT]; /* below the caller's */
    size_t env_count;
};

struct pin_deps_options {
    const char *image, *site; /* as of the call; NULL: host, none */
    const char *policy;       /* of the call: what it can go without, an installation can */
    bool recreate;
    bool found; /* what isn't there is an error */
};

/* Every list that the call has. */
bool pin_call_deps(struct pin_call_deps *deps, const struct pin_call_config *config,
                   const struct pin_deps_options *options, struct pin_arena *arena, struct pin_error *err);
/* The interpreter that sees them; NULL: the image's. */
const char *pin_call_deps_python(const struct pin_call_deps *deps);
/* Puts their programs before the others on PATH: after pin_front_bundle(), before the plan. */
void pin_call_deps_path(const struct pin_call_deps *deps, struct pin_bundle *bundle);
/* The digest of the lock file; NULL: none. */
const char *pin_call_deps_lock(const struct pin_call_deps *deps, enum pin_installer installer);
/* Puts "dependencies" into a result, where there are some. */
void pin_call_deps_tell(const struct pin_call_deps *deps, json_t *result);
void pin_call_deps_free(struct pin_call_deps *deps);

/* Where the client of the host gets packages from; strings in the arena. deps_index.c. */
struct pin_deps_index {
    const char *url;
    const char **extra;
    size_t extra_count;
    const char **trusted; /* "HOST:PORT" whose certificate isn't asked for */
    size_t trusted_count;
    const char *certificates; /* PEM; NULL: the image's */
};
bool pin_deps_index_find(enum pin_installer installer, const struct pin_tool_config *stored,
                         struct pin_arena *arena, struct pin_deps_index *index, struct pin_error *err);

struct pin_deps_host { /* of a URL */
    char name[256];
    unsigned port;
    bool is_address, is_loopback, is_plain; /* plain: http */
    size_t name_at, name_length;            /* in the URL */
};
bool pin_deps_host_parse(const char *url, struct pin_deps_host *host, struct pin_error *err);

/* The policy of an installation as JSON, and the index as its sandbox sees it. deps_policy.c. NULL on
 * failure; the caller frees it. */
char *pin_deps_policy(const struct pin_deps_index *index, const struct pin_tool_config *stored,
                      const char *source, const char *target, const struct pin_policy *call_policy,
                      struct pin_error *err);
/* What the driver reads on its standard input; as above. */
char *pin_deps_packet(const struct pin_deps_index *index, const struct pin_requirements *requirements,
                      const char *target, struct pin_error *err);

/* Runs the installation in `path` (tmp/KEY/layer). deps_install.c */
struct pin_deps_job {
    enum pin_installer installer;
    const struct pin_requirements *requirements;
    const struct pin_tool_config *stored;
    const struct pin_deps_options *options;
    const char *path, *target, *driver; /* `driver`: its source */
    int parent;                         /* of `folder`, which is measured meanwhile */
    const char *folder;
};
bool pin_deps_install(const struct pin_deps_job *job, struct pin_arena *arena, struct pin_error *err);
