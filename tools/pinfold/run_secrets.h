/* run_secrets.h: the secrets of a run: found for its bundle, put into its plan and its environment, and taken
 * out of its output.
 */
#pragma once

#include <stdbool.h>

#include "runtime/secrets/mask.h"
#include "runtime/secrets/secrets.h"
#include "tools/pinfold/front.h"

struct pin_run_secrets { /* zeroed: none */
    struct pin_secrets found;
    struct pin_mask *mask; /* NULL without secrets */
    struct pin_plan *plan; /* whose operations point to the values */
};

/* The bundle's secrets; files of the plan get their values. */
bool pin_run_secrets_find(struct pin_run_secrets *secrets, struct pin_front *front, struct pin_error *err);
/* The variables of a command, ended by NULL, in `arena`: `env`, and the secrets over them. */
const char *const *pin_run_secrets_environment(const struct pin_run_secrets *secrets, struct pin_arena *arena,
                                               const char *const *env, size_t count);
/* A fingerprint that the values count in; unchanged without secrets. */
void pin_run_secrets_fingerprint(const struct pin_run_secrets *secrets, uint8_t digest[PIN_SHA256_SIZE]);
/* Wipes them, also from the plan. */
void pin_run_secrets_free(struct pin_run_secrets *secrets);
