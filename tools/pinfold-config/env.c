/* `pinfold env VERB`: the variables of a configuration. Values of sealed ones are never shown. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/names.h"
#include "base/utf8.h"
#include "runtime/secrets/locked.h"
#include "runtime/secrets/secrets.h"
#include "tools/pinfold-config/seal.h"
#include "tools/pinfold-config/verbs.h"
#include "tools/pinfold/report.h"

#define ROW(name, type, member, value, help)                                                                 \
    { name, 0, type, offsetof(struct config_values, member), value, help, NULL }
#define ROW_ORGANISATION                                                                                     \
    ROW("organisation", PIN_OPTION_TEXT, organisation, "O", "whose configuration (default)")
#define ROW_CONFIGURATION                                                                                    \
    ROW("configuration", PIN_OPTION_TEXT, configuration, "NAME", "which one (the organisation's default)")
#define ROW_JSON ROW("json", PIN_OPTION_FLAG, json, NULL, "print JSON")

/* clang-format off */
static const struct pin_option set_options[] = {
    ROW_ORGANISATION, ROW_CONFIGURATION, ROW_JSON,
    ROW("secret", PIN_OPTION_FLAG, secret, NULL, "read the value of NAME from standard input, and seal it"),
    ROW("null", PIN_OPTION_FLAG, null, NULL, "take NAME away from the layers below"),
};
static const struct pin_option common_options[] = {ROW_ORGANISATION, ROW_CONFIGURATION, ROW_JSON};
/* clang-format on */

struct open_config { /* the store, and the configuration that is meant */
    struct pin_config_store store;
    struct pin_tool_config config;
};

static bool open_one(struct open_config *open, const struct config_values *values, struct pin_error *err) {
    open->store = PIN_CONFIG_STORE_NONE;
    return config_open(&open->store, values, err) &&
           pin_config_store_get(&open->store, config_organisation(values), values->configuration,
                                &open->config, err);
}

static void close_one(struct open_config *open) {
    pin_tool_config_free(&open->config);
    pin_config_store_close(&open->store);
}

static bool check_variable(const char *name, struct pin_error *err) {
    if (pin_tool_is_variable(name))
        return true;
    (void)pin_fail(err, PIN_ERROR_USAGE, "'%.60s' is no name of a variable", config_safe(name));
    return pin_hint(err, "use letters, digits and '_'");
}

/* "NAME=VALUE" each; with --null "NAME" each. */
static bool take_plain(struct pin_arena *arena, const struct pin_invocation *invocation, bool null,
                       struct pin_tool_variable *variables, struct pin_error *err) {
    for (size_t i = 0; i < invocation->argument_count; i++) {
        const char *text = invocation->arguments[i], *equals = strchr(text, '=');
        if ((equals == NULL) != null) {
            (void)pin_fail(err, PIN_ERROR_USAGE, null ? "--null takes names alone" : "'%.60s' has no value",
                           config_safe(text));
            return pin_hint(err, null ? "leave '=VALUE' out" : "write NAME=VALUE; --secret reads the value");
        }
        variables[i].name = null ? text : pin_arena_strndup(arena, text, (size_t)(equals - text));
        variables[i].value = null ? NULL : equals + 1;
        if (!check_variable(variables[i].name, err))
            return false;
        if (!null && !pin_utf8_valid((const uint8_t *)equals + 1, strlen(equals + 1)))
            return pin_fail(err, PIN_ERROR_INVALID, "the value of '%.60s' is no UTF-8", variables[i].name);
    }
    return true;
}

/* As far as it goes, and one line end less. */
static bool read_secret(struct pin_locked *value, size_t *size, struct pin_error *err) {
    ssize_t got = 0;
    *size = 0;
    if (!pin_locked_alloc(value, PIN_SECRET_MOST + 2, err))
        return false;
    while (*size < value->size && (got = read(STDIN_FILENO, value->bytes + *size, value->size - *size)) > 0)
        *size += (size_t)got;
    if (got < 0)
        return pin_fail_errno(err, "read the value");
    if (*size > 0 && value->bytes[*size - 1] == '\n')
        (*size)--;
    if (*size < PIN_SECRET_LEAST || *size > PIN_SECRET_MOST) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "a sealed value has %d to %zu bytes", PIN_SECRET_LEAST,
                       PIN_SECRET_MOST);
        return pin_hint(err, "a shorter one couldn't be masked in output");
    }
    return memchr(value->bytes, 0, *size) == NULL ||
           pin_fail(err, PIN_ERROR_INVALID, "the value has a zero byte in it");
}

static char *take_secret(const struct pin_invocation *invocation, const struct pin_tool_config *config,
                         struct pin_error *err) {
    const struct pin_seal_place place = {config->organisation, config->name, invocation->arguments[0]};
    struct pin_locked value = {0};
    size_t size;
    char *sealed = NULL;
    if (invocation->argument_count != 1 || strchr(place.name, '=') != NULL) {
        (void)pin_fail(err, PIN_ERROR_USAGE, "--secret takes one name, and its value from standard input");
        (void)pin_hint(err, "a value among the arguments could be seen by every process of the host");
        return NULL;
    }
    if (strlen(place.name) >= PIN_SECRET_NAME_MAX) {
        (void)pin_fail(err, PIN_ERROR_USAGE, "the name of a sealed value has at most %d characters",
                       PIN_SECRET_NAME_MAX - 1);
        return NULL;
    }
    if (check_variable(place.name, err) && read_secret(&value, &size, err))
        sealed = pin_seal(&place, value.bytes, size, err);
    pin_locked_free(&value);
    return sealed;
}

