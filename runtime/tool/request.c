#include "runtime/tool/request.h"

#include <math.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/tool/args.h"

static const char *const languages[] = {
    [PIN_TOOL_PYTHON] = "python",
    [PIN_TOOL_TYPESCRIPT] = "typescript",
    [PIN_TOOL_JAVASCRIPT] = "javascript",
};
_Static_assert(PIN_COUNT(languages) == PIN_TOOL_LANGUAGE_COUNT, "every language has a name");

static const char *const reuses[] = {
    [PIN_TOOL_REUSE_COLD] = "cold",
    [PIN_TOOL_REUSE_NEVER] = "never",
    [PIN_TOOL_REUSE_FINGERPRINT] = "fingerprint",
};
_Static_assert(PIN_COUNT(reuses) == PIN_TOOL_REUSE_COUNT, "every kind of reuse has a name");

static const char *const layer_names[] = {
    [PIN_TOOL_ENV_SANDBOX] = "sandbox",
    [PIN_TOOL_ENV_AGENT] = "agent",
    [PIN_TOOL_ENV_CALL] = "call",
};
_Static_assert(PIN_COUNT(layer_names) == PIN_TOOL_LAYER_COUNT, "every layer has a name");

struct field {
    const char *key;
    void (*take)(struct pin_tool_request *request, json_t *value, struct pin_findings *found);
};

static void wrong(struct pin_findings *found, const char *pointer, const char *wanted) {
    (void)pin_find(found, PIN_ERROR_INVALID, pointer, NULL, "the field must be %s", wanted);
}

static const char *text_of(json_t *value, const char *pointer, struct pin_findings *found) {
    if (!json_is_string(value))
        wrong(found, pointer, "a string");
    return json_string_value(value);
}

/* A name from a fixed list; `fallback` with a finding where it is none of them. */
static int choice_of(json_t *value, const char *pointer, const char *const *names, size_t count,
                     struct pin_findings *found) {
    const char *text = text_of(value, pointer, found);
    int index = text == NULL ? 0 : pin_name_find(names, count, text);
    if (index >= 0)
        return index;
    const char *near = pin_name_suggest(names, count, text);
    (void)pin_find(found, PIN_ERROR_INVALID, pointer, NULL, "'%.60s' isn't one of the choices here (%s is)",
                   text, near != NULL ? near : names[0]);
    return 0;
}

static void take_language(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    request->language =
        (enum pin_tool_language)choice_of(value, "/language", languages, PIN_COUNT(languages), found);
}

static void take_source(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    request->source = text_of(value, "/source", found);
}

/* An identifier of both languages, as far as ASCII goes; what it names is looked for inside. */
static bool is_function_name(const char *name) {
    return name[0] != '\0' && strlen(name) <= 255 && strchr("0123456789", name[0]) == NULL &&
           strpbrk(name, " \t\r\n\"'`\\/.,;:(){}[]<>=+-*%&|^~!?@#") == NULL;
}

static void take_name(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    request->name = text_of(value, "/name", found);
}

static void take_args(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    if (json_is_object(value))
        request->args = json_incref(value);
    else
        wrong(found, "/args", "an object: argument names and their values");
}

static void take_schema(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    if (json_is_object(value))
        request->schema = value;
    else
        wrong(found, "/json_schema", "an object");
}

static void take_call(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    static const char *const ways[] = {"positional", "named"};
    request->named = choice_of(value, "/call", ways, PIN_COUNT(ways), found) == 1;
}

static void take_agent_id(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    request->agent_id = text_of(value, "/agent_id", found);
}

static void take_project_id(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    request->project_id = text_of(value, "/project_id", found);
}

static void take_tool_id(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    request->tool_id = text_of(value, "/tool_id", found);
}

static void take_state(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    (void)found;
    request->agent_state = value;
}

