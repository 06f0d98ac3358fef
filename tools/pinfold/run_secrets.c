#include "tools/pinfold/run_secrets.h"

#include <string.h>

/* The plan was made without a value; whoever builds it reads the one in locked memory. */
static void fill_plan(struct pin_run_secrets *secrets, struct pin_plan *plan) {
    secrets->plan = plan;
    for (size_t i = 0; i < plan->op_count; i++)
        for (size_t j = 0; plan->ops[i].secret != NULL && j < secrets->found.count; j++) {
            const struct pin_secret *secret = &secrets->found.list[j];
            const char *slash = strrchr(plan->ops[i].target, '/');
            if (secret->spec.form == PIN_SECRET_FILE && slash != NULL &&
                strcmp(secret->spec.target, slash + 1) == 0)
                plan->ops[i].content = pin_secret_value(secret, &plan->ops[i].size);
        }
}

bool pin_run_secrets_find(struct pin_run_secrets *secrets, struct pin_front *front, struct pin_error *err) {
    const struct pin_bundle_ext *ext = &front->bundle->ext;
    if (!pin_secrets_find(&secrets->found, ext->secrets, ext->secret_count, front->secret_variables,
                          front->secret_variable_count, err) ||
        !pin_secrets_join(&secrets->found, &front->sealed, err))
        return false;
    if (secrets->found.count == 0)
        return true;
    secrets->mask = pin_mask_new(&secrets->found, err);
    if (secrets->mask == NULL)
        return false;
    fill_plan(secrets, front->plan);
    return true;
}

static bool is_secret(const struct pin_run_secrets *secrets, const char *variable) {
    size_t length = strcspn(variable, "=");
    for (size_t i = 0; i < secrets->found.count; i++) {
        const struct pin_secret_spec *spec = &secrets->found.list[i].spec;
        if (spec->form == PIN_SECRET_ENV && strlen(spec->target) == length &&
            memcmp(spec->target, variable, length) == 0)
            return true;
    }
    return false;
}

const char *const *pin_run_secrets_environment(const struct pin_run_secrets *secrets, struct pin_arena *arena,
                                               const char *const *env, size_t count) {
    const char **list = pin_arena_array(arena, count + secrets->found.count + 1, sizeof(*list));
    size_t at = 0;
    for (size_t i = 0; i < count; i++)
        if (!is_secret(secrets, env[i]))
            list[at++] = env[i];
    for (size_t i = 0; i < secrets->found.count; i++)
        if (secrets->found.list[i].spec.form == PIN_SECRET_ENV)
            list[at++] = pin_secret_variable(&secrets->found.list[i]);
    return list;
}

void pin_run_secrets_fingerprint(const struct pin_run_secrets *secrets, uint8_t digest[PIN_SHA256_SIZE]) {
    uint8_t values[PIN_SHA256_SIZE];
    if (secrets->found.count == 0)
        return;
    pin_secrets_digest(&secrets->found, values);
    pin_sha256_pair(digest, PIN_SHA256_SIZE, values, sizeof(values), digest);
}

void pin_run_secrets_free(struct pin_run_secrets *secrets) {
    for (size_t i = 0; secrets->plan != NULL && i < secrets->plan->op_count; i++)
        if (secrets->plan->ops[i].secret != NULL) {
            secrets->plan->ops[i].content = NULL;
            secrets->plan->ops[i].size = 0;
        }
    pin_mask_free(secrets->mask);
    pin_secrets_free(&secrets->found);
    *secrets = (struct pin_run_secrets){0};
}
