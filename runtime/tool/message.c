#include "runtime/tool/message.h"

#include <string.h>

#include "base/cleanup.h"
#include "runtime/supervise/base64.h"

#define MESSAGE_VALUES_MAX ((size_t)512 * 1024) /* the runners stop at 200,000, keys not counted */

/* Values and keys of the text, or more; what stands in strings doesn't count. */
static size_t count_values(const uint8_t *data, size_t size) {
    size_t count = 1;
    bool inside = false;
    for (size_t i = 0; i < size; i++) {
        if (inside && data[i] == '\\')
            i++;
        else if (data[i] == '"')
            inside = !inside;
        else if (!inside)
            count += data[i] == ',' || data[i] == ':' || data[i] == '[' || data[i] == '{';
    }
    return count;
}

static bool has_key(const json_t *json, const char *key) {
    const json_t *given = json_object_get(json, "key");
    return json_is_string(given) && json_string_length(given) == strlen(key) &&
           memcmp(json_string_value(given), key, strlen(key)) == 0;
}

static bool are_texts(const json_t *notes) {
    if (notes != NULL && !json_is_array(notes))
        return false;
    for (size_t i = 0; i < json_array_size(notes); i++)
        if (!json_is_string(json_array_get(notes, i)))
            return false;
    return true;
}

bool pin_tool_message_parse(struct pin_tool_message *message, const uint8_t *data, size_t size,
                            const char *key) {
    *message = (struct pin_tool_message){0};
    if (count_values(data, size) > MESSAGE_VALUES_MAX)
        return false;
    json_t *json = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    const json_t *ok = json_object_get(json, "ok");
    if (!has_key(json, key) || !json_is_boolean(ok) || !are_texts(json_object_get(json, "notes"))) {
        json_decref(json);
        return false;
    }
    *message =
        (struct pin_tool_message){json, json_is_true(ok), json_object_get(json, "func_return"),
                                  json_object_get(json, "agent_state"), json_object_get(json, "notes")};
    return true;
}

/* What isn't JSON within bounds, a pickle for one, is nobody's to open here. */
static json_t *opaque(const uint8_t *data, size_t size) {
    PIN_FREE char *text = pin_base64(data, size);
    return text == NULL ? NULL
                        : json_pack("{s:s, s:[s]}", "results", text, "notes",
                                    "func_return: the frame in stdout holds no JSON: it is given as base64, "
                                    "unopened");
}

bool pin_tool_message_parse_letta(struct pin_tool_message *message, const uint8_t *data, size_t size) {
    json_t *json = NULL;
    *message = (struct pin_tool_message){0};
    if (count_values(data, size) <= MESSAGE_VALUES_MAX)
        json = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY,
                          NULL);
    if (json == NULL)
        json = opaque(data, size);
    else if (json_object_get(json, "results") == NULL)
        json = json_pack("{s:o}", "results", json);
    else
        (void)json_object_del(json, "notes"); /* ours alone */
    *message =
        (struct pin_tool_message){json, true, json_object_get(json, "results"),
                                  json_object_get(json, "agent_state"), json_object_get(json, "notes")};
    return json != NULL;
}

void pin_tool_message_free(struct pin_tool_message *message) {
    json_decref(message->json);
    *message = (struct pin_tool_message){0};
}
