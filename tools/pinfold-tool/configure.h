/* configure.h: what a call takes from its stored configuration: the policy, the image, limits, variables and
 * requirements.
 *
 * The command line goes before the request, and the request before the configuration; the policy is above
 * them all. A privileged tool runs by the configuration's privileged policy, and no other can be named for
 * it. A call that names neither organisation nor configuration, where nobody has stored one, has an empty
 * one, and nothing is written. docs/tool.md "Configurations".
 */
#pragma once

#include <sys/types.h>

#include "runtime/tool/config.h"
#include "runtime/tool/env.h"
#include "runtime/tool/request.h"
#include "tools/pinfold/front.h"

struct pin_call_config { /* zeroed at first */
    struct pin_tool_config stored;
    struct pin_requirements requirements[PIN_INSTALLER_COUNT]; /* the tool's over the configuration's */
};

/* Finds the configuration. `organisation` and `name` are the command line's; NULL: not given. */
bool pin_call_configure(struct pin_call_config *config, const struct pin_tool_request *request,
                        const char *organisation, const char *name, struct pin_arena *arena,
                        struct pin_findings *found);
/* Puts what nobody has said otherwise into the options of the run. */
bool pin_call_apply_config(const struct pin_call_config *config, const struct pin_tool_request *request,
                           struct pin_arena *arena, struct pin_front_options *front,
                           struct pin_findings *found);
/* Whether anything has to be installed for it. */
bool pin_call_has_requirements(const struct pin_call_config *config);
void pin_call_config_free(struct pin_call_config *config);

/* Opens the values of `env->sealed`, by the program that holds the key (pinfold-config). */
bool pin_call_open_sealed(const struct pin_tool_config *stored, const struct pin_tool_env *env,
                          struct pin_secrets *secrets, struct pin_error *err);
/* The same for somebody else, to whom they come from `from` (pin_secrets_add_pairs()): this process never has
 * them. */
struct pin_sealed_opening {
    int from;  /* -1: none */
    pid_t pid; /* of the program; 0: none */
};
bool pin_call_begin_sealed(const struct pin_tool_config *stored, const struct pin_tool_env *env,
                           struct pin_sealed_opening *opening, struct pin_error *err);
/* Waits for the program; what it couldn't do it has said on standard error. Fine with none. */
bool pin_call_end_sealed(struct pin_sealed_opening *opening, struct pin_error *err);
/* No fewer than their bytes, all in all. */
size_t pin_call_sealed_size(const struct pin_tool_env *env);
