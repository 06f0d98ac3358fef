#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "policy/policy_read.h"
#include "runtime/bundle/bundle_ceiling.h"
#include "runtime/bundle/bundle_read.h"
#include "runtime/bundle/bundle_write.h"
#include "tools/pinfold/front.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/verbs.h"

static const struct pin_option options[] = {PIN_FRONT_ROWS};

static bool export_to(const struct pin_bundle *bundle, const char *directory, struct pin_error *err) {
    bool made = mkdir(directory, 0700) == 0 || errno == EEXIST;
    PIN_CLOSE int fd = !made ? -1 : open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        (void)pin_fail_errno(err, made ? "open '%s'" : "make '%s'", directory);
        return pin_hint(err, "name a new or an empty directory, in one that is there and that you may write");
    }
    return pin_bundle_export(bundle, fd, err);
}

static int run_export(const struct pin_invocation *invocation) {
    const struct pin_front_options *values = invocation->values;
    struct pin_front front = PIN_FRONT_NONE;
    static struct pin_findings found; /* 40 KiB that a run without findings never touches */
    struct pin_error err = {0};
    int code = 0;
    /* the first argument is the directory; a "--" may stand before the command */
    char **command = invocation->arguments + 1;
    size_t count = invocation->argument_count - 1;
    if (count > 0 && strcmp(command[0], "--") == 0) {
        command++;
        count--;
    } else if (count > 0 && command[0][0] == '-') { /* else it would be the command's name */
        (void)pin_find(&found, PIN_ERROR_USAGE, "", "write options before DIR, and the command after --",
                       "'%.60s' stands after DIR", command[0]);
        return pin_report_findings(&found, values->json);
    }
    front.request.publishes = front.request.records = front.request.hands_secrets =
        front.request.records_calls = true; /* as `run` does, whose answer this is */
    if (!pin_front_bundle(&front, values, command, count, &found))
        code = pin_report_findings(&found, values->json);
    else if (!export_to(front.bundle, invocation->arguments[0], &err))
        code = pin_report(&err, values->json);
    pin_front_free(&front);
    return code;
}

const struct pin_verb pin_verb_bundle_export = {
    .name = "bundle export",
    .synopsis = "DIR -- CMD ARG…",
    .options_end = 1,
    .summary = "write the OCI bundle that a run resolves to",
    .description = "DIR is made, or must be empty. `pinfold run --bundle DIR` then gives the same sandbox, "
                   "and other OCI\n"
                   "runtimes can run it too: they ignore the \"pinfold\" block.",
    .example = "  pinfold bundle export --policy tool /tmp/bundle -- python3 -c 'print(1)'",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct pin_front_options),
    .least_arguments = 1,
    .most_arguments = SIZE_MAX,
    .run = run_export,
};

static int run_check(const struct pin_invocation *invocation) {
    const struct pin_front_options *values = invocation->values;
    struct pin_front front = PIN_FRONT_NONE;
    struct pin_front_options bundled = *values;
    static struct pin_findings found; /* 40 KiB that a run without findings never touches */
    bundled.bundle = invocation->arguments[0];
    front.request.publishes = front.request.records = front.request.hands_secrets =
        front.request.records_calls = true;
    bool ok = pin_front_bundle(&front, &bundled, invocation->arguments + 1, 0, &found);
    int code = ok ? 0 : pin_report_findings(&found, values->json);
    if (ok)
        (void)puts(values->json ? "{\"ok\":true}" : "the policy admits this bundle");
    pin_front_free(&front);
    return code;
}

const struct pin_verb pin_verb_bundle_check = {
    .name = "bundle check",
    .synopsis = "DIR",
    .summary = "whether the policy would admit an OCI bundle, and what it objects to",
    .description = "Exit code 0: admitted; 125: refused, with a line for every field that asks for too much.",
    .example = "  pinfold bundle check --policy tool /srv/bundles/web",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct pin_front_options),
    .least_arguments = 1,
    .most_arguments = 1,
    .run = run_check,
};
