#include "runtime/kept/request.h"

#include <jansson.h>
#include <string.h>

#include "base/names.h"
#include "runtime/kept/wire.h"

#define TIME_MAX_MS (UINT64_C(366) * 24 * 3600 * 1000)

static const char *const verb_names[] = {
    [PIN_KEPT_EXEC] = "exec",       [PIN_KEPT_SIGNAL] = "signal", [PIN_KEPT_END] = "end",
    [PIN_KEPT_RESIZE] = "resize",   [PIN_KEPT_SHOW] = "show",     [PIN_KEPT_STATS] = "stats",
    [PIN_KEPT_PAUSE] = "pause",     [PIN_KEPT_RESUME] = "resume", [PIN_KEPT_STOP] = "stop",
    [PIN_KEPT_KILL] = "kill",       [PIN_KEPT_WAIT] = "wait",     [PIN_KEPT_RENEW] = "renew",
    [PIN_KEPT_ROOT] = "root",       [PIN_KEPT_LEND] = "lend",     [PIN_KEPT_ATTACH] = "attach",
    [PIN_KEPT_CHANGES] = "changes", [PIN_KEPT_CALL] = "call",     [PIN_KEPT_EGRESS] = "egress",
};
_Static_assert(PIN_COUNT(verb_names) == PIN_KEPT_VERB_COUNT, "every verb has a name");

static const char *const output_names[] = {
    [PIN_OUTPUT_PASS] = "pass",
    [PIN_OUTPUT_CAPTURE] = "capture",
    [PIN_OUTPUT_STREAM] = "stream",
};
_Static_assert(PIN_COUNT(output_names) == PIN_OUTPUT_COUNT, "every kind of output has a name");

static const struct {
    const char *name;
    uint32_t frames;
} frame_places[] = {
    {"none",         PIN_FRAMES_NONE        },
    {"fd",           PIN_FRAMES_FD          },
    {"stdout",       PIN_FRAMES_STDOUT      },
    {"stdout-letta", PIN_FRAMES_STDOUT_LETTA},
};

const char *pin_kept_verb_name(enum pin_kept_verb verb) {
    return (size_t)verb < PIN_COUNT(verb_names) ? verb_names[verb] : NULL;
}

enum type { TYPE_NUMBER, TYPE_FLAG, TYPE_TEXT, TYPE_LIST, TYPE_NUMBERS, TYPE_MAP, TYPE_OUTPUT, TYPE_FRAMES };

struct field {
    const char *key;
    enum type type;
    uint32_t verbs;     /* set of 1u << verb */
    uint64_t most;      /* of a NUMBER */
    size_t offset, has; /* `has`: of a bool that is set, or of the count of a list; 0: none */
};

