/* What a code context says of a cell: nothing but known types comes out, and nothing without the cell's key.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tools/pinfold-kept/code_result.h"

#define KEY "00112233445566778899aabbccddeeff"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const types[] = {"text/plain", "application/json", "image/png", "text/html"};
    json_t *said = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
    json_t *result = json_pack("{s:s, s:i, s:o?}", "status", "success", "exit_code", 0, "result", said);
    const char *key = json_string_value(json_object_get(said, "key"));
    struct pin_code_outcome outcome = pin_code_result(result, KEY);
    size_t i, known = 0;
    json_t *bundle;
    json_array_foreach(json_object_get(outcome.object, "results"), i, bundle) {
        for (size_t k = known = 0; k < sizeof(types) / sizeof(types[0]); k++)
            known += json_object_get(bundle, types[k]) != NULL;
        assert(known == json_object_size(bundle));
        assert(key != NULL && strcmp(key, KEY) == 0);
    }
    assert(outcome.object != NULL && json_object_get(outcome.object, "error") != NULL);
    assert(outcome.exit_code == !json_is_null(json_object_get(outcome.object, "error")));
    json_decref(outcome.object);
    json_decref(result);
    return 0;
}
