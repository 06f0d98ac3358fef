/* The reader takes rules or refuses; what it takes can be judged with. */
#undef NDEBUG
#include <assert.h>

#include "runtime/egress/rules_blob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    PIN_ARENA struct pin_arena arena = {.block = NULL};
    struct pin_egress_setup setup;
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    if (!pin_rules_blob_read(data, size, &arena, &setup, &err)) {
        assert(pin_is_set(&err));
        return 0;
    }
    struct pin_destination to = {.host = "api.example.com", .port = 443};
    struct pin_verdict verdict = pin_egress_judge(&setup.rules, &to);
    assert(!verdict.allowed || verdict.rule != NULL);
    (void)pin_egress_judge_name(&setup.rules, "api.example.com");
    (void)pin_egress_judge_resolved(&setup.rules, &to);
    return 0;
}
