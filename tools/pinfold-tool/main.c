/* pinfold-tool: `pinfold tool VERB`. A program of its own in libexec, so that `pinfold run` carries none of
 * it. */
#include "base/names.h"
#include "tools/pinfold-tool/verbs.h"
#include "tools/pinfold/program.h"

static const struct pin_verb *const verbs[] = {&pin_tool_verb_call,     &pin_tool_verb_prepare,
                                               &pin_tool_verb_serve,    &pin_tool_verb_pool_show,
                                               &pin_tool_verb_pool_set, &pin_tool_verb_pool_clear};

int main(int argc, char **argv) {
    static const struct pin_program program = {
        .family = "tool",
        .about = "Calls functions of tools in sandboxes.",
        .exits =
            "0 success; 1 error; 124 time limit; 137 memory or output limit; 128+N signal N; 125 refused.",
        .verbs = verbs,
        .count = PIN_COUNT(verbs),
    };
    return pin_program_main(&program, argc, argv);
}