#define SEALED_MOST 1024
#define ALL UINT32_MAX
#define OF(verb) (1u << PIN_KEPT_##verb)
#define AT(member) offsetof(struct pin_kept_request, member)
#define OF_ONE_EXEC (OF(SIGNAL) | OF(END) | OF(RESIZE) | OF(WAIT) | OF(ATTACH))
/* clang-format off */
static const struct field fields[] = {
    {"id",          TYPE_NUMBER,  ALL,                   INT64_MAX,   AT(id),          0               },
    {"exec",        TYPE_NUMBER,  OF_ONE_EXEC,           UINT32_MAX,  AT(exec),        0               },
    {"signal",      TYPE_NUMBER,  OF(SIGNAL),            64,          AT(signal),      0               },
    {"rows",        TYPE_NUMBER,  OF(EXEC) | OF(RESIZE), UINT16_MAX,  AT(rows),        0               },
    {"columns",     TYPE_NUMBER,  OF(EXEC) | OF(RESIZE), UINT16_MAX,  AT(columns),     0               },
    {"timeout_ms",  TYPE_NUMBER,  OF(EXEC) | OF(CALL),   TIME_MAX_MS, AT(timeout_ms),  AT(has_timeout) },
    {"grace_ms",    TYPE_NUMBER,  OF(STOP),              TIME_MAX_MS, AT(grace_ms),    AT(has_grace)   },
    {"idle_ms",     TYPE_NUMBER,  OF(RENEW) | OF(EXEC),  TIME_MAX_MS, AT(idle_ms),     AT(has_idle)    },
    {"lifetime_ms", TYPE_NUMBER,  OF(RENEW) | OF(EXEC),  TIME_MAX_MS, AT(lifetime_ms), AT(has_lifetime)},
    {"since",       TYPE_NUMBER,  OF(ATTACH),            INT64_MAX,   AT(since),       0               },
    {"args",        TYPE_LIST,    OF(EXEC),              0,           AT(args),        AT(arg_count)   },
    {"env",         TYPE_MAP,     OF(EXEC),              0,           AT(env),         AT(env_count)   },
    {"secrets",     TYPE_LIST,    OF(EXEC),              0,           AT(secrets),     AT(secret_count)},
    {"cwd",         TYPE_TEXT,    OF(EXEC),              0,           AT(cwd),         0               },
    {"user",        TYPE_TEXT,    OF(EXEC),              0,           AT(user),        0               },
    {"frames",      TYPE_FRAMES,  OF(EXEC),              0,           AT(frames),      0               },
    {"stdin",       TYPE_FLAG,    OF(EXEC) | OF(ATTACH), 0,           AT(input),       0               },
    {"stdout",      TYPE_FLAG,    OF(EXEC) | OF(ATTACH), 0,           AT(out),         0               },
    {"stderr",      TYPE_FLAG,    OF(EXEC) | OF(ATTACH), 0,           AT(err),         0               },
    {"lent",        TYPE_NUMBERS, OF(EXEC) | OF(ATTACH), INT64_MAX,   AT(lent),        AT(lent_count)  },
    {"key",         TYPE_TEXT,    OF(CALL),              0,           AT(key),         0               },
    {"if_idle",     TYPE_FLAG,    OF(CALL),              0,           AT(if_idle),     0               },
    {"sealed",      TYPE_NUMBER,  OF(CALL),              SEALED_MOST, AT(sealed),      0               },
    {"tty",         TYPE_FLAG,    OF(EXEC),              0,           AT(tty),         0               },
    {"context",     TYPE_FLAG,    OF(EXEC),              0,           AT(context),     0               },
    {"hand",        TYPE_FLAG,    OF(EXEC),              0,           AT(hand),        0               },
    {"cell_of",     TYPE_NUMBER,  OF(EXEC),              UINT32_MAX,  AT(cell_of),     0               },
    {"detach",      TYPE_FLAG,    OF(EXEC),              0,           AT(detach),      0               },
    {"interactive", TYPE_FLAG,    OF(EXEC),              0,           AT(interactive), 0               },
    {"hold",        TYPE_FLAG,    OF(PAUSE),             0,           AT(hold),        0               },
    {"rules", TYPE_TEXT, OF(EGRESS), 0, AT(rules), 0},
    {"add", TYPE_LIST, OF(EGRESS), 0, AT(add), AT(add_count)},
    {"remove", TYPE_LIST, OF(EGRESS), 0, AT(remove), AT(remove_count)},
    {"unpublish", TYPE_LIST, OF(EGRESS), 0, AT(unpublish), AT(unpublish_count)},
    {"output",      TYPE_OUTPUT,  OF(EXEC) | OF(ATTACH), 0,           AT(output),      0               },
};
/* clang-format on */

static bool wrong(struct pin_error *err, const char *key, const char *what) {
    (void)pin_fail(err, PIN_ERROR_INVALID, "'%.40s' %s", key, what);
    return pin_point(err, "/%.60s", key);
}

