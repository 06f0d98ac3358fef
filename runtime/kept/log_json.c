#include "runtime/kept/log_json.h"

#include "runtime/supervise/result.h"

json_t *pin_log_record_json(const struct pin_log_record *record) {
    json_t *line = json_pack("{s:I, s:I, s:I, s:s}", "seq", (json_int_t)record->sequence, "t_ns",
                             (json_int_t)record->at_ns, "exec", (json_int_t)record->exec, "kind",
                             pin_log_kind_name(record->kind));
    if (line == NULL)
        return NULL;
    if (record->kind == PIN_LOG_STDOUT || record->kind == PIN_LOG_STDERR) {
        (void)pin_json_set_bytes(line, "data", record->payload, record->size);
        return line;
    }
    json_error_t fault;
    json_t *facts = json_loadb((const char *)record->payload, record->size, 0, &fault);
    (void)json_object_set_new(line, "facts", facts != NULL ? facts : json_null());
    return line;
}
