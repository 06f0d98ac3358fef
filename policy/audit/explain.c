#include "policy/audit/explain.h"
#include "policy/label_rules.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "policy/audit/paths.h"
#include "policy/audit/why_parts.h"
#include "policy/policy_write.h"
#include "policy/publish.h"
#include "policy/words.h"

static const char *const tone_names[] = {
    [PIN_EXPLAIN_CAN] = "can",
    [PIN_EXPLAIN_CANNOT] = "cannot",
    [PIN_EXPLAIN_LIMIT] = "limit",
};
_Static_assert(PIN_COUNT(tone_names) == PIN_EXPLAIN_TONE_COUNT, "every tone has a name");

static const char *const group_titles[] = {
    [PIN_EXPLAIN_FILES] = "Files",
    [PIN_EXPLAIN_NETWORK] = "Network",
    [PIN_EXPLAIN_CALLS] = "System calls",
    [PIN_EXPLAIN_IDENTITY] = "Identity and privileges",
    [PIN_EXPLAIN_RESOURCES] = "Resources",
    [PIN_EXPLAIN_ENVIRONMENT] = "Environment and secrets",
    [PIN_EXPLAIN_RECORD] = "Output and records",
};
_Static_assert(PIN_COUNT(group_titles) == PIN_EXPLAIN_GROUP_COUNT, "every group has a title");

const char *pin_explain_group_title(enum pin_explain_group group) {
    return group_titles[group];
}

struct writer {
    struct pin_explain *explain;
    const struct pin_reach *reach;
    const struct pin_policy *policy;
};

__attribute__((format(printf, 5, 6))) static void
say(const struct writer *writer, enum pin_explain_group group, enum pin_explain_tone tone,
    const struct pin_place *place, const char *format, ...) {
    struct pin_arena *arena = &writer->explain->arena;
    struct pin_explain_lines *lines = &writer->explain->groups[group];
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct pin_explain_line *line = pin_arena_grow(arena, &lines->list, &lines->count, sizeof(*line));
    line->tone = tone;
    line->text = pin_arena_strdup(arena, text);
    if (place != NULL)
        line->place = *place;
}

static const struct pin_place *at(const struct writer *writer, enum pin_field field) {
    return &writer->policy->places[field];
}

/* A value without the quotes of JSON: "512MiB" as 512MiB. */
static const char *value(const struct writer *writer, enum pin_field field) {
    struct pin_arena *arena = &writer->explain->arena;
    const char *text = pin_policy_value_text(arena, writer->policy, field);
    size_t length = strlen(text);
    if (length >= 2 && text[0] == '"')
        return pin_arena_strndup(arena, text + 1, length - 2);
    return text;
}

/* --- files --- */

static void say_workspace(const struct writer *writer) {
    static const struct {
        enum pin_explain_tone tone;
        const char *text;
    } rows[] = {
        [PIN_ACCESS_NONE] = {PIN_EXPLAIN_CANNOT,
                             "It gets no workspace: no directory of the host's to work in." },
        [PIN_ACCESS_READ] = {PIN_EXPLAIN_CAN,
                             "A run may bring a workspace, which it can read at /workspace."},
        [PIN_ACCESS_COW] = {PIN_EXPLAIN_CAN,
                             "A run may bring a workspace at /workspace; changes go to a copy that is thrown "
                            "away, kept or merged as the run asks."                         },
        [PIN_ACCESS_WRITE] = {PIN_EXPLAIN_CAN,
                             "A run may bring a workspace at /workspace, in which it can read, "
                              "change and delete the host's files."                         },
    };
    _Static_assert(PIN_COUNT(rows) == PIN_ACCESS_COUNT, "every access has its words");
    enum pin_access access = writer->policy->filesystem.workspace;
    say(writer, PIN_EXPLAIN_FILES, rows[access].tone, at(writer, PIN_FIELD_WORKSPACE_ACCESS), "%s",
        rows[access].text);
}

