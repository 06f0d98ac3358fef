/* `pinfold config VERB`: configurations of tool calls, made, changed and looked at. */
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/text.h"
#include "tools/pinfold-config/verbs.h"
#include "tools/pinfold/report.h"

#define ROW(name, type, member, value, help)                                                                 \
    { name, 0, type, offsetof(struct config_values, member), value, help, NULL }
#define ROW_ORGANISATION                                                                                     \
    ROW("organisation", PIN_OPTION_TEXT, organisation, "O", "whose configurations (default)")
#define ROW_JSON ROW("json", PIN_OPTION_FLAG, json, NULL, "print JSON")

/* clang-format off */
static const struct pin_option create_options[] = {
    ROW_ORGANISATION, ROW_JSON,
    ROW("default", PIN_OPTION_FLAG, is_default, NULL, "make it the default of its organisation"),
};
static const struct pin_option common_options[] = {ROW_ORGANISATION, ROW_JSON};
static const struct pin_option list_options[] = {
    ROW_ORGANISATION, ROW_JSON,
    ROW("all", PIN_OPTION_FLAG, all, NULL, "of every organisation"),
};
static const struct pin_option update_options[] = {
    ROW_ORGANISATION, ROW_JSON,
    ROW("replace", PIN_OPTION_FLAG, replace, NULL, "the file is the whole configuration, not a change to it"),
};
/* clang-format on */

static char *read_content(const char *name, size_t *size, struct pin_error *err) {
    char *text = strcmp(name, "-") == 0 ? pin_read_all(STDIN_FILENO, PIN_TOOL_CONFIG_MAX, size, err)
                                        : pin_read_file_at(AT_FDCWD, name, PIN_TOOL_CONFIG_MAX, size, err);
    if (text == NULL)
        (void)pin_wrap(err, "read the configuration");
    return text;
}

static json_t *env_object(const struct pin_tool_config *config) {
    json_t *env = json_array();
    for (size_t i = 0; i < config->env_count; i++)
        (void)json_array_append_new(env, json_string(config->env[i].name));
    return env;
}

static json_t *config_object(const struct pin_tool_config *config) {
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "organisation", config->organisation, "name", config->name,
                     "digest", config->digest, "configuration", json_loads(config->text, 0, NULL), "env",
                     env_object(config));
}

static int show(struct pin_config_store *store, const struct config_values *values, const char *name) {
    struct pin_tool_config config = {0};
    struct pin_error err = {0};
    if (!pin_config_store_get(store, config_organisation(values), name, &config, &err))
        return pin_report(&err, values->json);
    if (values->json)
        config_print(config_object(&config));
    else {
        json_t *content = json_loads(config.text, 0, NULL);
        char *text = json_dumps(content, JSON_INDENT(2));
        (void)printf("name          %s\norganisation  %s\ndigest        %s\nvariables     %zu\n%s\n",
                     config_safe(config.name), config.organisation, config.digest, config.env_count, text);
        free(text);
        json_decref(content);
    }
    pin_tool_config_free(&config);
    return 0;
}

static int finish(struct pin_config_store *store, const struct config_values *values, const char *name,
                  struct pin_error *err) {
    int code = pin_is_set(err) ? pin_report(err, values->json) : values->json ? show(store, values, name) : 0;
    pin_config_store_close(store);
    return code;
}

static bool read_new(const struct pin_invocation *invocation, struct pin_tool_config *config,
                     struct pin_findings *found) {
    struct pin_error err = {0};
    const char *file = invocation->argument_count > 1 ? invocation->arguments[1] : NULL;
    size_t size = 2;
    PIN_FREE char *text = file != NULL ? read_content(file, &size, &err) : strdup("{}");
    if (!config_check_name("a configuration", invocation->arguments[0], &err) || text == NULL) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, which the analyzer doesn't see */
        pin_find_error(found, &err);
        return false;
    }
    return pin_tool_config_parse(config, file != NULL ? file : "configuration", text, size, found);
}

