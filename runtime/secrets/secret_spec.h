/* secret_spec.h: which secret is asked for, and how it is handed over: pure text.
 *
 *   NAME            the environment variable NAME
 *   NAME:env=VAR    the environment variable VAR
 *   NAME:file       the file /run/secrets/NAME, mode 0400, the command's own, never on a disk or in swap
 *   NAME:file=FILE  the file /run/secrets/FILE
 * Names are those of a policy's "secrets". docs/secrets.md.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

#define PIN_SECRETS_FOLDER "run/secrets" /* in the new root */
#define PIN_SECRETS_MAX 64               /* of one run */
#define PIN_SECRET_NAME_MAX 128          /* with its end */

enum pin_secret_form { PIN_SECRET_ENV, PIN_SECRET_FILE };

struct pin_secret_spec {
    char name[PIN_SECRET_NAME_MAX];
    enum pin_secret_form form;
    char target[PIN_SECRET_NAME_MAX]; /* the variable, or the file's name */
};

bool pin_secret_spec_parse(const char *text, struct pin_secret_spec *spec, struct pin_error *err);
