/* policy_read.h: from JSON files to a resolved policy.
 *
 * Strict: unknown, duplicate or misspelt keys, wrong types, overflow, trailing text, BOM, NUL, bad UTF-8,
 * deep nesting and loops of `extends` are findings; each has kind, a pointer of the form "FILE:LINE:COLUMN
 * /json/pointer", a message and a hint. All findings of a file come in one go. Only regular files are read,
 * by descriptor, at most 4 MiB, owned by root or the caller and not writable by others. The bytes that are
 * read are the bytes that count. Pure but for reading files.
 */
#pragma once

#include "base/findings.h"
#include "policy/policy.h"

/* A policy by name ("tool": built in; else NAME.json in the search folders) or by path (it has a '/' or ends
 * in
 * ".json"). NULL with findings on failure; the caller frees the policy with pin_policy_free(). */
struct pin_policy *pin_policy_load(const char *name_or_path, struct pin_findings *found);

/* The same from text in memory; `file` is what findings and places call it. */
struct pin_policy *pin_policy_parse(const char *file, const char *text, size_t size,
                                    struct pin_findings *found);

/* A policy that extends `base` by an edit: an object of policy JSON without "pinfold". It is below no site.
 * NULL with findings; the caller frees it. */
struct pin_policy *pin_policy_edit(const struct pin_policy *base, const char *edit,
                                   struct pin_findings *found);

/* The resolved system call filter of the policy for an architecture, in the policy's arena or in `arena`.
 * False with findings where the policy allows what no policy may (calls that break the wall are listed in
 * docs/policy.md). */
bool pin_policy_filter(const struct pin_policy *policy, enum pin_arch arch, struct pin_arena *arena,
                       struct pin_filter *filter, struct pin_findings *found);

/* A deep copy that may then be narrowed by a request: same places, own arena. */
struct pin_policy *pin_policy_copy(const struct pin_policy *policy);

/* What somebody else owns takes the place of the copy's rules, or budgets, as copies in its own arena. A rule
 * keeps the name of its budget until pin_egress_give_budgets(). */
void pin_policy_state_egress(struct pin_policy *policy, const struct pin_egress_rule *rules, size_t count);
void pin_policy_state_budgets(struct pin_policy *policy, const struct pin_egress_budget *budgets,
                              size_t count);

/* Computes `digest` anew after the fields have changed: SHA-256 of the canonical JSON form. */
void pin_policy_seal(struct pin_policy *policy);
