/* explain_html.h: the explanation as one page of HTML that needs nothing else: no file, no script, no
 * network.
 *
 * Light and dark by the reader's setting; everything can be reached by keyboard, and each picture has its
 * facts in text beside it. What comes from a policy is escaped. Pure.
 */
#pragma once

#include "policy/audit/explain.h"
#include "policy/audit/lint.h"
#include "policy/audit/score.h"

struct pin_explain_page {
    const struct pin_reach *reach;
    const struct pin_explain *explain;
    const struct pin_score *score;
    const struct pin_lint *lint;
};

void pin_explain_html(struct pin_buffer *to, const struct pin_explain_page *page);

/* Text between tags or in an attribute with double quotes. */
void pin_html_text(struct pin_buffer *to, const char *text);

/* The pictures, each a whole <figure>: explain_pictures.c. */
void pin_explain_wall(struct pin_buffer *to, const struct pin_reach *reach);
void pin_explain_egress_map(struct pin_buffer *to, const struct pin_policy *policy);
void pin_explain_call_table(struct pin_buffer *to, const struct pin_reach *reach);