static void say_files(const struct writer *writer) {
    const struct pin_policy *policy = writer->policy;
    bool overlay = policy->filesystem.root == PIN_ROOT_OVERLAY;
    say(writer, PIN_EXPLAIN_FILES, PIN_EXPLAIN_CAN, at(writer, PIN_FIELD_IMAGES),
        "It sees the files of its image%s, and no file of the host that isn't named here.",
        !overlay ? " and can't change them"
        : policy->filesystem.root_storage == PIN_ROOT_ON_DISK
            ? ", and can change them in an overlay on the host's disk that is thrown away"
            : ", and can change them in an overlay that is thrown away");
    say_workspace(writer);
    for (size_t i = 0; i < policy->filesystem.write.count; i++) {
        const struct pin_string *entry = &policy->filesystem.write.items[i];
        struct pin_path_fate fate = pin_path_judge(policy, entry->text);
        if (fate.layer == PIN_PATH_SCRATCH)
            say(writer, PIN_EXPLAIN_FILES, PIN_EXPLAIN_CAN, &entry->place,
                "It can write to %s: memory of its own, at most %s, gone after the run.", entry->text,
                value(writer, PIN_FIELD_FILESYSTEM_TMP));
        else if (fate.layer == PIN_PATH_ROOT && overlay)
            say(writer, PIN_EXPLAIN_FILES, PIN_EXPLAIN_CAN, &entry->place,
                "It can write below %s, in the overlay, where the image's permissions let it.", entry->text);
    }
    for (size_t i = 0; i < policy->filesystem.mount_count; i++) {
        const struct pin_mount_rule *mount = &policy->filesystem.mounts[i];
        struct pin_path_fate fate = pin_path_judge(policy, mount->target);
        say(writer, PIN_EXPLAIN_FILES, PIN_EXPLAIN_CAN, &mount->place, "It can read %s%s of the host, at %s.",
            pin_path_writable(&fate) ? "and change " : "", mount->source, mount->target);
    }
    say(writer, PIN_EXPLAIN_FILES, PIN_EXPLAIN_CANNOT, NULL,
        "It can't see other processes' files: /proc shows the sandbox's own, /dev a few harmless nodes.");
}

/* --- network --- */

#define SHOWN_RULES 200

static void say_rule(const struct writer *writer, const struct pin_egress_rule *rule) {
    const char *text = pin_why_egress_text(&writer->explain->arena, rule);
    if (rule->host == NULL)
        say(writer, PIN_EXPLAIN_NETWORK, PIN_EXPLAIN_CAN, &rule->place,
            "It can reach the addresses %s, private or not.", text);
    else
        say(writer, PIN_EXPLAIN_NETWORK, PIN_EXPLAIN_CAN, &rule->place, "It can connect to %s%s.", text,
            rule->host[0] == '*' ? ", whatever stands for the *" : "");
}

/* What a rule lets pass that is stopped where nothing is said, and its budget. */
static void say_terms(const struct writer *writer, const struct pin_egress_rule *rule) {
    struct pin_arena *arena = &writer->explain->arena;
    const char *text = pin_why_egress_text(arena, rule), *passes = "";
    if (rule->inspect == PIN_INSPECT_NONE)
        say(writer, PIN_EXPLAIN_NETWORK, PIN_EXPLAIN_CAN, &rule->place,
            "What it sends to %s isn't looked into: a server may forward it to another host of its own.",
            text);
    for (unsigned i = 0; pin_accept_name(i) != NULL; i++)
        if ((rule->accept >> i & 1) != 0)
            passes =
                pin_arena_printf(arena, "%s%s%s", passes, *passes != '\0' ? ", " : "", pin_accept_name(i));
    if (*passes != '\0')
        say(writer, PIN_EXPLAIN_NETWORK, PIN_EXPLAIN_CAN, &rule->place,
            "Where %s expects TLS, this passes all the same: %s.", text, passes);
    if (rule->budget != NULL)
        say(writer, PIN_EXPLAIN_NETWORK, PIN_EXPLAIN_CANNOT, &rule->budget->place,
            "To %s it can't go beyond the budget %s.", text,
            pin_policy_item_text(arena, PIN_FIELD_BUDGETS, rule->budget));
}

