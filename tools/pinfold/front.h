/* front.h: what `run`, `plan` and `bundle export` share: from a command line to a plan.
 *
 * One struct holds the options that describe a sandbox (design, section 5), one all that they resolve to.
 * Nothing here is privileged; nothing is built.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/findings.h"
#include "images/rootfs.h"
#include "runtime/build/cgroup/facts.h"
#include "runtime/bundle/bundle.h"
#include "runtime/bundle/request.h"
#include "runtime/host/host.h"
#include "runtime/plan/plan.h"
#include "runtime/secrets/secrets.h"
#include "tools/pinfold/options.h"

struct pin_front_options { /* the first member of each verb's values */
    const char *policy, *site, *image, *bundle, *workspace;
    struct pin_texts env, secrets, secret_variables, labels, egress, publish;
    struct pin_number memory, cpus, pids, timeout;
    bool tty, json;
    int frames, on_exit; /* of the choices in front.c; -1: not given */
    bool letta_frames;   /* besides `frames`, in stdout */
    /* for front doors that aren't a command line: variables over `env`, and below every other */
    /* changes the policy after it was read and before the site's ceiling holds it; `site` may be NULL */
    void (*adjust)(void *self, struct pin_policy *policy, const struct pin_policy *site);
    void *adjust_self;
    const struct pin_pair *env_over, *env_under; /* borrowed; a NULL value takes the name away */
    size_t env_over_count, env_under_count;
    const char
        *policy_text; /* the policy itself, with `policy` as its name in errors; NULL: a name or a file */
    const struct pin_mount_rule
        *layers; /* of pinfold's own making, shown over the policy's mounts; borrowed */
    size_t layer_count;
    void (*narrow)(struct pin_policy *policy); /* what the caller takes away besides; NULL: nothing */
};

extern const char *const pin_front_frames[], *const pin_front_on_exit[]; /* ended by NULL */

/* The rows of a verb's table whose values begin with a struct pin_front_options. */
#define PIN_FRONT_ROW(option, sign, kind, member, form, text, names)                                         \
    { option, sign, kind, offsetof(struct pin_front_options, member), form, text, names }
#define PIN_FRONT_ROWS                                                                                       \
    PIN_FRONT_ROW("policy", 'p', PIN_OPTION_TEXT, policy, "P",                                               \
                  "the policy: a built-in or installed name, or a file (tool)", NULL),                       \
        PIN_FRONT_ROW("site", 0, PIN_OPTION_TEXT, site, "FILE",                                              \
                      "the site's floor and ceiling over every policy (/etc/pinfold/site.json)", NULL),      \
        PIN_FRONT_ROW("image", 0, PIN_OPTION_TEXT, image, "REF",                                             \
                      "the image that the root is made from (host)", NULL),                                  \
        PIN_FRONT_ROW("bundle", 0, PIN_OPTION_TEXT, bundle, "DIR",                                           \
                      "run this OCI bundle, with the policy as its ceiling", NULL),                          \
        PIN_FRONT_ROW("workspace", 'w', PIN_OPTION_TEXT, workspace, "DIR[:ro|:cow]",                         \
                      "show this directory at /workspace: read-write, read-only or copy-on-write", NULL),    \
        PIN_FRONT_ROW("env", 'e', PIN_OPTION_TEXTS, env, "K=V", "set a variable inside", NULL),              \
        PIN_FRONT_ROW("secret", 0, PIN_OPTION_TEXTS, secrets, "NAME[:env=V|:file]", "hand this secret in",   \
                      NULL),                                                                                 \
        PIN_FRONT_ROW("secret-from-env", 0, PIN_OPTION_TEXTS, secret_variables, "NAME=VARIABLE",             \
                      "this secret's value is in that variable of pinfold's own environment", NULL),         \
        PIN_FRONT_ROW("label", 0, PIN_OPTION_TEXTS, labels, "K=V", "a label, in results and logs", NULL),    \
        PIN_FRONT_ROW("egress", 0, PIN_OPTION_TEXTS, egress, "HOST:PORT",                                    \
                      "let connections to this host leave", NULL),                                           \
        PIN_FRONT_ROW("publish", 0, PIN_OPTION_TEXTS, publish, "PORT[=PLACE]",                               \
                      "let the host reach this port inside: at 127.0.0.1:PORT, [::1]:PORT or unix:NAME",     \
                      NULL),                                                                                 \
        PIN_FRONT_ROW("memory", 0, PIN_OPTION_SIZE, memory, "N", "at most this much memory", NULL),          \
        PIN_FRONT_ROW("cpus", 0, PIN_OPTION_CPUS, cpus, "N", "at most this many processors", NULL),          \
        PIN_FRONT_ROW("pids", 0, PIN_OPTION_COUNT, pids, "N", "at most this many processes and threads",     \
                      NULL),                                                                                 \
        PIN_FRONT_ROW("timeout", 't', PIN_OPTION_TIME, timeout, "T", "end the run after this time", NULL),   \
        PIN_FRONT_ROW("tty", 0, PIN_OPTION_FLAG, tty, NULL, "a terminal inside", NULL),                      \
        PIN_FRONT_ROW("frames", 0, PIN_OPTION_CHOICE, frames, NULL, "where result frames are read",          \
                      pin_front_frames),                                                                     \
        PIN_FRONT_ROW("on-exit", 0, PIN_OPTION_CHOICE, on_exit, NULL,                                        \
                      "what becomes of a copy-on-write workspace's changes", pin_front_on_exit),             \
        PIN_FRONT_ROW("json", 0, PIN_OPTION_FLAG, json, NULL, "print one JSON object", NULL)

struct pin_front { /* PIN_FRONT_NONE at first */
    struct pin_arena arena;
    struct pin_policy *ceiling, *effective;
    struct pin_request request;
    const char *const *secret_variables; /* "NAME=VARIABLE": where values of secrets are */
    size_t secret_variable_count;
    struct pin_secrets sealed; /* variables that the caller has opened: they join the run's secrets */
    struct pin_rootfs rootfs;
    int image_hold; /* as long as it is open, the image stays in the store; -1: the host image */
    struct pin_bundle *bundle;
    struct pin_host host;
    struct pin_cgroup_facts *cgroups; /* in the arena: large, and hardly touched */
    int state_dir;                    /* -1: not opened */
    struct pin_plan *plan;
};

#define PIN_FRONT_NONE ((struct pin_front){.state_dir = -1, .image_hold = -1})

/* The bundle of a command line; `args` ends with NULL and may be empty where a bundle brings its own. */
bool pin_front_bundle(struct pin_front *front, const struct pin_front_options *options, char **args,
                      size_t arg_count, struct pin_findings *found);
/* The state directory, host facts and the plan, after pin_front_bundle(). */
bool pin_front_plan(struct pin_front *front, struct pin_findings *found);

/* What follows from the host's swap space for secrets; part of pin_front_plan(). */
void pin_front_judge_swap(struct pin_host *host, const struct pin_cgroup_facts *cgroups);

/* What a sandbox of it is held to: the policy as the request has narrowed it, or the ceiling of a bundle that
 * was brought. */
static inline const struct pin_policy *pin_front_policy(const struct pin_front *front) {
    return front->effective != NULL ? front->effective : front->ceiling;
}

/* Frees all of it; fine with a zeroed or half made one. */
void pin_front_free(struct pin_front *front);
