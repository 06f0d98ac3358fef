#include <string.h>

#include "policy/audit/why_parts.h"
#include "policy/policy_read.h"
#include "policy/site.h"

/* Whether the policy with the edit is one, below the site, that lets it through. */
static bool helps(const struct pin_why_context *context,
                  struct pin_answer (*answer_again)(const struct pin_why_context *), const char *edit,
                  struct pin_findings *found) {
    PIN_REACH struct pin_reach reach = {0};
    struct pin_policy *edited = pin_policy_edit(context->policy, edit, found);
    bool allowed = false;
    if (edited != NULL && pin_site_apply(edited, context->policy->site, found) &&
        pin_reach_make(&reach, edited, context->reach->arch, found)) {
        const struct pin_why_context again = {&reach, edited, context->question, context->root,
                                              context->arena};
        struct pin_answer answer = answer_again(&again);
        allowed = pin_answer_allows(&answer);
    }
    pin_policy_free(edited);
    return allowed;
}

void pin_why_hold_below_site(const struct pin_why_context *context,
                             struct pin_answer (*answer_again)(const struct pin_why_context *),
                             struct pin_answer *answer) {
    struct pin_findings found = {0};
    if (helps(context, answer_again, answer->edit, &found))
        return;
    const char *why = "it is the site's own rule";
    if (found.count > 0) /* the line of the ceiling, or a fault that the edit brings */
        why = strstr(found.list[0].hint, "ceiling") != NULL ? found.list[0].hint : found.list[0].message;
    answer->edit = NULL;
    answer->caution =
        pin_arena_printf(context->arena, "no edit of the policy allows it below the site's file: %s", why);
}
