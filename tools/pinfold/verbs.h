/* verbs.h: the verbs that are part of the program itself; the others are programs of their own in libexec. */
#pragma once

#include "tools/pinfold/options.h"

extern const struct pin_verb pin_verb_run;
extern const struct pin_verb pin_verb_plan;
extern const struct pin_verb pin_verb_bundle_export;
extern const struct pin_verb pin_verb_bundle_check;
extern const struct pin_verb pin_verb_doctor;

/* Of kept sandboxes: on the hot path, where a second execution would cost a third of the time. */
extern const struct pin_verb pin_kept_verb_exec, pin_kept_verb_shell;
