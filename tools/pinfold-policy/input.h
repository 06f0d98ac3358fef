/* input.h: what the verbs of `pinfold policy` work on: a policy as it would be enforced.
 *
 * The site's floor and ceiling hold as they do for a run. With --bundle the policy is the ceiling of an OCI
 * bundle, and what the bundle asks for is what is looked at.
 */
#pragma once

#include "images/rootfs.h"
#include "policy/audit/reach.h"
#include "policy/audit/why.h"
#include "tools/pinfold/options.h"

/* The exit codes of all verbs, made for CI: docs/auditor.md. */
enum {
    PIN_AUDIT_GOOD = 0,
    PIN_AUDIT_BAD = 1,  /* findings, denied, wider, failed */
    PIN_AUDIT_ERROR = 2 /* no answer: wrong usage, a policy that can't be read */
};

struct pin_input_options { /* the first member of each verb's values */
    const char *bundle, *site;
    bool json;
};

#define PIN_INPUT_ROW(option, kind, member, form, text)                                                      \
    { option, 0, kind, offsetof(struct pin_input_options, member), form, text, NULL }
#define PIN_INPUT_ROWS                                                                                       \
    PIN_INPUT_ROW("bundle", PIN_OPTION_TEXT, bundle, "DIR",                                                  \
                  "look at what this OCI bundle asks for, with the policy as its ceiling"),                  \
        PIN_INPUT_ROW("site", PIN_OPTION_TEXT, site, "FILE",                                                 \
                      "the site's floor and ceiling (/etc/pinfold/site.json, where there is one)"),          \
        PIN_INPUT_ROW("json", PIN_OPTION_FLAG, json, NULL, "print one JSON object")

#define PIN_INPUT_EXITS                                                                                      \
    "\nThe policy is a built-in or installed name, a file, 'sandbox:NAME' for what a kept sandbox was "      \
    "made\n"                                                                                                 \
    "with, or 'bundle:DIR' for what an OCI bundle asks for below 'oci'; without one it is 'tool', or "       \
    "'oci'\n"                                                                                                \
    "for a bundle. Exit code 2: wrong usage, a policy that can't be read, or a bundle beyond its policy."

struct pin_input { /* zeroed at first */
    struct pin_policy *policy;
    struct pin_reach reach;
};

#define PIN_INPUT_BUNDLE "bundle:"           /* and its directory, below the profile oci */
#define PIN_INPUT_SANDBOX "sandbox:"         /* and the name of a kept sandbox */
bool pin_input_is_sandbox(const char *name); /* NULL isn't one */

/* Loads and resolves `name`; NULL is the default. False with findings. */
bool pin_input_load(struct pin_input *input, const char *name, const struct pin_input_options *options,
                    struct pin_findings *found);
void pin_input_free(struct pin_input *input);

/* The argument at an index, or NULL. */
const char *pin_input_argument(const struct pin_invocation *invocation, size_t index);

/* Reads a whole file, "-" for standard input; the caller frees it. NULL with a finding. */
char *pin_input_file(const char *path, size_t limit, size_t *size, struct pin_findings *found);

/* What the host image shows, for "read" questions: NULL where the policy doesn't list it or this host can't
 * make it. */
struct pin_input_root {
    struct pin_arena arena;
    struct pin_rootfs rootfs;
    struct pin_why_root root;
};
const struct pin_why_root *pin_input_root(struct pin_input_root *root, const struct pin_policy *policy);

/* Prints and releases; returns `code`. */
int pin_output_json(json_t *value, int code);
int pin_output_text(struct pin_buffer *text, int code);
