/* request.h: what a front door asks for, and what the policy makes of it.
 *
 * A request is a plain value; its strings belong to the caller and must outlive the calls. A field that isn't
 * set asks for what the policy grants. pin_request_narrow() is where a request meets its ceiling: it is
 * granted whole, or refused whole with every offending field named. Nothing here makes a system call.
 * Source: docs/bundle.md "Requests".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/findings.h"
#include "policy/policy.h"
#include "runtime/bundle/bundle.h"

#define PIN_REQUEST_LABELS_MAX 64
#define PIN_REQUEST_STRINGS_BYTES                                                                            \
    ((size_t)2 * 1024 * 1024) /* of arguments and environment, as execve(2) counts */

struct pin_request {
    bool bundle;       /* the bundle has a root, and perhaps a command, a terminal, a workspace: what the
                          request doesn't ask for isn't taken from the policy */
    const char *image; /* NULL: "host" */
    const char *image_digest; /* "sha256:…" where the image has one */
    bool image_signed;        /* the caller has checked a signature by pin_request_image_rule()'s keys */

    const char *const *args;
    size_t arg_count;
    const char *cwd;            /* NULL: the workspace, else /tmp, else / */
    const struct pin_pair *env; /* later ones win; a NULL value takes the name away */
    size_t env_count;
    const struct pin_pair *env_under; /* below the policy's own: what the caller's programs are glad of */
    size_t env_under_count;
    const char *const *image_env; /* "K=V" of the image's own configuration */
    size_t image_env_count;
    const struct pin_pair *image_labels; /* of its configuration: they become annotations */
    size_t image_label_count;
    const char *const *host_env; /* "K=V" and a NULL at the end, from which the policy may pass; or NULL */
    const struct pin_pair *labels;
    size_t label_count;

    struct {
        const char *source;       /* absolute on the host; NULL: none */
        enum pin_access access;   /* NONE: the most that the policy grants */
        enum pin_on_exit on_exit; /* of PIN_ACCESS_COW */
    } workspace;

    bool has_memory, has_cpus, has_pids, has_wall_time, has_frames, has_user, has_group;
    uint64_t memory_bytes, pids, wall_time_ns;
    uint32_t millicpus;
    uint32_t frames; /* set of enum pin_frames; without has_frames: what the policy grants of stdout's */
    uint32_t user, group;
    const char *hostname; /* NULL: "pinfold" */

    bool tty;
    uint16_t rows, columns;

    const char *const *egress; /* "HOST:PORT" */
    size_t egress_count;
    const char *const *publish; /* "PORT": as the policy has it; or "PORT=PLACE" */
    size_t publish_count;
    const char *const *secrets; /* as secret_spec.h has them */
    size_t secret_count;

    bool hands_secrets; /* the front door can hand secrets over: without it, asking for one is refused */
    bool publishes;     /* … publishes ports: without it a policy with network.publish is refused */
    bool records_calls; /* … and which system calls were denied */
    bool records; /* the front door writes the audit log: without it a policy that wants that is refused */
};

/* A copy of the ceiling, narrowed to what is asked. NULL with findings of kind REFUSED, INVALID, USAGE or
 * UNSUPPORTED where the request asks for more; otherwise the caller frees it. The copy keeps the name and the
 * digest of the ceiling: they say which policy granted. */
struct pin_policy *pin_request_narrow(const struct pin_policy *ceiling, const struct pin_request *request,
                                      struct pin_findings *found);

/* Findings for what this version can't do yet, whoever asks for it. */
void pin_request_check_supported(const struct pin_policy *policy, const struct pin_request *request,
                                 struct pin_findings *found);

/* Findings for secrets that can't be handed over like this, whether they are granted or not. */
/* Findings for labels that the policy requires of a run with these causes (policy/label_rules.h). */
void pin_request_check_labels(const struct pin_policy *ceiling, unsigned causes,
                              const struct pin_pair *labels, size_t count, struct pin_findings *found);
void pin_request_check_secrets(const struct pin_policy *ceiling, const char *const *specs, size_t count,
                               struct pin_findings *found);

/* Whether the rule is about this image, signed or not; `digest` may be NULL. */
bool pin_request_rule_matches(const struct pin_image_rule *rule, const char *name, const char *digest);
/* A rule of the policy that lets the image in, and one that asks for no signature where there is one; NULL if
 * none does. */
const struct pin_image_rule *pin_request_image_rule(const struct pin_policy *policy, const char *name,
                                                    const char *digest);
