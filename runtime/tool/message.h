/* message.h: what a runner says in its result frame. Bytes from inside: any are a message or none. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

struct pin_tool_message {
    json_t *json; /* owns the rest */
    bool ok;
    json_t *func_return, *agent_state, *notes; /* NULL: not in it */
};

/* False where the bytes are no message of the runner that holds `key`; nothing is left to free then. */
bool pin_tool_message_parse(struct pin_tool_message *message, const uint8_t *data, size_t size,
                            const char *key);
/* Of a Letta frame's payload: JSON {"results", "agent_state"}; other JSON is the result; what is none becomes
 * base64, with a note. False only where memory is out. */
bool pin_tool_message_parse_letta(struct pin_tool_message *message, const uint8_t *data, size_t size);
void pin_tool_message_free(struct pin_tool_message *message);