static int run_create(const struct pin_invocation *invocation) {
    const struct config_values *values = invocation->values;
    const char *name = invocation->arguments[0];
    struct pin_config_store store = PIN_CONFIG_STORE_NONE;
    struct pin_tool_config config = {0};
    struct pin_error err = {0};
    static struct pin_findings found;
    if (!read_new(invocation, &config, &found)) {
        pin_tool_config_free(&config);
        return pin_report_findings(&found, values->json);
    }
    bool good = pin_config_store_open(&store, PIN_CONFIG_CHECK, &err) &&
                config_check_name("an organisation", config_organisation(values), &err) &&
                pin_config_store_create(&store, config_organisation(values), name, config.text,
                                        values->is_default, &err);
    pin_tool_config_free(&config);
    (void)good;
    return finish(&store, values, name, &err);
}

static int run_get(const struct pin_invocation *invocation) {
    const struct config_values *values = invocation->values;
    struct pin_config_store store = PIN_CONFIG_STORE_NONE;
    struct pin_error err = {0};
    const char *name = invocation->argument_count > 0 ? invocation->arguments[0] : NULL;
    int code =
        config_open(&store, values, &err) ? show(&store, values, name) : pin_report(&err, values->json);
    pin_config_store_close(&store);
    return code;
}

static void see_row(void *self, const struct pin_config_row *row) {
    char changed[32] = "?";
    struct tm broken;
    time_t seconds = row->changed_s;
    if (self != NULL) {
        (void)json_array_append_new(
            self, json_pack("{s:s, s:s, s:s?, s:b, s:I, s:I}", "organisation", row->organisation, "name",
                            row->name, "description", row->description, "default", (int)row->is_default,
                            "variables", (json_int_t)row->variables, "changed", (json_int_t)row->changed_s));
        return;
    }
    if (gmtime_r(&seconds, &broken) != NULL)
        (void)strftime(changed, sizeof(changed), "%Y-%m-%d %H:%M", &broken);
    (void)printf("%-20s %c%-24s %4llu  %s  ", row->organisation, row->is_default ? '*' : ' ', row->name,
                 (unsigned long long)row->variables, changed);
    (void)puts(config_safe(row->description != NULL ? row->description : ""));
}

static int run_list(const struct pin_invocation *invocation) {
    const struct config_values *values = invocation->values;
    struct pin_config_store store = PIN_CONFIG_STORE_NONE;
    struct pin_error err = {0};
    json_t *list = values->json ? json_array() : NULL;
    const char *organisation = values->all ? NULL : config_organisation(values);
    if (config_open(&store, values, &err)) {
        if (list == NULL)
            (void)printf("%-20s  %-24s %4s  %-16s  %s\n", "ORGANISATION", "NAME", "VARS", "CHANGED (UTC)",
                         "DESCRIPTION");
        (void)pin_config_store_list(&store, organisation, see_row, list, &err);
    }
    pin_config_store_close(&store);
    if (pin_is_set(&err)) {
        json_decref(list);
        return pin_report(&err, values->json);
    }
    if (list != NULL)
        config_print(json_pack("{s:o}", "configurations", list));
    return 0;
}

struct change {
    const char *file, *text;
    size_t size;
    bool replace;
};

static char *apply_change(void *self, const char *before, struct pin_findings *found) {
    const struct change *change = self;
    struct pin_tool_config config = {0};
    PIN_FREE char *patched =
        change->replace ? NULL
                        : pin_tool_config_patch(before, change->file, change->text, change->size, found);
    const char *text = change->replace ? change->text : patched;
    char *after = NULL;
    if (text != NULL && pin_tool_config_parse(&config, change->file, text,
                                              change->replace ? change->size : strlen(text), found))
        after = strdup(config.text);
    pin_tool_config_free(&config);
    return after;
}