static void take_state_encoding(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    static const char *const encodings[] = {"json", "pickle"};
    request->pickled = choice_of(value, "/agent_state_encoding", encodings, PIN_COUNT(encodings), found) == 1;
}

static void check_layer(const char *layer, json_t *values, struct pin_findings *found) {
    char pointer[96];
    const char *name;
    json_t *value;
    json_object_foreach(values, name, value) {
        (void)snprintf(pointer, sizeof(pointer), "/env/%s/%.60s", layer, name);
        if (!pin_is_variable(name))
            (void)pin_find(found, PIN_ERROR_INVALID, pointer, "name it without '=' and control characters",
                           "this is no variable's name");
        if (!json_is_string(value) && !json_is_null(value))
            wrong(found, pointer, "a string, or null to take the variable away");
    }
}

static void take_env(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    const char *name;
    json_t *values;
    if (!json_is_object(value))
        wrong(found, "/env", "an object with 'sandbox', 'agent' and 'call'");
    json_object_foreach(value, name, values) {
        int layer = pin_name_find(layer_names, PIN_COUNT(layer_names), name);
        if (layer < 0)
            (void)pin_find(found, PIN_ERROR_INVALID, "/env", "write 'sandbox', 'agent' or 'call'",
                           "there is no layer '%.60s'", name);
        else if (json_is_null(values))
            continue;
        else if (!json_is_object(values))
            wrong(found, "/env", "an object of objects");
        else {
            check_layer(name, values, found);
            request->env[layer] = values;
        }
    }
}

static void take_labels(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    const char *name;
    json_t *label;
    if (!json_is_object(value))
        wrong(found, "/labels", "an object");
    json_object_foreach(value, name, label) {
        if (!json_is_string(label) || name[0] == '\0' || strchr(name, '=') != NULL)
            wrong(found, "/labels", "an object of names and strings");
    }
    request->labels = value;
}

static void take_timeout(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    double seconds = json_number_value(value);
    bool ok = json_is_string(value) ? pin_parse_time(json_string_value(value), &request->timeout_ns)
                                    : json_is_number(value) && seconds >= 0.001 && seconds <= 1e9;
    if (ok && json_is_number(value))
        request->timeout_ns = (uint64_t)(seconds * (double)PIN_NS_PER_S);
    if (!ok || request->timeout_ns == 0)
        (void)pin_find(found, PIN_ERROR_INVALID, "/timeout", "write \"30s\", or seconds as a number",
                       "the field must be a time above 0");
}

/* Whoever sends requests may choose among installed policies, and not bring one. */
static void take_policy(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    request->policy = text_of(value, "/policy", found);
    if (request->policy != NULL && !pin_is_name(request->policy))
        (void)pin_find(found, PIN_ERROR_INVALID, "/policy", "name a file with --policy instead",
                       "the field must be the name of a built-in or installed policy");
}

/* "NAME==1.0", or {"name": "NAME", "version": "1.0"}. In the request's arena; NULL with a finding. */
static const char *requirement_text(struct pin_tool_request *request, enum pin_installer installer,
                                    json_t *item, const char *pointer, struct pin_findings *found) {
    const char *name = NULL, *version = NULL, *between = installer == PIN_INSTALLER_PIP ? "==" : "@";
    if (json_is_string(item))
        return json_string_value(item);
    if (!json_is_object(item) || json_unpack(item, "{s:s, s?s !}", "name", &name, "version", &version) != 0) {
        wrong(found, pointer, "a string, or an object with 'name' and 'version'");
        return NULL;
    }
    return pin_arena_printf(&request->arena, "%s%s%s", name, version != NULL ? between : "",
                            version != NULL ? version : "");
}

