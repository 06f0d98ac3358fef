#include "runtime/oci/settle.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "runtime/build/seccomp/compile.h"

/* As seccomp(2) orders them: the first counts. */
static const enum pin_filter_action by_severity[] = {
    PIN_FILTER_KILL_PROCESS, PIN_FILTER_KILL_THREAD, PIN_FILTER_TRAP, PIN_FILTER_ERRNO,
    PIN_FILTER_NOTIFY,       PIN_FILTER_TRACE,       PIN_FILTER_LOG,  PIN_FILTER_ALLOW,
};
_Static_assert(PIN_COUNT(by_severity) == PIN_FILTER_ACTION_COUNT, "every action has its place");

static size_t severity(enum pin_filter_action action) {
    size_t at = 0;
    while (by_severity[at] != action)
        at++;
    return at;
}

static bool repeats_default(const struct pin_filter *filter, const struct pin_filter_rule *rule) {
    return rule->action == filter->default_action &&
           (rule->action != PIN_FILTER_ERRNO || rule->error == filter->default_error);
}

/* Whether `other` makes `rule` needless: it covers the whole call, and is as strict or said first. */
static bool is_covered(const struct pin_filter_rule *rule, const struct pin_filter_rule *other) {
    if (other == rule || other->arg_count > 0 || strcmp(other->name, rule->name) != 0)
        return false;
    size_t mine = severity(rule->action), theirs = severity(other->action);
    return theirs < mine || (theirs == mine && (rule->arg_count > 0 || other < rule));
}

static bool is_needless(const struct pin_filter *filter, const struct pin_filter_rule *rule) {
    return severity(filter->default_action) <= severity(rule->action) && !pin_program_knows(rule->name);
}

/* Names that there's no room for are told by an ellipsis. */
static void name_left_out(char left_out[PIN_OCI_LEFT_OUT], const char *name) {
    size_t used = strlen(left_out);
    if (used + strlen(name) + 6 < PIN_OCI_LEFT_OUT)
        (void)snprintf(left_out + used, PIN_OCI_LEFT_OUT - used, "%s%s", used > 0 ? " " : "", name);
    else if (used > 0 && left_out[used - 1] != '.')
        (void)snprintf(left_out + used, PIN_OCI_LEFT_OUT - used, " ...");
}

/* A rule that repeats the default is needless where nothing else is said of the call, and counts where it is
 * the strictest. */
void pin_oci_settle_filter(struct pin_filter *filter, char left_out[PIN_OCI_LEFT_OUT]) {
    bool drop[4096];
    size_t kept = 0;
    left_out[0] = '\0';
    if (filter->present) /* for whatever others it is meant as well: it is we who run it */
        filter->archs[pin_arch_native()] = true;
    if (!filter->present || filter->rule_count > PIN_COUNT(drop))
        return;
    for (size_t i = 0; i < filter->rule_count; i++) {
        drop[i] = false;
        for (size_t j = 0; j < filter->rule_count && !drop[i]; j++)
            drop[i] = is_covered(&filter->rules[i], &filter->rules[j]);
    }
    for (size_t i = 0; i < filter->rule_count; i++) {
        if (drop[i] || repeats_default(filter, &filter->rules[i]))
            continue;
        if (is_needless(filter, &filter->rules[i]))
            name_left_out(left_out, filter->rules[i].name);
        else
            filter->rules[kept++] = filter->rules[i];
    }
    filter->rule_count = kept;
}
