/* pinfold-config: `pinfold config VERB` and `pinfold env VERB`. A program of its own in libexec: nothing that
 * runs a sandbox carries the cryptographic library, or the key. */
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "tools/pinfold-config/verbs.h"
#include "tools/pinfold/program.h"
#include "tools/pinfold/report.h"

static const struct pin_verb *const verbs[] = {
    &pin_config_verb_create, &pin_config_verb_get,    &pin_config_verb_list,
    &pin_config_verb_update, &pin_config_verb_delete, &pin_config_verb_default,
    &pin_env_verb_set,       &pin_env_verb_unset,     &pin_env_verb_list,
};

const char *config_organisation(const struct config_values *values) {
    return values->organisation != NULL ? values->organisation : PIN_TOOL_DEFAULT_ORGANISATION;
}

const char *config_safe(const char *text) {
    static char shown[4096];
    return pin_escape(shown, sizeof(shown), text, strlen(text));
}

void config_print(json_t *object) {
    (void)json_dumpf(object, stdout, JSON_COMPACT);
    (void)fputc('\n', stdout);
    json_decref(object);
}

bool config_check_name(const char *what, const char *name, struct pin_error *err) {
    if (pin_is_name(name))
        return true;
    (void)pin_fail(err, PIN_ERROR_USAGE, "'%.60s' is no name of %s", config_safe(name), what);
    return pin_hint(err, "use letters, digits, '_', '.' and '-', at most 63");
}

bool config_open(struct pin_config_store *store, const struct config_values *values, struct pin_error *err) {
    const char *organisation = config_organisation(values);
    return config_check_name("an organisation", organisation, err) &&
           pin_config_store_open(store, PIN_CONFIG_CHECK, err) &&
           pin_config_store_ensure(store, organisation, err);
}

int main(int argc, char **argv) {
    static const struct pin_program program = {
        .family = "config",
        .about = "Stored configurations of tool calls, and their variables.",
        .exits = "0 good; 125 refused or failed.",
        .verbs = verbs,
        .count = PIN_COUNT(verbs),
    };
    if (argc == 2 && strcmp(argv[1], "unseal") == 0)
        return pin_config_unseal();
    return pin_program_main(&program, argc, argv);
}
