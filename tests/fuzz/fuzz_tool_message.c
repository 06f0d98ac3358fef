/* Any bytes on the result channel are a message with the key, or none; any output is lines. */
#undef NDEBUG /* the laws below are asserted in every build */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "runtime/tool/lines.h"
#include "runtime/tool/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_tool_message message;
    bool replaced = false;
    if (pin_tool_message_parse(&message, data, size, "k")) {
        assert(strcmp(json_string_value(json_object_get(message.json, "key")), "k") == 0);
        pin_tool_message_free(&message);
    }
    assert(pin_tool_message_parse_letta(&message, data, size) && message.ok && message.func_return != NULL);
    pin_tool_message_free(&message);
    json_t *lines = pin_tool_lines(data, size, &replaced);
    size_t bytes = 0;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        assert(json_is_string(json_array_get(lines, i)));
        bytes += json_string_length(json_array_get(lines, i)) + 1;
    }
    assert(replaced || bytes == size || bytes == size + 1); /* the last line may have no end */
    json_decref(lines);
    return 0;
}
