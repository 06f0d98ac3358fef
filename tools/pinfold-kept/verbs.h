/* verbs.h: the verbs of this program; each lies in the file of its kind.
 */
#pragma once

#include "tools/pinfold/options.h"

extern const struct pin_verb pin_kept_verb_up;
extern const struct pin_verb pin_kept_verb_ls, pin_kept_verb_show, pin_kept_verb_stats;
extern const struct pin_verb pin_kept_verb_pause, pin_kept_verb_resume, pin_kept_verb_stop,
    pin_kept_verb_kill, pin_kept_verb_rm, pin_kept_verb_wait;
extern const struct pin_verb pin_kept_verb_code, pin_kept_verb_egress;
extern const struct pin_verb pin_kept_verb_logs, pin_kept_verb_cp, pin_kept_verb_attach, pin_kept_verb_renew;