static void say_published(const struct writer *writer) {
    const struct pin_strings *publish = &writer->policy->network.publish;
    for (size_t i = 0; i < publish->count; i++) {
        struct pin_publish one;
        const char *text = publish->items[i].text;
        if (!pin_publish_parse(text, &one)) /* a site's "*" */
            continue;
        say(writer, PIN_EXPLAIN_NETWORK, PIN_EXPLAIN_CAN, &publish->items[i].place,
            "%s can connect to its port %u, at %s%s.",
            one.at == PIN_PUBLISH_UNIX ? "Its owner on the host" : "Every user of the host", one.port,
            strchr(text, '=') + 1,
            one.at != PIN_PUBLISH_UNIX && one.host_port == 0 ? " (a port that the kernel picks)" : "");
    }
    if (publish->count == 0)
        say(writer, PIN_EXPLAIN_NETWORK, PIN_EXPLAIN_CANNOT, at(writer, PIN_FIELD_PUBLISH),
            "Nobody can connect in.");
}

static void say_network(const struct writer *writer) {
    say_published(writer);
    const struct pin_policy *policy = writer->policy;
    size_t count = policy->network.egress_count;
    if (count == 0) {
        say(writer, PIN_EXPLAIN_NETWORK, PIN_EXPLAIN_CANNOT, at(writer, PIN_FIELD_EGRESS),
            "Nothing leaves: no host can be reached, and no name be resolved.");
        return;
    }
    for (size_t i = 0; i < count && i < SHOWN_RULES; i++)
        say_rule(writer, &policy->network.egress[i]);
    for (size_t i = 0; i < count && i < SHOWN_RULES; i++)
        say_terms(writer, &policy->network.egress[i]);
    if (count > SHOWN_RULES)
        say(writer, PIN_EXPLAIN_NETWORK, PIN_EXPLAIN_CAN, at(writer, PIN_FIELD_EGRESS),
            "And to the destinations of %zu more rules.", count - SHOWN_RULES);
    for (size_t i = 0; i < policy->network.deny_count && i < SHOWN_RULES; i++)
        say(writer, PIN_EXPLAIN_NETWORK, PIN_EXPLAIN_CANNOT, &policy->network.deny[i].place,
            "It can't reach %s, whatever else is allowed.",
            pin_why_egress_text(&writer->explain->arena, &policy->network.deny[i]));
    say(writer, PIN_EXPLAIN_NETWORK, PIN_EXPLAIN_CANNOT, NULL,
        "No name leads to a private, local or metadata address unless a range above names that address. "
        "Nothing "
        "else leaves.");
}

/* --- system calls --- */

static void say_groups(const struct writer *writer) {
    const struct pin_reach *reach = writer->reach;
    for (size_t i = 0; i < pin_syscall_groups_count; i++) {
        const struct pin_syscall_set *group = &pin_syscall_groups[i];
        size_t known = 0, open = 0, some = 0;
        for (size_t j = 0; j < group->count; j++) {
            known += pin_syscalls[group->rows[j]].number[reach->arch] >= 0;
            open += reach->calls[group->rows[j]] != PIN_REACH_NONE;
            some += reach->calls[group->rows[j]] == PIN_REACH_SOME;
        }
        if (open == 0)
            continue;
        say(writer, PIN_EXPLAIN_CALLS, PIN_EXPLAIN_CAN, at(writer, PIN_FIELD_SYSCALLS_BASELINE),
            "%s, %s: %zu of %zu calls%s.", group->name, group->summary, open, known,
            some == 0 ? ""
            : some == 1
                ? ", one of them with some arguments only"
                : pin_arena_printf(&writer->explain->arena, ", %zu of them with some arguments only", some));
    }
}

