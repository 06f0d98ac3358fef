/* pinfold-config: `pinfold config VERB` and `pinfold env VERB`. A program of its own in libexec: nothing that
 * runs a sandbox carries the cryptographic library, or the key. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "tools/pinfold-config/verbs.h"
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

static bool is_of(const struct pin_verb *verb, const char *family) {
    size_t length = strlen(family);
    return strncmp(verb->name, family, length) == 0 && verb->name[length] == ' ';
}

static void print_usage(const char *family, FILE *to) {
    (void)fprintf(to, "usage: pinfold %s VERB [options] …\n\n%s\n\nverbs:\n", family,
                  strcmp(family, "env") == 0 ? "Variables of stored configurations."
                                             : "Stored configurations of tool calls.");
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        if (is_of(verbs[i], family))
            (void)fprintf(to, "  %-9s %s\n", verbs[i]->name + strlen(family) + 1, verbs[i]->summary);
    (void)fprintf(to, "\n'pinfold %s VERB --help' has the options and an example.\n", family);
}

static int unknown_verb(const char *family, const char *name) {
    struct pin_error err = {0};
    const char *names[PIN_COUNT(verbs)] = {NULL};
    size_t count = 0;
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        if (is_of(verbs[i], family))
            names[count++] = verbs[i]->name + strlen(family) + 1;
    const char *near = pin_name_suggest(names, count, name);
    (void)pin_fail(&err, PIN_ERROR_USAGE, "there is no verb '%s %.60s'", family, name);
    if (near != NULL)
        (void)pin_hint(&err, "did you mean '%s'?", near);
    else
        (void)pin_hint(&err, "see 'pinfold %s --help'", family);
    return pin_report(&err, false);
}

static const struct pin_verb *find_verb(const char *family, const char *name) {
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        if (is_of(verbs[i], family) && strcmp(verbs[i]->name + strlen(family) + 1, name) == 0)
            return verbs[i];
    return NULL;
}

int main(int argc, char **argv) {
    (void)signal(SIGPIPE, SIG_IGN);
    const char *family = argc > 0 && strcmp(argv[0], "env") == 0 ? "env" : "config";
    if (argc < 2) {
        print_usage(family, stderr);
        return PIN_REPORT_EXIT;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_usage(family, stdout);
        return 0;
    }
    if (strcmp(name, "completion") == 0) {
        pin_help_completion(verbs, PIN_COUNT(verbs), "pinfold", stdout);
        return 0;
    }
    if (strcmp(name, "unseal") == 0)
        return pin_config_unseal();
    bool man = strcmp(name, "man") == 0 && argc > 2;
    const struct pin_verb *verb = find_verb(family, argv[1 + man]);
    if (verb == NULL)
        return unknown_verb(family, argv[1 + man]);
    if (!man)
        return pin_verb_main(verb, argc - 2, argv + 2);
    pin_help_man(verb, "pinfold", stdout);
    return 0;
}