static void take_requirements(struct pin_tool_request *request, enum pin_installer installer,
                              const char *field, json_t *value, struct pin_findings *found) {
    struct pin_requirements list = {0}, none = {0};
    size_t index;
    json_t *item;
    if (!json_is_array(value) || json_array_size(value) > PIN_REQUIREMENTS_MAX) {
        wrong(found, field, "a list of at most 256 requirements");
        return;
    }
    json_array_foreach(value, index, item) {
        char pointer[64];
        struct pin_error err = {0};
        struct pin_requirement one;
        (void)snprintf(pointer, sizeof(pointer), "%s/%zu", field, index);
        const char *text = requirement_text(request, installer, item, pointer, found);
        if (text == NULL)
            continue;
        if (pin_requirement_parse(installer, text, &request->arena, &one, &err))
            *(struct pin_requirement *)pin_arena_grow(&request->arena, &list.items, &list.count,
                                                      sizeof(one)) = one;
        else
            (void)pin_find(found, err.kind, pointer, err.hint, "%s", err.message);
    }
    pin_requirements_merge(&none, &list, &request->arena, &request->requirements[installer]);
}

static void take_pip(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    take_requirements(request, PIN_INSTALLER_PIP, "/pip_requirements", value, found);
}

static void take_npm(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    take_requirements(request, PIN_INSTALLER_NPM, "/npm_requirements", value, found);
}

/* A name; "" is none. */
static const char *name_of(json_t *value, const char *pointer, struct pin_findings *found) {
    const char *text = text_of(value, pointer, found);
    if (text == NULL || text[0] == '\0')
        return NULL;
    if (!pin_is_name(text))
        wrong(found, pointer, "a name: letters, digits, '_', '.' and '-', at most 63");
    return text;
}

static void take_organisation(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    request->organisation = name_of(value, "/organisation", found);
}

static void take_configuration(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    request->configuration = name_of(value, "/configuration", found);
}

static void take_privileged(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    request->privileged = json_is_true(value);
    if (!json_is_boolean(value))
        wrong(found, "/privileged", "true or false");
}

static void take_reuse(struct pin_tool_request *request, json_t *value, struct pin_findings *found) {
    const char *name = text_of(value, "/reuse", found);
    int at = name == NULL ? -1 : pin_name_find(reuses, PIN_COUNT(reuses), name);
    if (at >= 0)
        request->reuse = (enum pin_tool_reuse)at;
    else if (name != NULL)
        wrong(found, "/reuse", "\"cold\", \"never\" or \"fingerprint\"");
}

static const struct field fields[] = {
    {"language",             take_language      },
    {"source",               take_source        },
    {"name",                 take_name          },
    {"args",                 take_args          },
    {"json_schema",          take_schema        },
    {"call",                 take_call          },
    {"agent_id",             take_agent_id      },
    {"project_id",           take_project_id    },
    {"tool_id",              take_tool_id       },
    {"agent_state",          take_state         },
    {"agent_state_encoding", take_state_encoding},
    {"env",                  take_env           },
    {"labels",               take_labels        },
    {"timeout",              take_timeout       },
    {"policy",               take_policy        },
    {"pip_requirements",     take_pip           },
    {"npm_requirements",     take_npm           },
    {"organisation",         take_organisation  },
    {"configuration",        take_configuration },
    {"reuse",                take_reuse         },
    {"privileged",           take_privileged    },
};

static void take_field(struct pin_tool_request *request, const char *key, json_t *value,
                       struct pin_findings *found) {
    const char *names[PIN_COUNT(fields)];
    for (size_t i = 0; i < PIN_COUNT(fields); i++) {
        names[i] = fields[i].key;
        if (strcmp(fields[i].key, key) != 0)
            continue;
        if (!json_is_null(value)) /* the same as left out */
            fields[i].take(request, value, found);
        return;
    }
    const char *near = pin_name_suggest(names, PIN_COUNT(names), key);
    (void)pin_find(found, PIN_ERROR_INVALID, "", NULL, "there is no field '%.60s'%s%s%s", key,
                   near != NULL ? " (did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?)" : "");
}