static void say_calls(const struct writer *writer) {
    const struct pin_policy *policy = writer->policy;
    const struct pin_reach *reach = writer->reach;
    const char *walls = "";
    size_t open = 0, known = 0;
    for (size_t i = 0; i < pin_syscalls_count; i++) {
        known += pin_syscalls[i].number[reach->arch] >= 0;
        open += reach->calls[i] != PIN_REACH_NONE;
        if (reach->calls[i] != PIN_REACH_NONE && pin_syscalls[i].never != NULL)
            walls = pin_arena_printf(&writer->explain->arena, "%s%s%s", walls, *walls != '\0' ? ", " : "",
                                     pin_syscalls[i].name);
    }
    say(writer, PIN_EXPLAIN_CALLS, PIN_EXPLAIN_CAN, at(writer, PIN_FIELD_SYSCALLS_BASELINE),
        "It can make %zu of %zu system calls (baseline '%s'); any other one %s.", open, known,
        policy->syscalls.baseline,
        policy->syscalls.on_deny == PIN_ON_DENY_KILL ? "kills the process" : "answers with an error");
    say_groups(writer);
    if (*walls != '\0')
        say(writer, PIN_EXPLAIN_CALLS, PIN_EXPLAIN_CAN, at(writer, PIN_FIELD_SYSCALLS_BASELINE),
            "Among them are calls that reach through the wall: %s.", walls);
    else
        say(writer, PIN_EXPLAIN_CALLS, PIN_EXPLAIN_CANNOT, NULL,
            "It can't make namespaces, mounts, io_uring rings, BPF programs or kernel modules, trace others, "
            "or "
            "read the kernel's log.");
}

/* --- identity --- */

/* What a bundle that an engine brings may have beside the rest. */
static void say_engine(const struct writer *writer) {
    const struct pin_policy *policy = writer->policy;
    for (unsigned i = 0; i < PIN_SPACE_COUNT; i++)
        if ((policy->engine.shares >> i & 1) != 0)
            say(writer, PIN_EXPLAIN_IDENTITY, PIN_EXPLAIN_CAN, at(writer, PIN_FIELD_ENGINE_SHARES),
                "Beneath an engine it may be in the host's %s namespace.", pin_space_words[i]);
    for (size_t i = 0; i < policy->engine.write.count; i++)
        say(writer, PIN_EXPLAIN_FILES, PIN_EXPLAIN_CAN, &policy->engine.write.items[i].place,
            "Beneath an engine it may write to the host below %s.", policy->engine.write.items[i].text);
    for (size_t i = 0; i < policy->engine.read.count; i++)
        say(writer, PIN_EXPLAIN_FILES, PIN_EXPLAIN_CAN, &policy->engine.read.items[i].place,
            "Beneath an engine it may read what lies on the host below %s.",
            policy->engine.read.items[i].text);
    for (size_t i = 0; i < policy->engine.hooks.count; i++)
        say(writer, PIN_EXPLAIN_IDENTITY, PIN_EXPLAIN_CAN, &policy->engine.hooks.items[i].place,
            "An engine may have %s run on the host.", policy->engine.hooks.items[i].text);
    for (size_t i = 0; i < policy->engine.cgroups.count; i++)
        say(writer, PIN_EXPLAIN_RESOURCES, PIN_EXPLAIN_CAN, &policy->engine.cgroups.items[i].place,
            "An engine may put its group below %s, where the limits of that place hold as well.",
            policy->engine.cgroups.items[i].text);
    if (policy->engine.unfiltered)
        say(writer, PIN_EXPLAIN_CALLS, PIN_EXPLAIN_CAN, at(writer, PIN_FIELD_ENGINE_UNFILTERED),
            "A bundle without a filter of its own is taken; this policy's holds for it.");
}

