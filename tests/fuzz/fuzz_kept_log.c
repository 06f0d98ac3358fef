/* A log record: never past the end, and what is accepted is whole. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/kept/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_log_record record = {0};
    size_t taken = pin_log_parse(data, size, &record);
    if (taken == 0) {
        assert(record.payload == NULL);
        return 0;
    }
    assert(taken <= size && taken == PIN_LOG_HEAD + record.size && pin_log_kind_name(record.kind) != NULL);
    assert(record.payload == data + PIN_LOG_HEAD);
    for (size_t cut = 0; cut < taken; cut++)
        assert(pin_log_parse(data, cut, &record) == 0);
    return 0;
}