static bool take_number(const struct field *field, const json_t *value, void *to, struct pin_error *err) {
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number > field->most)
        return wrong(err, field->key, "must be a whole number in its range");
    *(uint64_t *)to = (uint64_t)number;
    return true;
}

/* jansson refuses a zero byte in a string unless it is asked to allow it. */
static bool take_list(struct pin_kept_request *request, const struct field *field, const json_t *value,
                      struct pin_error *err) {
    size_t count = json_array_size(value);
    if (!json_is_array(value))
        return wrong(err, field->key, "must be a list of strings");
    const char **list = pin_arena_array(&request->arena, count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(value, i));
        if (text == NULL)
            return wrong(err, field->key, "must be a list of strings");
        list[i] = pin_arena_strdup(&request->arena, text);
    }
    *(const char ***)((char *)request + field->offset) = list;
    *(size_t *)((char *)request + field->has) = count;
    return true;
}

static bool take_numbers(struct pin_kept_request *request, const struct field *field, const json_t *value,
                         struct pin_error *err) {
    uint64_t *numbers = (uint64_t *)((char *)request + field->offset);
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count > PIN_KEPT_FDS_MAX)
        return wrong(err, field->key, "must be a list of up to 3 numbers");
    for (size_t i = 0; i < count; i++)
        if (!take_number(field, json_array_get(value, i), &numbers[i], err))
            return false;
    *(size_t *)((char *)request + field->has) = count;
    return true;
}

static bool take_map(struct pin_kept_request *request, const struct field *field, json_t *value,
                     struct pin_error *err) {
    const char *key;
    json_t *item;
    size_t count = 0;
    if (!json_is_object(value))
        return wrong(err, field->key, "must be an object of strings");
    const char **list = pin_arena_array(&request->arena, json_object_size(value) + 1, sizeof(*list));
    json_object_foreach(value, key, item) {
        if (!json_is_string(item) || key[0] == '\0' || strchr(key, '=') != NULL)
            return wrong(err, field->key, "must be an object of strings, and no name empty or with a '='");
        list[count++] = pin_arena_printf(&request->arena, "%s=%s", key, json_string_value(item));
    }
    *(const char ***)((char *)request + field->offset) = list;
    *(size_t *)((char *)request + field->has) = count;
    return true;
}

static bool take_output(const struct field *field, const json_t *value, void *to, struct pin_error *err) {
    int found = json_is_string(value)
                    ? pin_name_find(output_names, PIN_COUNT(output_names), json_string_value(value))
                    : -1;
    if (found < 0)
        return wrong(err, field->key, "must be 'pass', 'capture' or 'stream'");
    *(enum pin_output *)to = (enum pin_output)found;
    return true;
}

static bool take_frames(const struct field *field, const json_t *value, void *to, struct pin_error *err) {
    for (size_t i = 0; json_is_string(value) && i < PIN_COUNT(frame_places); i++)
        if (strcmp(frame_places[i].name, json_string_value(value)) == 0) {
            *(uint32_t *)to = frame_places[i].frames;
            return true;
        }
    return wrong(err, field->key, "must be 'none', 'fd', 'stdout' or 'stdout-letta'");
}

static bool take(struct pin_kept_request *request, const struct field *field, json_t *value,
                 struct pin_error *err) {
    char *to = (char *)request + field->offset;
    switch (field->type) {
    case TYPE_NUMBER:
        if (field->has != 0)
            *(bool *)((char *)request + field->has) = true;
        return take_number(field, value, to, err);
    case TYPE_FLAG:
        *(bool *)to = json_is_true(value);
        return json_is_boolean(value) || wrong(err, field->key, "must be true or false");
    case TYPE_TEXT:
        if (!json_is_string(value))
            return wrong(err, field->key, "must be a string");
        *(const char **)to = pin_arena_strdup(&request->arena, json_string_value(value));
        return true;
    case TYPE_LIST: return take_list(request, field, value, err);
    case TYPE_NUMBERS: return take_numbers(request, field, value, err);
    case TYPE_MAP: return take_map(request, field, value, err);
    case TYPE_OUTPUT: return take_output(field, value, to, err);
    case TYPE_FRAMES: return take_frames(field, value, to, err);
    }
    abort();
}

