#include <stdint.h>

#include "base/names.h"
#include "runtime/build/inside.h"
#include "runtime/plan/plan_print.h"
#include "tools/pinfold/front.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/verbs.h"

static const struct pin_option options[] = {PIN_FRONT_ROWS};

static int run_plan(const struct pin_invocation *invocation) {
    const struct pin_front_options *values = invocation->values;
    struct pin_front front = PIN_FRONT_NONE;
    static struct pin_findings found; /* 40 KiB that a run without findings never touches */
    int code = 0;
    front.request.publishes = front.request.records = front.request.hands_secrets =
        front.request.records_calls = true; /* as `run` does, whose answer this is */
    if (!pin_front_bundle(&front, values, invocation->arguments, invocation->argument_count, &found) ||
        !pin_front_plan(&front, &found)) {
        code = pin_report_findings(&found, values->json);
    } else if (values->json) {
        json_t *plan = pin_plan_to_json(front.plan, pin_inside_steps());
        (void)json_dumpf(plan, stdout, JSON_INDENT(2));
        (void)fputc('\n', stdout);
        json_decref(plan);
    } else {
        pin_plan_print(front.plan, pin_inside_steps(), stdout);
    }
    pin_front_free(&front);
    return code;
}

const struct pin_verb pin_verb_plan = {
    .name = "plan",
    .synopsis = "-- CMD ARG…",
    .options_end = 1,
    .summary = "print what a run would build, and build nothing",
    .description =
        "The same options as `run`. The plan is made from the policy, the request and the facts of this\n"
        "host; a run with the same options applies exactly this plan.",
    .example = "  pinfold plan --policy tool --workspace . -- python3 tool.py",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct pin_front_options),
    .most_arguments = SIZE_MAX,
    .run = run_plan,
};
