#include "tools/pinfold-tool/configure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tool/config_store.h"

/* What the command line says and what the request says can't both be meant where they differ. */
static const char *choose(const char *given, const char *asked, const char *pointer, const char *option,
                          struct pin_findings *found) {
    if (given != NULL && asked != NULL && strcmp(given, asked) != 0)
        (void)pin_find(found, PIN_ERROR_REFUSED, pointer, "leave it out of the request",
                       "the request asks for '%.60s', and %s says '%.60s'", asked, option, given);
    return given != NULL ? given : asked;
}

/* Nobody has ever stored one, or has a place for them. */
static bool is_absent(const struct pin_error *err) {
    return (err->kind == PIN_ERROR_NOT_FOUND && err->os_errno == ENOENT) ||
           (err->kind == PIN_ERROR_USAGE && secure_getenv("PINFOLD_CONFIG") == NULL);
}

static bool read_default(struct pin_config_store *store, const char *organisation,
                         struct pin_tool_config *config, struct pin_error *err) {
    if (pin_config_store_get(store, organisation, NULL, config, err))
        return true;
    if (err->kind != PIN_ERROR_NOT_FOUND)
        return false;
    pin_error_clear(err);
    return pin_config_store_ensure(store, organisation, err) &&
           pin_config_store_get(store, organisation, NULL, config, err);
}

static bool read_store(struct pin_tool_config *config, const char *organisation, const char *name,
                       struct pin_error *err) {
    struct pin_config_store store = PIN_CONFIG_STORE_NONE;
    const char *whose = organisation != NULL ? organisation : PIN_TOOL_DEFAULT_ORGANISATION;
    bool implied = organisation == NULL && name == NULL;
    enum pin_config_open how = organisation != NULL && name == NULL ? PIN_CONFIG_WRITE : PIN_CONFIG_READ;
    if (!pin_config_store_open(&store, how, err)) {
        if (!is_absent(err))
            return false;
        pin_error_clear(err);
        return implied || pin_fail(err, PIN_ERROR_NOT_FOUND, "there is no configuration '%.60s' of '%.60s'",
                                   name != NULL ? name : PIN_TOOL_DEFAULT_CONFIG, whose);
    }
    bool good = name != NULL ? pin_config_store_get(&store, whose, name, config, err)
                             : read_default(&store, whose, config, err);
    pin_config_store_close(&store);
    return good;
}

/* What the language of the call can import. Packages of the other one are for programs that the tool starts:
 * they are installed where the tool itself asks for them. */
static enum pin_installer own_installer(const struct pin_tool_request *request) {
    return request->language == PIN_TOOL_PYTHON ? PIN_INSTALLER_PIP : PIN_INSTALLER_NPM;
}

bool pin_call_configure(struct pin_call_config *config, const struct pin_tool_request *request,
                        const char *organisation, const char *name, struct pin_arena *arena,
                        struct pin_findings *found) {
    struct pin_error err = {0};
    organisation = choose(organisation, request->organisation, "/organisation", "--organisation", found);
    name = choose(name, request->configuration, "/configuration", "--configuration", found);
    if (pin_found_any(found))
        return false;
    if (!read_store(&config->stored, organisation, name, &err)) {
        (void)pin_wrap(&err, "the configuration");
        (void)pin_point(&err, "/configuration");
        pin_find_error(found, &err);
        return false;
    }
    for (size_t i = 0; i < PIN_INSTALLER_COUNT; i++)
        if (i == own_installer(request) || request->requirements[i].count > 0)
            pin_requirements_merge(&config->stored.requirements[i], &request->requirements[i], arena,
                                   &config->requirements[i]);
    return true;
}

static bool choose_privileged(const struct pin_tool_config *stored, const struct pin_tool_request *request,
                              struct pin_front_options *front, struct pin_findings *found) {
    if (front->policy != NULL || request->policy != NULL)
        (void)pin_find(
            found, PIN_ERROR_REFUSED, "/privileged", "leave the policy out",
            "a privileged tool runs by the configuration's privileged policy, and another is named");
    else if (stored->privileged_policy == NULL)
        (void)pin_find(found, PIN_ERROR_REFUSED, "/privileged",
                       "set privileged_policy with 'pinfold config update'",
                       "the configuration '%.60s' has no policy for privileged tools",
                       stored->name != NULL ? stored->name : PIN_TOOL_DEFAULT_CONFIG);
    else
        front->policy = stored->privileged_policy;
    return !pin_found_any(found);
}

static bool choose_policy(const struct pin_tool_config *stored, const struct pin_tool_request *request,
                          struct pin_front_options *front, struct pin_findings *found) {
    if (request->privileged)
        return choose_privileged(stored, request, front, found);
    front->policy = choose(front->policy, request->policy, "/policy", "--policy", found);
    if (front->policy == NULL)
        front->policy = stored->policy;
    return !pin_found_any(found);
}

static void number(struct pin_number *slot, bool has, uint64_t value) {
    if (has && !slot->given)
        *slot = (struct pin_number){true, value};
}

/* Both may ask for destinations; the policy grants. */
static void add_egress(const struct pin_tool_config *stored, struct pin_arena *arena,
                       struct pin_front_options *front) {
    size_t count = front->egress.count;
    const char **items = pin_arena_array(arena, count + stored->egress_count + 1, sizeof(*items));
    for (size_t i = 0; i < count; i++)
        items[i] = front->egress.items[i];
    for (size_t i = 0; i < stored->egress_count; i++)
        items[count + i] = stored->egress[i];
    front->egress = (struct pin_texts){items, count + stored->egress_count};
}

bool pin_call_apply_config(const struct pin_call_config *config, const struct pin_tool_request *request,
                           struct pin_arena *arena, struct pin_front_options *front,
                           struct pin_findings *found) {
    const struct pin_tool_config *stored = &config->stored;
    if (front->image == NULL)
        front->image = stored->image;
    front->letta_frames = stored->letta_frames;
    number(&front->memory, stored->has_memory, stored->memory_bytes);
    number(&front->cpus, stored->has_cpus, stored->millicpus);
    number(&front->pids, stored->has_pids, stored->pids);
    number(&front->timeout, stored->has_timeout, stored->timeout_ns);
    add_egress(stored, arena, front);
    return choose_policy(stored, request, front, found);
}

bool pin_call_has_requirements(const struct pin_call_config *config) {
    return config->requirements[PIN_INSTALLER_PIP].count + config->requirements[PIN_INSTALLER_NPM].count > 0;
}

void pin_call_config_free(struct pin_call_config *config) {
    pin_tool_config_free(&config->stored);
    *config = (struct pin_call_config){0};
}
