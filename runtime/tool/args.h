/* args.h: the arguments of a tool call, checked and converted by the tool's JSON schema.
 *
 * Pure. Whatever the schema and the arguments are, the answer is the converted arguments or findings, each
 * with the JSON pointer of the argument ("/args/points/3/x") or of the schema; bounded in depth and steps.
 * Conversions: the text of a number, a boolean, a list or an object where one is wanted, a whole real where
 * an integer is wanted, a number where text is wanted; defaults are filled in; null for an argument that may
 * be left out leaves it out. A keyword that would narrow the values and that isn't known here is a finding:
 * nothing of a schema is silently dropped. Source: docs/tool.md "Arguments"; JSON Schema 2020-12.
 */
#pragma once

#include <stdbool.h>

#include <jansson.h>

#include "base/findings.h"

/* The schema of the arguments within what platforms call one: {"parameters": …}, {"function": {…}}, or the
 * schema itself. Borrowed; NULL where it is none. */
json_t *pin_tool_schema_of(json_t *given);
/* The tool's name in it; NULL: none. Borrowed. */
const char *pin_tool_schema_name(json_t *given);

/* A new object in the schema's order, which the caller releases; NULL with findings. */
json_t *pin_tool_args_convert(json_t *given_schema, const json_t *args, struct pin_findings *found);
