/* `pinfold tool prepare`: what a call will want is started, and is there when this ends. */
#include "base/cleanup.h"
#include "base/names.h"
#include "tools/pinfold-tool/request.h"
#include "tools/pinfold-tool/verbs.h"
#include "tools/pinfold/report.h"

static const struct pin_option options[] = {PIN_CALL_ROWS};

static bool prepare(struct pin_call *call, const struct pin_front *front, struct pin_error *err) {
    struct pin_warm warm = pin_call_warm(call, front);
    if (call->request.reuse == PIN_TOOL_REUSE_COLD) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "a cold call needs nothing that could be prepared");
        (void)pin_point(err, "/reuse");
        return pin_hint(err, "ask for \"never\" or \"fingerprint\"");
    }
    warm.may_hand = true;
    bool ok = pin_warm_begin(&warm, err) == PIN_WARM_NONE && pin_warm_top_up(&warm, true, err);
    pin_warm_free(&warm);
    return ok;
}

static int run_prepare(const struct pin_invocation *invocation) {
    const struct pin_call_options *values = invocation->values;
    static struct pin_findings found;
    struct pin_front front = PIN_FRONT_NONE;
    struct pin_call call = {0};
    struct pin_error err = {0};
    size_t size = 0;
    int code = 0;
    PIN_FREE char *text =
        pin_call_read(invocation->argument_count > 0 ? invocation->arguments[0] : NULL, &size, &found);
    if (text == NULL || !pin_call_resolve(&call, &front, text, size, values, &found))
        code = pin_report_findings(&found, true);
    else if (!prepare(&call, &front, &err))
        code = pin_report(&err, true);
    pin_front_free(&front);
    pin_call_release(&call);
    return code;
}

const struct pin_verb pin_tool_verb_prepare = {
    .name = "tool prepare",
    .synopsis = "[REQUEST.json|-]",
    .summary = "start the sandboxes that a call with 'reuse' will want",
    .description = "The request is that of 'tool call', with \"reuse\" \"never\" or \"fingerprint\". Nothing "
                   "of it is run. "
                   "When the command ends, a call of the same kind finds a sandbox that waits for it.",
    .example = "  pinfold tool prepare request.json && pinfold tool call request.json",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct pin_call_options),
    .most_arguments = 1,
    .run = run_prepare,
};
