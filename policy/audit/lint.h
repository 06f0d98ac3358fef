/* lint.h: what a policy's author should look at again.
 *
 * Each rule has an id that never changes its meaning, a severity, a reason and a remedy; each fault has a
 * place. A rule that is retired leaves its id unused. Pure. Reference: docs/auditor.md "Lint".
 */
#pragma once

#include <jansson.h>

#include "policy/audit/reach.h"
#include "policy/buffer.h"

enum pin_lint_severity { PIN_LINT_NOTE, PIN_LINT_WARNING, PIN_LINT_ERROR, PIN_LINT_SEVERITY_COUNT };
const char *pin_lint_severity_name(enum pin_lint_severity severity); /* as SARIF has them */

struct pin_lint_rule {
    const char *id;   /* "PF001" */
    const char *name; /* "secret-without-host" */
    enum pin_lint_severity severity;
    const char *reason; /* why it matters: a sentence */
    const char *remedy;
};
extern const struct pin_lint_rule pin_lint_rules[];
extern const size_t pin_lint_rules_count;

struct pin_lint_fault {
    const struct pin_lint_rule *rule;
    const char *pointer; /* "/network/egress/2" */
    struct pin_place place;
    const char *message;
};

struct pin_lint {
    struct pin_arena arena;
    struct pin_lint_fault *faults; /* by severity, then in the order of the rules */
    size_t count;
};

#define PIN_LINT __attribute__((cleanup(pin_lint_free)))

/* Fills a zeroed lint. The policy must outlive it. */
void pin_lint_check(struct pin_lint *lint, const struct pin_reach *reach);
void pin_lint_free(struct pin_lint *lint);

/* Takes the faults of these rules out ("PF004" or "capability"); false with an error where there is no such
 * rule. */
bool pin_lint_ignore(struct pin_lint *lint, const char *const *rules, size_t count, struct pin_error *err);

/* How many faults are at least as severe. */
size_t pin_lint_count(const struct pin_lint *lint, enum pin_lint_severity least);

void pin_lint_print(struct pin_buffer *to, const struct pin_lint *lint);
json_t *pin_lint_json(const struct pin_lint *lint);
/* SARIF 2.1.0: one run with all rules and the faults as results. */
json_t *pin_lint_sarif(const struct pin_lint *lint);