static void check_state(const struct pin_tool_request *request, struct pin_findings *found) {
    if (request->language != PIN_TOOL_PYTHON && request->agent_state != NULL)
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/agent_state", NULL,
                       "only Python tools are given an agent state");
    else if (request->pickled && request->agent_state != NULL && !json_is_string(request->agent_state))
        wrong(found, "/agent_state", "a string in base64, as 'agent_state_encoding' says");
}

static void check_whole(struct pin_tool_request *request, struct pin_findings *found) {
    if (request->source == NULL)
        (void)pin_find(found, PIN_ERROR_INVALID, "/source", NULL, "the field is required");
    if (request->name == NULL && request->schema != NULL)
        request->name = pin_tool_schema_name(request->schema);
    if (request->name == NULL || !is_function_name(request->name))
        (void)pin_find(found, PIN_ERROR_INVALID, "/name", NULL, "the field must be the name of a function");
    if (request->named && request->language == PIN_TOOL_PYTHON)
        (void)pin_find(found, PIN_ERROR_INVALID, "/call", "leave the field out",
                       "arguments of Python functions always go by name");
    check_state(request, found);
}

static bool convert_args(struct pin_tool_request *request, struct pin_findings *found) {
    if (request->args == NULL)
        request->args = json_object();
    if (request->schema == NULL)
        return true;
    json_t *converted = pin_tool_args_convert(request->schema, request->args, found);
    if (converted == NULL)
        return false;
    json_decref(request->args);
    request->args = converted;
    return true;
}

bool pin_tool_request_parse(struct pin_tool_request *request, const char *text, size_t size,
                            struct pin_findings *found) {
    json_error_t fault;
    const char *key;
    json_t *value;
    request->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &fault);
    if (!json_is_object(request->json)) {
        (void)pin_find(found, PIN_ERROR_SYNTAX, "", NULL, "the request is no JSON object: %.120s (line %d)",
                       request->json == NULL ? fault.text : "it is a list",
                       request->json == NULL ? fault.line : 1);
        return false;
    }
    if (json_object_get(request->json, "language") == NULL)
        (void)pin_find(found, PIN_ERROR_INVALID, "/language", NULL, "the field is required");
    json_object_foreach(request->json, key, value) take_field(request, key, value, found);
    check_whole(request, found);
    return !pin_found_any(found) && convert_args(request, found);
}

void pin_tool_request_free(struct pin_tool_request *request) {
    json_decref(request->args);
    json_decref(request->json);
    pin_arena_free(&request->arena);
    *request = (struct pin_tool_request){0};
}

static json_t *or_null(const json_t *value) {
    return value == NULL ? json_null() : json_deep_copy(value);
}

static json_t *text_or_null(const char *text) {
    return text == NULL ? json_null() : json_string(text);
}

/* Names of the schema's arguments in their order, for languages that call by position. */
static json_t *parameter_names(const struct pin_tool_request *request) {
    json_t *properties =
        request->schema == NULL ? NULL : json_object_get(pin_tool_schema_of(request->schema), "properties");
    json_t *names = properties == NULL ? json_null() : json_array();
    const char *name;
    json_t *ignored;
    json_object_foreach(properties, name, ignored)(void) json_array_append_new(names, json_string(name));
    return names;
}

char *pin_tool_request_packet(const struct pin_tool_request *request, const char *key, const json_t *env) {
    json_t *packet =
        json_pack("{s:s, s:o, s:s, s:s, s:s, s:O, s:o, s:s, s:o, s:o, s:b}", "key", key, "env", or_null(env),
                  "language", languages[request->language], "source", request->source, "name", request->name,
                  "args", request->args, "agent_state", or_null(request->agent_state), "agent_state_encoding",
                  request->pickled ? "pickle" : "json", "agent_id", text_or_null(request->agent_id),
                  "parameters", parameter_names(request), "named", (int)request->named);
    char *text = packet == NULL ? NULL : json_dumps(packet, JSON_COMPACT);
    json_decref(packet);
    return text;
}
