/* Any bytes are a configuration or findings; the canonical text of one is itself. */
#undef NDEBUG /* the laws below are asserted in every build */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "runtime/tool/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct pin_findings found;
    struct pin_tool_config config = {0}, again = {0};
    memset(&found, 0, sizeof(found));
    bool ok = pin_tool_config_parse(&config, "c.json", (const char *)data, size, &found);
    assert(ok != pin_found_any(&found));
    if (ok) {
        assert(pin_tool_config_parse(&again, "c.json", config.text, strlen(config.text), &found));
        assert(strcmp(config.digest, again.digest) == 0);
    }
    pin_tool_config_free(&config);
    pin_tool_config_free(&again);
    return 0;
}
