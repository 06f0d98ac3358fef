/* report.h: the one place that turns an error into a line for people, or into JSON.
 *
 * A line is "pinfold: message (pointer); hint"; it never holds a line break. JSON is
 * {"error": {"kind", "message", "pointer", "hint"}}, with "others" where there are more findings than one.
 */
#pragma once

#include <stdbool.h>

#include "base/findings.h"

#define PIN_REPORT_EXIT 125 /* pinfold itself refused or failed */

/* To standard error, or as JSON to standard output; returns PIN_REPORT_EXIT, so that `return pin_report(…)`
 * works. */
int pin_report(const struct pin_error *err, bool as_json);
int pin_report_findings(const struct pin_findings *found, bool as_json);
/* The same, with "denials" in the JSON: a list, or NULL. */
struct json_t;
int pin_report_refusal(const struct pin_findings *found, struct json_t *denials, bool as_json);

/* The code, or PIN_REPORT_EXIT, and a line that says it, where it is 0 and what was printed could not be
 * written. */
int pin_report_flush(int code);