static void say_identity(const struct writer *writer) {
    const struct pin_policy *policy = writer->policy;
    say(writer, PIN_EXPLAIN_IDENTITY, PIN_EXPLAIN_CAN, at(writer, PIN_FIELD_USER),
        "It runs as user %u and group %u of the sandbox, %s.", policy->identity.user, policy->identity.group,
        policy->identity.ids == 1
            ? "the only ids that it has; on the host it is never root"
            : pin_arena_printf(&writer->explain->arena,
                               "with %u ids inside; on the host none of them is root", policy->identity.ids));
    if (policy->capabilities == 0)
        say(writer, PIN_EXPLAIN_IDENTITY, PIN_EXPLAIN_CANNOT, at(writer, PIN_FIELD_CAPABILITIES),
            "It holds no capability and can't gain one: set-id programs have no effect.");
    for (unsigned i = 0; i < PIN_CAPABILITY_COUNT; i++)
        if ((policy->capabilities >> i & 1) != 0)
            say(writer, PIN_EXPLAIN_IDENTITY, PIN_EXPLAIN_CAN,
                policy->capability_places[i].file != NULL ? &policy->capability_places[i]
                                                          : at(writer, PIN_FIELD_CAPABILITIES),
                "It holds %s, inside the sandbox.", pin_capability_name(i));
    if (policy->privileged)
        say(writer, PIN_EXPLAIN_IDENTITY, PIN_EXPLAIN_CAN, at(writer, PIN_FIELD_PRIVILEGED),
            "A bundle may ask for a privileged sandbox, which has hardly any walls.");
    say_engine(writer);
    for (unsigned i = 0; i < PIN_PROTECT_COUNT; i++)
        if ((policy->optional >> i & 1) != 0)
            say(writer, PIN_EXPLAIN_IDENTITY, PIN_EXPLAIN_CAN, at(writer, PIN_FIELD_OPTIONAL),
                "It runs without the protection '%s' where the host lacks it.",
                pin_protection_name((enum pin_protection)i));
}

/* --- resources --- */

static void say_resources(const struct writer *writer) {
    static const struct {
        enum pin_field field;
        const char *what;
    } rows[] = {
        {PIN_FIELD_MEMORY,    "Memory"                            },
        {PIN_FIELD_SWAP,      "Swap space"                        },
        {PIN_FIELD_CPUS,      "Processors"                        },
        {PIN_FIELD_PIDS,      "Processes and threads"             },
        {PIN_FIELD_FILES,     "Open files of a process"           },
        {PIN_FIELD_WALL_TIME, "Time"                              },
        {PIN_FIELD_CPU_TIME,  "Processor time"                    },
        {PIN_FIELD_STDOUT,    "Standard output"                   },
        {PIN_FIELD_STDERR,    "Standard error"                    },
        {PIN_FIELD_CORE,      "A core file"                       },
        {PIN_FIELD_GRACE,     "Time to end in before it is killed"},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        const char *most = value(writer, rows[i].field);
        bool none = strcmp(most, "0") == 0;
        if (strcmp(most, "unlimited") == 0)
            say(writer, PIN_EXPLAIN_RESOURCES, PIN_EXPLAIN_CAN, at(writer, rows[i].field),
                "%s: without limit.", rows[i].what);
        else
            say(writer, PIN_EXPLAIN_RESOURCES, PIN_EXPLAIN_LIMIT, at(writer, rows[i].field), "%s: %s%s.",
                rows[i].what, none ? "none" : "at most ", none ? "" : most);
    }
}

/* --- environment, output --- */

static void say_environment(const struct writer *writer) {
    const struct pin_policy *policy = writer->policy;
    for (size_t i = 0; i < policy->environment.pass.count; i++)
        say(writer, PIN_EXPLAIN_ENVIRONMENT, PIN_EXPLAIN_CAN, &policy->environment.pass.items[i].place,
            "It gets the host's variable %s.", policy->environment.pass.items[i].text);
    for (size_t i = 0; i < policy->environment.set_count; i++)
        say(writer, PIN_EXPLAIN_ENVIRONMENT, PIN_EXPLAIN_CAN, &policy->environment.set[i].place,
            "It gets the variable %s, with the policy's value.", policy->environment.set[i].name);
    for (size_t i = 0; i < policy->environment.refuse.count; i++)
        say(writer, PIN_EXPLAIN_ENVIRONMENT, PIN_EXPLAIN_CANNOT, &policy->environment.refuse.items[i].place,
            "No variable that matches %s is set.", policy->environment.refuse.items[i].text);
    if (policy->secrets.count == 0)
        say(writer, PIN_EXPLAIN_ENVIRONMENT, PIN_EXPLAIN_CANNOT, at(writer, PIN_FIELD_SECRETS),
            "It gets no secrets.");
    for (size_t i = 0; i < policy->secrets.count; i++)
        say(writer, PIN_EXPLAIN_ENVIRONMENT, PIN_EXPLAIN_CAN, &policy->secrets.items[i].place,
            "A run may hand it the secret %s%s.", policy->secrets.items[i].text,
            policy->network.egress_count > 0 ? ", which it can send to each destination above" : "");
}

