/* verbs.h: the verbs of `pinfold config` and `pinfold env`. */
#pragma once

#include <jansson.h>

#include "base/findings.h"
#include "runtime/tool/config_store.h"
#include "tools/pinfold/options.h"

extern const struct pin_verb pin_config_verb_create, pin_config_verb_get, pin_config_verb_list,
    pin_config_verb_update, pin_config_verb_delete, pin_config_verb_default;
extern const struct pin_verb pin_env_verb_set, pin_env_verb_unset, pin_env_verb_list;

/* Reads the list of sealed values on standard input, and writes NAME=VALUE, each with a zero behind it: for
 * our own programs (tools/pinfold-tool/sealed.c). */
int pin_config_unseal(void);

struct config_values { /* of every verb here */
    const char *organisation, *configuration;
    bool json, is_default, replace, all, secret, null;
};

const char *config_organisation(const struct config_values *values);
/* Text for a terminal; good until the next call. */
const char *config_safe(const char *text);
/* One object, and freed. */
void config_print(json_t *object);
/* A name as sandboxes have them, or an error. */
bool config_check_name(const char *what, const char *name, struct pin_error *err);
/* The store with a default configuration of the organisation. */
bool config_open(struct pin_config_store *store, const struct config_values *values, struct pin_error *err);
