/* verbs.h: the verbs of `pinfold audit`, one file each. */
#pragma once

#include "tools/pinfold/options.h"

enum pin_audit_answer { PIN_AUDIT_GOOD, PIN_AUDIT_BAD, PIN_AUDIT_ERROR };

extern const struct pin_verb pin_audit_verb_show;
extern const struct pin_verb pin_audit_verb_verify;
extern const struct pin_verb pin_audit_verb_export;
extern const struct pin_verb pin_audit_verb_receipt_sign;
extern const struct pin_verb pin_audit_verb_receipt_key;
extern const struct pin_verb pin_audit_verb_receipt_verify;
