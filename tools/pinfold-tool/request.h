/* request.h: from the text of a tool call to the bundle of its sandbox; what `call`, `prepare` and `serve`
 * share. */
#pragma once

#include "base/findings.h"
#include "runtime/tool/env.h"
#include "runtime/tool/request.h"
#include "tools/pinfold-tool/configure.h"
#include "tools/pinfold-tool/deps.h"
#include "tools/pinfold-tool/warm.h"
#include "tools/pinfold/front.h"

struct pin_call_options {
    struct pin_front_options front; /* first: PIN_FRONT_ROW */
    const char *receipt, *organisation, *configuration;
    bool audit_sync, recreate;
};

#define PIN_CALL_ROW(option, type, member, form, text)                                                       \
    { option, 0, type, offsetof(struct pin_call_options, member), form, text, NULL }

/* The rows of a verb that takes calls, and whose values are a struct pin_call_options. */
/* clang-format off */
#define PIN_CALL_ROWS \
    PIN_CALL_ROW("configuration", PIN_OPTION_TEXT, configuration, "NAME", \
             "the stored configuration (the request's, or the organisation's default)"), \
    PIN_CALL_ROW("organisation", PIN_OPTION_TEXT, organisation, "O", "whose configuration (the request's, or default)"), \
    PIN_FRONT_ROW("policy", 'p', PIN_OPTION_TEXT, policy, "P", \
                  "the policy: a built-in or installed name, or a file (the request's, the configuration's, or tool)", NULL), \
    PIN_FRONT_ROW("site", 0, PIN_OPTION_TEXT, site, "FILE", \
                  "the site's floor and ceiling over every policy (/etc/pinfold/site.json)", NULL), \
    PIN_FRONT_ROW("image", 0, PIN_OPTION_TEXT, image, "REF", "the image that the root is made from (host)", \
                  NULL), \
    PIN_FRONT_ROW("workspace", 'w', PIN_OPTION_TEXT, workspace, "DIR[:ro|:cow]", \
                  "show this directory at /workspace: read-write, read-only or copy-on-write", NULL), \
    PIN_FRONT_ROW("secret", 0, PIN_OPTION_TEXTS, secrets, "NAME[:env=V|:file]", "hand this secret in", NULL), \
    PIN_FRONT_ROW("secret-from-env", 0, PIN_OPTION_TEXTS, secret_variables, "NAME=VARIABLE", \
                  "this secret's value is in that variable of pinfold's own environment", NULL), \
    PIN_FRONT_ROW("egress", 0, PIN_OPTION_TEXTS, egress, "HOST:PORT", "let connections to this host leave", \
                  NULL), \
    PIN_FRONT_ROW("memory", 0, PIN_OPTION_SIZE, memory, "N", "at most this much memory", NULL), \
    PIN_FRONT_ROW("cpus", 0, PIN_OPTION_CPUS, cpus, "N", "at most this many processors", NULL), \
    PIN_FRONT_ROW("pids", 0, PIN_OPTION_COUNT, pids, "N", "at most this many processes and threads", NULL), \
    PIN_CALL_ROW("force-recreate", PIN_OPTION_FLAG, recreate, NULL, "install the requirements anew"), \
    PIN_CALL_ROW("receipt", PIN_OPTION_TEXT, receipt, "FILE", "write what was enforced, signed, into this new file"), \
    PIN_CALL_ROW("audit-sync", PIN_OPTION_FLAG, audit_sync, NULL, "each audit record is on the disk before the call goes on")
/* clang-format on */

enum pin_installs {
    PIN_INSTALLS,       /* what isn't there is installed: seconds may pass */
    PIN_INSTALLS_FOUND, /* a call whose requirements aren't installed yet doesn't resolve */
};

struct pin_call { /* zeroed at first; stays where it is */
    struct pin_tool_request request;
    struct pin_call_config config;
    struct pin_arena arena;
    struct pin_tool_env env;
    enum pin_installs installs;
    struct pin_call_deps deps;
    char **argv; /* of the runner */
    size_t arg_count;
    struct pin_front_options options; /* with what request and configuration say */
    struct pin_tool_shape shape;
};

/* The request's text: of a file, or of standard input (NULL or "-"). NULL with a finding. */
char *pin_call_read(const char *name, size_t *size, struct pin_findings *found);
/* Parses, and makes the bundle in `front`, which is PIN_FRONT_NONE at first. */
bool pin_call_resolve(struct pin_call *call, struct pin_front *front, const char *text, size_t size,
                      const struct pin_call_options *values, struct pin_findings *found);
void pin_call_release(struct pin_call *call);
/* Of such a call; it borrows both. */
struct pin_warm pin_call_warm(struct pin_call *call, const struct pin_front *front);
