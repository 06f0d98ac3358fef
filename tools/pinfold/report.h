/* report.h: the one place that turns an error into a line for people, or into JSON.
 *
 * A line is "pinfold: message (pointer); hint"; it never holds a line break. JSON is
 * {"error": {"kind", "message", "pointer", "hint"}}, with "others" where there are more findings than one.
 */
#pragma once

#include <stdbool.h>

#include "base/findings.h"

#define PIN_EXIT_REFUSED 125 /* pinfold itself refused or failed */
#define PIN_EXIT_USAGE 125   /* a wrong command line is a refusal as well: design, exit codes */

/* To standard error, or as JSON to standard output; returns PIN_EXIT_REFUSED, so that `return pin_report(…)`
 * works. */
int pin_report(const struct pin_error *err, bool as_json);
int pin_report_findings(const struct pin_findings *found, bool as_json);
