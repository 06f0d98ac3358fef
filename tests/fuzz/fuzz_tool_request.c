/* Any bytes are a request or findings; a whole one has arguments, an environment and a packet for its runner.
 */
#undef NDEBUG /* the laws below are asserted in every build */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tool/args.h"
#include "runtime/tool/env.h"
#include "runtime/tool/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct pin_findings found;
    struct pin_tool_request request = {0};
    struct pin_arena arena = {0};
    struct pin_tool_env env;
    const struct pin_tool_config config = {0};
    memset(&found, 0, sizeof(found));
    bool ok = pin_tool_request_parse(&request, (const char *)data, size, &found);
    assert(ok != pin_found_any(&found));
    if (ok) {
        char *packet = pin_tool_request_packet(&request, "key", NULL);
        assert(packet != NULL && json_is_object(request.args));
        free(packet);
        pin_tool_env(&request, &config, &arena, &env);
        assert(env.over_count >= 3);
    }
    pin_arena_free(&arena);
    pin_tool_request_free(&request);
    return 0;
}
