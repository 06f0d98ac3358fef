/* log_json.h: a record of the output log as JSON: {"seq", "t_ns", "exec", "kind"}, with "encoding" and "data"
 * of output, and "facts" of all else. docs/kept.md "The output log".
 */
#pragma once

#include <jansson.h>

#include "runtime/kept/log.h"

/* The caller owns it; NULL when memory is out. */
json_t *pin_log_record_json(const struct pin_log_record *record);