static bool set_all(const struct pin_invocation *invocation, struct open_config *open,
                    struct pin_error *err) {
    const struct config_values *values = invocation->values;
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_tool_variable *variables =
        pin_arena_array(&arena, invocation->argument_count, sizeof(*variables));
    PIN_FREE char *sealed = values->secret ? take_secret(invocation, &open->config, err) : NULL;
    if (values->secret && values->null && !pin_is_set(err))
        return pin_fail(err, PIN_ERROR_USAGE, "--secret and --null exclude each other");
    if (sealed != NULL)
        variables[0] = (struct pin_tool_variable){.name = invocation->arguments[0], .sealed = sealed};
    else if (values->secret || !take_plain(&arena, invocation, values->null, variables, err))
        return false;
    return pin_config_store_set_env(&open->store, open->config.organisation, open->config.name, variables,
                                    invocation->argument_count, err);
}

static const char *kind_of(const struct pin_tool_variable *variable) {
    return variable->sealed != NULL ? "secret" : variable->value != NULL ? "value" : "null";
}

static json_t *list_object(const struct pin_tool_config *config) {
    json_t *list = json_array();
    for (size_t i = 0; i < config->env_count; i++)
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s?}", "name", config->env[i].name, "kind",
                                                    kind_of(&config->env[i]), "value", config->env[i].value));
    return json_pack("{s:s, s:s, s:o}", "organisation", config->organisation, "configuration", config->name,
                     "env", list);
}

static void print_list(const struct pin_tool_config *config) {
    for (size_t i = 0; i < config->env_count; i++) {
        const struct pin_tool_variable *variable = &config->env[i];
        if (variable->value != NULL)
            (void)printf("%s=%s\n", variable->name, config_safe(variable->value));
        else
            (void)printf("%s (%s)\n", variable->name, kind_of(variable));
    }
}

static int report_end(struct open_config *open, const struct config_values *values, struct pin_error *err) {
    struct pin_tool_config now = {0};
    if (!pin_is_set(err) && values->json &&
        pin_config_store_get(&open->store, open->config.organisation, open->config.name, &now, err))
        config_print(list_object(&now));
    pin_tool_config_free(&now);
    close_one(open);
    return pin_is_set(err) ? pin_report(err, values->json) : 0;
}

static int run_set(const struct pin_invocation *invocation) {
    struct pin_error err = {0};
    struct open_config open = {0};
    if (open_one(&open, invocation->values, &err))
        (void)set_all(invocation, &open, &err);
    return report_end(&open, invocation->values, &err);
}

static int run_unset(const struct pin_invocation *invocation) {
    struct pin_error err = {0};
    struct open_config open = {0};
    if (open_one(&open, invocation->values, &err))
        (void)pin_config_store_unset_env(&open.store, open.config.organisation, open.config.name,
                                         (const char *const *)invocation->arguments,
                                         invocation->argument_count, &err);
    return report_end(&open, invocation->values, &err);
}

static int run_list(const struct pin_invocation *invocation) {
    const struct config_values *values = invocation->values;
    struct pin_error err = {0};
    struct open_config open = {0};
    bool good = open_one(&open, values, &err);
    if (good && values->json)
        config_print(list_object(&open.config));
    else if (good)
        print_list(&open.config);
    close_one(&open);
    return good ? 0 : pin_report(&err, values->json);
}

#define VERB(verb, words, form, least, most, about, text, shown)                                             \
    const struct pin_verb pin_env_verb_##verb = {.name = "env " #verb,                                       \
                                                 .synopsis = (form),                                         \
                                                 .summary = (about),                                         \
                                                 .description = (text),                                      \
                                                 .example = "  " shown,                                      \
                                                 .options = (words),                                         \
                                                 .option_count = PIN_COUNT(words),                           \
                                                 .values_size = sizeof(struct config_values),                \
                                                 .least_arguments = (least),                                 \
                                                 .most_arguments = (most),                                   \
                                                 .run = run_##verb}

VERB(set, set_options, "NAME=VALUE…", 1, 256, "set variables of a configuration",
     "With --secret the value comes from standard input, is sealed with the host's key, and is never shown "
     "again: "
     "calls get it, and it is masked in what they print.",
     "pinfold env set --configuration web TZ=UTC\n  pinfold env set --secret API_KEY < key.txt");
VERB(unset, common_options, "NAME…", 1, 256, "take variables away from a configuration", NULL,
     "pinfold env unset TZ");
VERB(list, common_options, "", 0, 0, "list the variables of a configuration",
     "Of a sealed variable only the name is shown.", "pinfold env list --configuration web");
