#include "tools/pinfold-kept/code_result.h"

#include <string.h>

#include "base/names.h"
#include "runtime/supervise/result.h"

static bool is_base64(const json_t *value) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n";
    const char *text = json_string_value(value);
    return text != NULL && json_string_length(value) == strspn(text, letters);
}

static bool is_text(const json_t *value) {
    return json_is_string(value);
}

static bool is_any(const json_t *value) {
    return value != NULL;
}

static const struct {
    const char *type;
    bool (*is_good)(const json_t *value);
} types[] = {
    {"text/plain",       is_text  },
    {"application/json", is_any   },
    {"image/png",        is_base64},
    {"text/html",        is_text  },
};

/* NULL: it isn't one. */
static json_t *take_bundle(const json_t *said) {
    json_t *bundle = json_is_object(said) ? json_object() : NULL;
    for (size_t i = 0; bundle != NULL && i < PIN_COUNT(types); i++) {
        json_t *value = json_object_get(said, types[i].type);
        if (value != NULL && types[i].is_good(value))
            (void)json_object_set(bundle, types[i].type, value);
    }
    return bundle;
}

static json_t *take_results(const json_t *said) {
    json_t *list = json_array();
    size_t i;
    json_t *item;
    json_array_foreach(said, i, item) {
        json_t *bundle = take_bundle(item);
        if (bundle != NULL)
            (void)json_array_append_new(list, bundle);
    }
    return list;
}

static json_t *take_notes(const json_t *said) {
    json_t *list = json_array();
    size_t i;
    json_t *item;
    json_array_foreach(said, i, item) {
        if (json_is_string(item))
            (void)json_array_append(list, item);
    }
    return list;
}

static json_t *or_null(json_t *value) {
    return json_is_string(value) ? json_incref(value) : json_null();
}

static json_t *take_error(const json_t *said) {
    if (!json_is_object(said))
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "type", or_null(json_object_get(said, "type")), "message",
                     or_null(json_object_get(said, "message")), "traceback",
                     or_null(json_object_get(said, "traceback")));
}

static bool has_oversized(const json_t *result) {
    size_t i;
    json_t *frame;
    json_array_foreach(json_object_get(result, "frames"), i, frame) {
        const char *verdict = json_string_value(json_object_get(frame, "verdict"));
        if (verdict != NULL && strcmp(verdict, "oversized") == 0)
            return true;
    }
    return false;
}

static const struct {
    const char *status, *type, *message;
} ends[] = {
    {"timeout", "Timeout",     "the cell took longer than its time limit"   },
    {"memory",  "MemoryLimit", "the cell needed more than its memory limit" },
    {"output",  "OutputLimit", "the cell printed more than its output limit"},
    {"killed",  "Killed",      "the cell was killed"                        },
};

/* The context has said nothing that counts. */
static json_t *explain(const json_t *result, const char *status) {
    const char *type = "ContextEnded", *message = "the context ended before the cell did";
    json_t *said = json_object_get(result, "result");
    for (size_t i = 0; i < PIN_COUNT(ends); i++)
        if (strcmp(ends[i].status, status) == 0) {
            type = ends[i].type;
            message = ends[i].message;
        }
    if (said != NULL && !json_is_null(said)) {
        type = "ForgedResult";
        message = "a frame came on the result channel that isn't the context's";
    } else if (has_oversized(result)) {
        type = "ResultTooLarge";
        message = "the results are larger than the policy's resources.frame";
    }
    const char *why = json_string_value(json_object_get(json_object_get(result, "error"), "message"));
    if (strcmp(status, "refused") == 0) {
        type = "NotStarted";
        message = why != NULL ? why : "the cell couldn't be brought to its context";
    }
    return json_pack("{s:s, s:s, s:n}", "type", type, "message", message, "traceback");
}

void pin_code_say_memory(struct pin_code_outcome *outcome) {
    (void)json_object_set_new(outcome->object, "status", json_string("memory"));
    (void)json_object_set_new(outcome->object, "error", explain(json_null(), "memory"));
    outcome->exit_code = PIN_EXIT_MEMORY;
}

static bool is_ours(const json_t *said, const char *key) {
    const char *given = json_string_value(json_object_get(said, "key"));
    return given != NULL && strcmp(given, key) == 0 && json_is_array(json_object_get(said, "results"));
}

struct pin_code_outcome pin_code_result(const json_t *result, const char *key) {
    const json_t *said = json_object_get(result, "result");
    const char *status = json_string_value(json_object_get(result, "status"));
    int code = (int)json_integer_value(json_object_get(result, "exit_code"));
    bool ours = is_ours(said, key);
    if (status == NULL)
        status = "killed";
    bool ended = strcmp(status, "success") == 0 || strcmp(status, "error") == 0;
    json_t *error = ours ? take_error(json_object_get(said, "error")) : explain(result, status);
    if (json_is_null(error) && !ended) /* it came to its end while it was being stopped */
        error = explain(json_null(), status);
    if (ended)
        status = json_is_null(error) ? "success" : "error";
    struct pin_code_outcome outcome = {
        .exit_code = ended ? !json_is_null(error) : code,
        .lost = !ours && !(ended && code == 0),
        .ended = !ours && ended && code != 0,
    };
    json_t *stdout_text = json_object_get(result, "stdout"), *stderr_text = json_object_get(result, "stderr");
    outcome.object =
        json_pack("{s:s, s:I, s:o, s:o, s:o}", "status", status, "execution_count",
                  ours ? json_integer_value(json_object_get(said, "execution_count")) : (json_int_t)0,
                  "results", take_results(ours ? json_object_get(said, "results") : NULL), "error", error,
                  "notes", take_notes(ours ? json_object_get(said, "notes") : NULL));
    if (stdout_text != NULL) {
        (void)json_object_set(outcome.object, "stdout", stdout_text);
        (void)json_object_set(outcome.object, "stderr", stderr_text);
        (void)json_object_set(outcome.object, "encoding", json_object_get(result, "encoding"));
    }
    return outcome;
}