static int run_update(const struct pin_invocation *invocation) {
    const struct config_values *values = invocation->values;
    struct pin_config_store store = PIN_CONFIG_STORE_NONE;
    struct pin_error err = {0};
    static struct pin_findings found;
    struct change change = {.file = invocation->arguments[1], .replace = values->replace};
    PIN_FREE char *text = read_content(change.file, &change.size, &err);
    change.text = text;
    if (text == NULL || !config_open(&store, values, &err)) {
        pin_config_store_close(&store);
        return pin_report(&err, values->json);
    }
    if (pin_config_store_update(&store, config_organisation(values), invocation->arguments[0], apply_change,
                                &change, &found))
        return finish(&store, values, invocation->arguments[0], &err);
    pin_config_store_close(&store);
    return pin_report_findings(&found, values->json);
}

static int run_delete(const struct pin_invocation *invocation) {
    const struct config_values *values = invocation->values;
    struct pin_config_store store = PIN_CONFIG_STORE_NONE;
    struct pin_error err = {0};
    bool good = pin_config_store_open(&store, PIN_CONFIG_CHECK, &err) &&
                pin_config_store_delete(&store, config_organisation(values), invocation->arguments[0], &err);
    pin_config_store_close(&store);
    if (good && values->json)
        config_print(json_pack("{s:s, s:s}", "organisation", config_organisation(values), "deleted",
                               invocation->arguments[0]));
    return good ? 0 : pin_report(&err, values->json);
}

static int run_default(const struct pin_invocation *invocation) {
    const struct config_values *values = invocation->values;
    struct pin_config_store store = PIN_CONFIG_STORE_NONE;
    struct pin_error err = {0};
    const char *name = invocation->argument_count > 0 ? invocation->arguments[0] : NULL;
    bool good =
        config_open(&store, values, &err) &&
        (name == NULL || pin_config_store_set_default(&store, config_organisation(values), name, &err));
    int code = good ? show(&store, values, NULL) : pin_report(&err, values->json);
    pin_config_store_close(&store);
    return code;
}

#define VERB(verb, words, form, least, most, about, text, shown)                                             \
    const struct pin_verb pin_config_verb_##verb = {.name = "config " #verb,                                 \
                                                    .synopsis = (form),                                      \
                                                    .summary = (about),                                      \
                                                    .description = (text),                                   \
                                                    .example = "  pinfold config " shown,                    \
                                                    .options = (words),                                      \
                                                    .option_count = PIN_COUNT(words),                        \
                                                    .values_size = sizeof(struct config_values),             \
                                                    .least_arguments = (least),                              \
                                                    .most_arguments = (most),                                \
                                                    .run = run_##verb}

VERB(create, create_options, "NAME [FILE|-]", 1, 2, "make a configuration of tool calls",
     "The file is a JSON object with policy, privileged_policy, image, egress, memory, cpus, pids, timeout, "
     "pip_requirements, npm_requirements, pip_index, npm_registry, index_hosts and description, each of "
     "which may be "
     "left out. An unknown key is an error. Variables are set with 'pinfold env set'.",
     "create web --default web.json");
VERB(get, common_options, "[NAME]", 0, 1, "show a configuration, or the default",
     "Without a name the organisation's default, which is made where there is none.", "get web --json");
VERB(list, list_options, "", 0, 0, "list configurations", "A star marks the default.", "list --all");
VERB(update, update_options, "NAME FILE|-", 2, 2, "change a configuration",
     "The keys of the file are laid over the configuration's, and null takes a key away. Calls have another "
     "fingerprint afterwards, so that no sandbox made before is used again.",
     "update web - <<< '{\"memory\": \"1GiB\"}'");
VERB(delete, common_options, "NAME", 1, 1, "delete a configuration and its variables", NULL, "delete web");
VERB(default, common_options, "[NAME]", 0, 1, "show or choose the default configuration of an organisation",
     NULL, "default web");
