/* log.h: where messages go: to stderr, and to the file that the engine reads them from, in runc's form. */
#pragma once

#include "base/error.h"
#include "base/findings.h"
#include "tools/pinfold-oci/cli.h"

/* Prints the error; the exit code of a failed command. */
int pin_oci_fail(const struct pin_oci_options *options, const struct pin_error *err);
int pin_oci_fail_findings(const struct pin_oci_options *options, const struct pin_findings *found);

/* A warning: what was asked for and has no effect. */
void pin_oci_warn(const struct pin_oci_options *options, const char *text);
