/* help.h: --help, man pages and completion of the OCI runtime, from the tables of its verbs and options. */
#pragma once

#include "tools/pinfold-oci/cli.h"

/* Of one verb, or of the program where it is NULL. */
void pin_oci_print_help(const struct pin_oci_verb *verb);

int pin_oci_man(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_completion(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_pages(const struct pin_oci_options *options, char **arguments, size_t count);