static void say_label(void *context, const struct pin_string *label, const char *pointer, const char *cause) {
    (void)pointer;
    say(context, PIN_EXPLAIN_RECORD, PIN_EXPLAIN_LIMIT, &label->place, "%c%s must carry the label %s.", 'A',
        cause != NULL ? cause + 1 : " run", label->text);
}

static void say_record(const struct writer *writer) {
    const struct pin_policy *policy = writer->policy;
    say(writer, PIN_EXPLAIN_RECORD, policy->tty ? PIN_EXPLAIN_CAN : PIN_EXPLAIN_CANNOT,
        at(writer, PIN_FIELD_TTY), policy->tty ? "A run may ask for a terminal." : "It gets no terminal.");
    say(writer, PIN_EXPLAIN_RECORD, PIN_EXPLAIN_LIMIT, at(writer, PIN_FIELD_ON_OUTPUT_CAP),
        "Output beyond its limit %s.",
        policy->resources.on_output_cap == PIN_ON_CAP_KILL ? "ends the run" : "is discarded, and said to be");
    for (size_t i = 0; i < policy->audit.record.count; i++)
        say(writer, PIN_EXPLAIN_RECORD, PIN_EXPLAIN_LIMIT, &policy->audit.record.items[i].place,
            "The audit log records %s.", policy->audit.record.items[i].text);
    pin_labels_needed(policy, ~0u, say_label, (void *)(uintptr_t)writer);
}

void pin_explain_make(struct pin_explain *explain, const struct pin_reach *reach) {
    const struct writer writer = {explain, reach, reach->policy};
    say_files(&writer);
    say_network(&writer);
    say_calls(&writer);
    say_identity(&writer);
    say_resources(&writer);
    say_environment(&writer);
    say_record(&writer);
}

void pin_explain_free(struct pin_explain *explain) {
    pin_arena_free(&explain->arena);
}

void pin_explain_print(struct pin_buffer *to, const struct pin_explain *explain,
                       const struct pin_policy *policy) {
    static const char marks[] = {
        [PIN_EXPLAIN_CAN] = '+', [PIN_EXPLAIN_CANNOT] = '-', [PIN_EXPLAIN_LIMIT] = '='};
    char shown[2048];
    pin_buffer_printf(to, "What a run under the policy '%s' can do (+), can't do (-), and how much (=):\n",
                      policy->name);
    for (size_t i = 0; i < PIN_EXPLAIN_GROUP_COUNT; i++) {
        const struct pin_explain_lines *lines = &explain->groups[i];
        pin_buffer_printf(to, "\n%s\n", group_titles[i]);
        for (size_t j = 0; j < lines->count; j++)
            pin_buffer_printf(
                to, "  %c %s\n", marks[lines->list[j].tone],
                pin_escape(shown, sizeof(shown), lines->list[j].text, strlen(lines->list[j].text)));
    }
}

json_t *pin_explain_json(const struct pin_explain *explain, const struct pin_policy *policy) {
    json_t *groups = json_array();
    for (size_t i = 0; i < PIN_EXPLAIN_GROUP_COUNT; i++) {
        const struct pin_explain_lines *lines = &explain->groups[i];
        json_t *list = json_array();
        for (size_t j = 0; j < lines->count; j++) {
            char place[PIN_PLACE_TEXT];
            const struct pin_explain_line *line = &lines->list[j];
            json_t *object = json_pack("{s:s, s:s}", "tone", tone_names[line->tone], "text", line->text);
            json_object_set_new(object, "place",
                                line->place.file != NULL ? json_string(pin_place_print(place, &line->place))
                                                         : json_null());
            json_array_append_new(list, object);
        }
        json_array_append_new(groups, json_pack("{s:s, s:o}", "title", group_titles[i], "sentences", list));
    }
    return json_pack("{s:s, s:o}", "policy", policy->name, "groups", groups);
}
