/* libexec.h: where the programs of pinfold's own are that it runs by itself.
 *
 * In the directory that PINFOLD_LIBEXEC names, and only there, where the caller sets it; else beside this
 * program, as where all are in one directory; in its sister's directory, as in a build tree
 * (tools/NAME/NAME); in the libexec beside its bin, wherever an installation was moved to; in the libexec
 * that was configured. A program that runs from a sealed copy of itself (pinfold-oci) has no neighbours.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"

/* NOT_FOUND, with a hint that says where it belongs. */
bool pin_libexec_find(const char *program, char path[PATH_MAX], struct pin_error *err);
/* `pinfold` itself, for a program that runs it: beside, as above, or where it is installed. */
bool pin_libexec_find_pinfold(char path[PATH_MAX], struct pin_error *err);
