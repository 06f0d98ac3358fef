/* words.h: the words of the policy language, as tables in the order of their enumerations.
 *
 * For the reader, the writer and the order; other folders use the functions of policy.h.
 */
#pragma once

#include "policy/policy.h"

#define PIN_FRAMES_WORDS 3
#define PIN_BASELINE_WORDS 4 /* in the order of what they let through */
#define PIN_RECORD_WORDS 3
#define PIN_ACCEPT_WORDS 3

extern const char *const pin_access_words[PIN_ACCESS_COUNT];
extern const char *const pin_root_mode_words[PIN_ROOT_MODE_COUNT];
extern const char *const pin_root_storage_words[PIN_ROOT_STORAGE_COUNT];
extern const char *const pin_on_cap_words[PIN_ON_CAP_COUNT];
extern const char *const pin_on_deny_words[PIN_ON_DENY_COUNT];
extern const char *const pin_protocol_words[PIN_PROTOCOL_COUNT];
extern const char *const pin_audit_failure_words[PIN_AUDIT_FAILURE_COUNT];
extern const char *const pin_unknown_names_words[PIN_UNKNOWN_COUNT];
extern const char *const pin_inspect_words[PIN_INSPECT_COUNT];
extern const char *const pin_accept_words[PIN_ACCEPT_WORDS]; /* the index is the bit of enum pin_accept */
extern const char *const pin_protection_words[PIN_PROTECT_COUNT];
extern const char *const pin_frames_words[PIN_FRAMES_WORDS]; /* the index is the bit of enum pin_frames */
extern const char *const pin_baseline_words[PIN_BASELINE_WORDS];
extern const char *const pin_record_words[PIN_RECORD_WORDS];
extern const char *const pin_space_words[PIN_SPACE_COUNT];
extern const char *const pin_op_words[PIN_FILTER_OP_COUNT];
extern const char *const pin_capability_words[PIN_CAPABILITY_COUNT];