static bool take_field(struct pin_kept_request *request, const char *key, json_t *value,
                       struct pin_error *err) {
    if (strcmp(key, "pinfold") == 0 || strcmp(key, "verb") == 0)
        return true;
    for (size_t i = 0; i < PIN_COUNT(fields); i++)
        if (strcmp(fields[i].key, key) == 0 && (fields[i].verbs & 1u << request->verb) != 0)
            return take(request, &fields[i], value, err);
    return wrong(err, key, "is no field of this request");
}

static bool check_attach(const struct pin_kept_request *request, struct pin_error *err) {
    if (request->output == PIN_OUTPUT_CAPTURE)
        return wrong(err, "output", "can't be 'capture': ask for a stream, or pass it on");
    return request->output != PIN_OUTPUT_STREAM || (request->out && !request->err) ||
           wrong(err, "stdout", "alone is where a stream goes");
}

static bool check(const struct pin_kept_request *request, struct pin_error *err) {
    if (request->verb == PIN_KEPT_ATTACH)
        return check_attach(request, err);
    if (request->verb == PIN_KEPT_CALL)
        return (request->key != NULL && strlen(request->key) <= PIN_KEPT_KEY_MAX) ||
               wrong(err, "key", "is missing, or too long");
    if (request->verb != PIN_KEPT_EXEC)
        return request->verb != PIN_KEPT_SIGNAL || request->signal > 0 || wrong(err, "signal", "is missing");
    if (request->arg_count == 0 || request->args[0][0] == '\0')
        return wrong(err, "args", "must name a command");
    if (request->tty && request->err)
        return wrong(err, "stderr", "is stdout where there is a terminal");
    if (request->interactive && request->input)
        return wrong(err, "interactive", "keeps the input for who attaches: no 'stdin' can be given");
    if (request->cwd != NULL && request->cwd[0] != '/')
        return wrong(err, "cwd", "must be absolute");
    return request->output != PIN_OUTPUT_STREAM || request->out ||
           wrong(err, "stdout", "is where a stream goes");
}

static bool read_object(json_t *json, struct pin_kept_request *request, struct pin_error *err) {
    const char *key, *verb = json_string_value(json_object_get(json, "verb"));
    json_t *value;
    if (json_integer_value(json_object_get(json, "pinfold")) != PIN_WIRE_VERSION) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "the protocol's version must be %d", PIN_WIRE_VERSION);
        return pin_point(err, "/pinfold");
    }
    int found = verb != NULL ? pin_name_find(verb_names, PIN_COUNT(verb_names), verb) : -1;
    if (found < 0)
        return wrong(err, "verb", "names nothing that a sandbox can do");
    request->verb = (enum pin_kept_verb)found;
    json_object_foreach(json, key, value) if (!take_field(request, key, value, err)) return false;
    return check(request, err);
}

bool pin_kept_request_parse(const char *text, size_t size, struct pin_kept_request *request,
                            struct pin_error *err) {
    json_error_t fault;
    memset(request, 0, sizeof(*request));
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &fault);
    if (!json_is_object(json)) {
        json_decref(json);
        return pin_fail(err, PIN_ERROR_SYNTAX, "a request must be one JSON object");
    }
    json_t *id = json_object_get(json, "id");
    if (json_is_integer(id) && json_integer_value(id) > 0) /* early: an error carries it too */
        request->id = (uint64_t)json_integer_value(id);
    bool ok = read_object(json, request, err);
    json_decref(json);
    return ok;
}

void pin_kept_request_free(struct pin_kept_request *request) {
    pin_arena_free(&request->arena);
}
