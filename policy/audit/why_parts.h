/* why_parts.h: inside of why.c: one answerer a kind of question. */
#pragma once

#include "policy/audit/why.h"

struct pin_why_context {
    const struct pin_reach *reach;
    const struct pin_policy *policy;
    const struct pin_question *question;
    const struct pin_why_root *root; /* NULL: not known */
    struct pin_arena *arena;
};

struct pin_answer pin_why_connect(const struct pin_why_context *context);
struct pin_answer pin_why_write(const struct pin_why_context *context);
struct pin_answer pin_why_read(const struct pin_why_context *context);
struct pin_answer pin_why_syscall(const struct pin_why_context *context);

/* An edit of the policy is no remedy where its site says no: it is tried, and withheld with the reason.
 * `answer_again` is the answerer of the question. */
void pin_why_hold_below_site(const struct pin_why_context *context,
                             struct pin_answer (*answer_again)(const struct pin_why_context *),
                             struct pin_answer *answer);

/* A rule for people: "api.example.com:443". In the arena. */
const char *pin_why_egress_text(struct pin_arena *arena, const struct pin_egress_rule *rule);
