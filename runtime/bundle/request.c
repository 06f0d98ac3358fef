#include "runtime/bundle/request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "policy/checks.h"
#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "policy/json_source.h"
#include "policy/label_rules.h"
#include "policy/policy_order.h"
#include "policy/policy_read.h"
#include "runtime/secrets/secret_spec.h"

#define WHERE_TEXT sizeof(((struct pin_error *)0)->pointer)

/* "FILE:LINE:COLUMN /pointer" of what the policy says. */
static const char *where(char to[WHERE_TEXT], const struct pin_place *place, const char *pointer) {
    pin_json_where(to, WHERE_TEXT, place->file != NULL ? place->file : "default", place->line, place->column,
                   pointer);
    return to;
}

/* A finding that points at the field of the ceiling that stands in the way. */
static struct pin_error *refuse(struct pin_findings *found, const struct pin_policy *ceiling,
                                enum pin_field field) {
    char place[WHERE_TEXT];
    struct pin_error *err =
        pin_find(found, PIN_ERROR_REFUSED, where(place, &ceiling->places[field], pin_field_pointer(field)),
                 NULL, "%s", "");
    if (err != NULL)
        err->message[0] = '\0';
    return err;
}

static char *print_count(char to[PIN_UNITS_TEXT], uint64_t value) {
    (void)snprintf(to, PIN_UNITS_TEXT, "%" PRIu64, value);
    return to;
}

static char *print_millicpus(char to[PIN_UNITS_TEXT], uint64_t value) {
    return pin_print_cpus(to, (uint32_t)value);
}

static char *print_limit(char to[PIN_UNITS_TEXT], char *(*print)(char *, uint64_t), uint64_t value) {
    if (value != PIN_UNLIMITED)
        return print(to, value);
    (void)snprintf(to, PIN_UNITS_TEXT, "unlimited");
    return to;
}

/* A number that a request may ask for, up to the policy's. */
struct amount {
    const char *option;
    enum pin_field field;
    uint64_t value, most; /* PIN_UNLIMITED: no limit */
    char *(*print)(char *, uint64_t);
};

static bool amount_is_granted(const struct amount *amount, const struct pin_policy *ceiling,
                              struct pin_findings *found) {
    if (amount->value == 0) {
        (void)pin_find(found, PIN_ERROR_INVALID, amount->option, "ask for more than nothing",
                       "%s 0 leaves the command nothing to run with", amount->option);
        return false;
    }
    if (amount->value <= amount->most)
        return true;
    char value[PIN_UNITS_TEXT], most[PIN_UNITS_TEXT];
    struct pin_error *err = refuse(found, ceiling, amount->field);
    if (err == NULL)
        return false;
    (void)snprintf(err->message, sizeof(err->message), "%s %s is more than the policy's %s", amount->option,
                   print_limit(value, amount->print, amount->value),
                   print_limit(most, amount->print, amount->most));
    (void)pin_hint(err, "ask for at most %s, or raise %s in the policy", most,
                   pin_field_pointer(amount->field));
    return false;
}

static const struct pin_place by_request = {.file = "command line"};

static void narrow_amounts(struct pin_policy *asked, const struct pin_policy *ceiling,
                           const struct pin_request *request, struct pin_findings *found) {
    const struct pin_policy *c = ceiling;
    const struct pin_request *r = request;
    uint64_t cpus = c->resources.millicpus == 0 ? PIN_UNLIMITED : c->resources.millicpus;
    const struct amount memory = {"--memory", PIN_FIELD_MEMORY, r->memory_bytes, c->resources.memory_bytes,
                                  pin_print_size};
    const struct amount millicpus = {"--cpus", PIN_FIELD_CPUS, r->millicpus, cpus, print_millicpus};
    const struct amount pids = {"--pids", PIN_FIELD_PIDS, r->pids, c->resources.pids, print_count};
    const struct amount wall_time = {"--timeout", PIN_FIELD_WALL_TIME, r->wall_time_ns,
                                     c->resources.wall_time_ns, pin_print_time};
    if (r->has_memory && amount_is_granted(&memory, ceiling, found))
        asked->resources.memory_bytes = r->memory_bytes;
    if (r->has_cpus && amount_is_granted(&millicpus, ceiling, found))
        asked->resources.millicpus = r->millicpus;
    if (r->has_pids && amount_is_granted(&pids, ceiling, found))
        asked->resources.pids = r->pids;
    if (r->has_wall_time && amount_is_granted(&wall_time, ceiling, found))
        asked->resources.wall_time_ns = r->wall_time_ns;
    const struct {
        bool given;
        enum pin_field field;
    } rows[] = {
        {r->has_memory,    PIN_FIELD_MEMORY   },
        {r->has_cpus,      PIN_FIELD_CPUS     },
        {r->has_pids,      PIN_FIELD_PIDS     },
        {r->has_wall_time, PIN_FIELD_WALL_TIME},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (rows[i].given)
            asked->places[rows[i].field] = by_request;
}

static const char *const access_words[] = {
    [PIN_ACCESS_NONE] = "no workspace",
    [PIN_ACCESS_READ] = "a read-only one",
    [PIN_ACCESS_COW] = "a copy-on-write one",
    [PIN_ACCESS_WRITE] = "a read-write one",
};
_Static_assert(PIN_COUNT(access_words) == PIN_ACCESS_COUNT, "every access has its words");

static void narrow_workspace(struct pin_policy *asked, const struct pin_policy *ceiling,
                             const struct pin_request *request, struct pin_findings *found) {
    enum pin_access most = ceiling->filesystem.workspace, access = request->workspace.access;
    if (request->workspace.source == NULL) {
        if (!request->bundle)
            asked->filesystem.workspace = PIN_ACCESS_NONE;
        return;
    }
    if (request->workspace.source[0] != '/')
        (void)pin_find(found, PIN_ERROR_INVALID, "--workspace", "give an absolute path",
                       "the workspace '%s' is not an absolute path", request->workspace.source);
    if (most == PIN_ACCESS_NONE || access > most) {
        struct pin_error *err = refuse(found, ceiling, PIN_FIELD_WORKSPACE_ACCESS);
        if (err == NULL)
            return;
        (void)snprintf(err->message, sizeof(err->message), "--workspace asks for %s; the policy grants %s",
                       access_words[access == PIN_ACCESS_NONE ? PIN_ACCESS_READ : access],
                       access_words[most]);
        if (most == PIN_ACCESS_NONE)
            (void)pin_hint(err, "run without --workspace, or grant %s in the policy",
                           pin_field_pointer(PIN_FIELD_WORKSPACE_ACCESS));
        else
            (void)pin_hint(err, "write --workspace DIR%s", most == PIN_ACCESS_READ ? ":ro" : ":cow or :ro");
        return;
    }
    asked->filesystem.workspace = access == PIN_ACCESS_NONE ? most : access;
    if (request->workspace.on_exit != PIN_ON_EXIT_DISCARD && asked->filesystem.workspace != PIN_ACCESS_COW)
        (void)pin_find(found, PIN_ERROR_USAGE, "--on-exit", "write --workspace DIR:cow",
                       "--on-exit is for a copy-on-write workspace");
}

static void narrow_streams(struct pin_policy *asked, const struct pin_policy *ceiling,
                           const struct pin_request *request, struct pin_findings *found) {
    if (request->tty && !ceiling->tty) {
        struct pin_error *err = refuse(found, ceiling, PIN_FIELD_TTY);
        if (err != NULL) {
            (void)snprintf(err->message, sizeof(err->message), "--tty asks for a terminal");
            (void)pin_hint(err, "run without --tty, or set %s in the policy",
                           pin_field_pointer(PIN_FIELD_TTY));
        }
    }
    if (!request->bundle)
        asked->tty = request->tty && ceiling->tty;
    if (!request->has_frames && request->bundle)
        return;
    if (!request->has_frames) {
        asked->frames = ceiling->frames & (PIN_FRAMES_STDOUT | PIN_FRAMES_STDOUT_LETTA);
        return;
    }
    if ((request->frames & ~ceiling->frames) != 0) {
        struct pin_error *err = refuse(found, ceiling, PIN_FIELD_FRAMES);
        if (err != NULL) {
            (void)snprintf(err->message, sizeof(err->message),
                           "--frames asks for frames where the policy reads none");
            (void)pin_hint(err, "see %s in the policy", pin_field_pointer(PIN_FIELD_FRAMES));
        }
        return;
    }
    asked->frames = request->frames;
}

static void narrow_identity(struct pin_policy *asked, const struct pin_request *request) {
    if (request->bundle)
        return;
    if (request->has_user)
        asked->identity.user = request->user;
    if (request->has_group)
        asked->identity.group = request->group;
}

static void check_label(const struct pin_pair *label, struct pin_findings *found) {
    char shown[160];
    if (!pin_is_name(label->key))
        (void)pin_find(found, PIN_ERROR_INVALID, "--label", "letters, digits, '.', '_' and '-', at most 63",
                       "'%s' is no label's name",
                       pin_escape(shown, sizeof(shown), label->key, strlen(label->key)));
    if (strlen(label->value) > 256)
        (void)pin_find(found, PIN_ERROR_INVALID, "--label", "at most 256 bytes",
                       "the value of label '%s' is too long",
                       pin_escape(shown, sizeof(shown), label->key, strlen(label->key)));
}

struct label_check {
    const struct pin_pair *labels;
    size_t count;
    struct pin_findings *found;
};

static void check_needed(void *context, const struct pin_string *needed, const char *pointer,
                         const char *cause) {
    const struct label_check *check = context;
    char place[WHERE_TEXT];
    for (size_t i = 0; i < check->count; i++)
        if (strcmp(check->labels[i].key, needed->text) == 0)
            return;
    struct pin_error *err = pin_find(check->found, PIN_ERROR_REFUSED, where(place, &needed->place, pointer),
                                     NULL, "the policy requires the label '%s'%s%s", needed->text,
                                     cause != NULL ? " of " : "", cause != NULL ? cause : "");
    if (err != NULL)
        (void)pin_hint(err, "add --label %s=VALUE", needed->text);
}

void pin_request_check_labels(const struct pin_policy *ceiling, unsigned causes,
                              const struct pin_pair *labels, size_t count, struct pin_findings *found) {
    struct label_check check = {labels, count, found};
    pin_labels_needed(ceiling, causes, check_needed, &check);
}

static void check_labels(const struct pin_policy *ceiling, const struct pin_policy *asked,
                         const struct pin_request *request, struct pin_findings *found) {
    unsigned causes = PIN_LABELS_ALWAYS;
    if (request->secret_count > 0)
        causes |= PIN_LABELS_FOR_SECRETS;
    if (asked->network.egress_count > 0)
        causes |= PIN_LABELS_FOR_EGRESS;
    if (request->label_count > PIN_REQUEST_LABELS_MAX) {
        (void)pin_find(found, PIN_ERROR_INVALID, "--label", NULL, "%zu labels are more than %d",
                       request->label_count, PIN_REQUEST_LABELS_MAX);
        return;
    }
    for (size_t i = 0; i < request->label_count; i++)
        check_label(&request->labels[i], found);
    if (!request->bundle) /* which asks for itself */
        pin_request_check_labels(ceiling, causes, request->labels, request->label_count, found);
}

static void check_variable(const struct pin_policy *ceiling, const struct pin_pair *variable,
                           struct pin_findings *found) {
    char shown[160], place[WHERE_TEXT];
    (void)pin_escape(shown, sizeof(shown), variable->key, strlen(variable->key));
    if (!pin_is_variable(variable->key)) {
        (void)pin_find(found, PIN_ERROR_INVALID, "--env", "write --env NAME=VALUE",
                       "'%s' is no variable's name", shown);
        return;
    }
    for (size_t i = 0; i < ceiling->environment.refuse.count; i++) {
        const struct pin_string *refused = &ceiling->environment.refuse.items[i];
        if (!pin_glob_match(refused->text, variable->key))
            continue;
        (void)pin_find(found, PIN_ERROR_REFUSED, where(place, &refused->place, "/environment/refuse"),
                       "leave the variable out, or take the pattern out of the policy",
                       "the policy refuses the variable '%s' ('%s')", shown, refused->text);
        return;
    }
}

static void check_command(const struct pin_request *request, struct pin_findings *found) {
    if (request->arg_count == 0 && !request->bundle)
        (void)pin_find(found, PIN_ERROR_USAGE, "command", "write it after --", "there is no command to run");
    size_t bytes = 0;
    for (size_t i = 0; i < request->arg_count; i++)
        bytes += strlen(request->args[i]) + 1 + sizeof(char *);
    for (size_t i = 0; i < request->env_count; i++)
        if (request->env[i].value != NULL)
            bytes += strlen(request->env[i].key) + strlen(request->env[i].value) + 2 + sizeof(char *);
    if (bytes > PIN_REQUEST_STRINGS_BYTES)
        (void)pin_find(found, PIN_ERROR_INVALID, "command", "pass large data on stdin or in the workspace",
                       "arguments and environment are %zu bytes, more than %zu", bytes,
                       PIN_REQUEST_STRINGS_BYTES);
    if (request->cwd != NULL && request->cwd[0] != '/')
        (void)pin_find(found, PIN_ERROR_INVALID, "--cwd", "give an absolute path inside",
                       "the working directory '%s' is not absolute", request->cwd);
}

static bool is_hostname(const char *text) {
    size_t length = strlen(text);
    return length >= 1 && length <= 63 && text[0] != '-' && text[0] != '.' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") == length;
}

bool pin_request_rule_matches(const struct pin_image_rule *rule, const char *name, const char *digest) {
    if (strncmp(rule->pattern, "sha256:", 7) == 0)
        return digest != NULL && strcmp(rule->pattern, digest) == 0;
    return pin_glob_match(rule->pattern, name);
}

const struct pin_image_rule *pin_request_image_rule(const struct pin_policy *policy, const char *name,
                                                    const char *digest) {
    const struct pin_image_rule *signed_only = NULL;
    for (size_t i = 0; i < policy->image_count; i++) {
        const struct pin_image_rule *rule = &policy->images[i];
        if (!pin_request_rule_matches(rule, name, digest))
            continue;
        if (!rule->require_signature)
            return rule;
        if (signed_only == NULL)
            signed_only = rule;
    }
    return signed_only;
}

static void check_image(const struct pin_policy *ceiling, const struct pin_request *request,
                        struct pin_findings *found) {
    const char *name = request->image != NULL ? request->image : "host";
    const struct pin_image_rule *rule = pin_request_image_rule(ceiling, name, request->image_digest);
    char place[WHERE_TEXT], shown[160];
    (void)pin_escape(shown, sizeof(shown), name, strlen(name));
    if (rule == NULL) {
        (void)pin_find(found, PIN_ERROR_REFUSED, where(place, &ceiling->places[PIN_FIELD_IMAGES], "/images"),
                       "choose an image that the policy lists, or add this one to it",
                       "the policy doesn't list the image '%s'", shown);
    } else if (rule->require_signature && !request->image_signed) {
        (void)pin_find(found, PIN_ERROR_REFUSED, where(place, &rule->place, "/images"),
                       "sign the image with one of the rule's keys",
                       "the policy requires a signature of the image '%s'", shown);
    }
}

/* A call that is denied is told by the filter's asking; one that kills is told to nobody. */
static bool records_syscalls(const struct pin_policy *policy) {
    for (size_t i = 0; i < policy->audit.record.count; i++)
        if (strcmp(policy->audit.record.items[i].text, "syscalls") == 0)
            return true;
    return false;
}

void pin_request_check_supported(const struct pin_policy *policy, const struct pin_request *request,
                                 struct pin_findings *found) {
    const struct {
        bool asked;
        const char *pointer, *what;
    } rows[] = {
        {request->secret_count > 0 && !request->hands_secrets,                     "--secret",
         "handing over secrets by this front door"  },
        {records_syscalls(policy) && !request->records_calls,                      "/audit/record",
         "recording system calls by this front door"},
        {records_syscalls(policy) && policy->syscalls.on_deny == PIN_ON_DENY_KILL, "/syscalls/on_deny",
         "recording system calls whose denial kills"},
        {policy->audit.record.count > 0 && !request->records,                      "/audit/record",
         "the audit log of this front door"         },
        {policy->network.publish.count > 0 && !request->publishes,                 "/network/publish",
         "publishing ports by this front door"      },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (rows[i].asked)
            (void)pin_find(found, PIN_ERROR_UNSUPPORTED, rows[i].pointer, "leave it out",
                           "%s isn't in this build", rows[i].what);
}

static void check_secret_variable(const struct pin_policy *ceiling, const struct pin_secret_spec *spec,
                                  struct pin_findings *found) {
    const struct pin_pair variable = {spec->target, NULL};
    if (spec->form == PIN_SECRET_ENV)
        check_variable(ceiling, &variable, found);
}

void pin_request_check_secrets(const struct pin_policy *ceiling, const char *const *specs, size_t count,
                               struct pin_findings *found) {
    if (count > PIN_SECRETS_MAX)
        (void)pin_find(found, PIN_ERROR_INVALID, "--secret", "ask for fewer", "%zu secrets are more than %d",
                       count, PIN_SECRETS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct pin_secret_spec spec;
        struct pin_error err = {0};
        if (pin_secret_spec_parse(specs[i], &spec, &err))
            check_secret_variable(ceiling, &spec, found);
        else
            (void)pin_find(found, err.kind, "--secret", err.hint, "%s", err.message);
    }
}

/* A secret that isn't asked for isn't handed over, whatever the policy lists. */
static void narrow_secrets(struct pin_policy *asked, const struct pin_policy *ceiling,
                           const struct pin_request *request, struct pin_findings *found) {
    if (request->bundle) /* judged with what the bundle asks for itself */
        return;
    asked->secrets.items =
        pin_arena_array(&asked->arena, request->secret_count, sizeof(*asked->secrets.items));
    asked->secrets.count = 0;
    for (size_t i = 0; i < request->secret_count; i++) {
        struct pin_secret_spec spec;
        struct pin_error unread = {0}; /* a finding says it below: what is no name isn't judged as one too */
        if (pin_secret_spec_parse(request->secrets[i], &spec, &unread))
            asked->secrets.items[asked->secrets.count++] =
                (struct pin_string){pin_arena_strdup(&asked->arena, spec.name), by_request};
    }
    pin_request_check_secrets(ceiling, request->secrets, request->secret_count, found);
}

/* What is asked for instead of all that the policy grants; whether it grants that is the order's to judge. */
static void narrow_egress(struct pin_policy *asked, const struct pin_request *request,
                          struct pin_findings *found) {
    if (request->egress_count == 0)
        return;
    struct pin_egress_rule *rules = pin_arena_array(&asked->arena, request->egress_count, sizeof(*rules));
    size_t count = 0;
    for (size_t i = 0; i < request->egress_count; i++) {
        struct pin_error err = {0};
        if (pin_egress_parse(request->egress[i], &asked->arena, &rules[count], &err)) {
            pin_egress_inherit_terms(&rules[count], asked->network.egress, asked->network.egress_count);
            rules[count++].place = by_request;
        } else
            (void)pin_find(found, err.kind, "--egress", err.hint, "%s", err.message);
    }
    asked->network.egress = rules;
    asked->network.egress_count = count;
    asked->places[PIN_FIELD_EGRESS] = by_request;
}

/* "8080" stands for all that the policy lists for that port. */
static void publish_as_listed(struct pin_policy *asked, const struct pin_strings *granted, const char *port,
                              struct pin_findings *found) {
    size_t length = strlen(port), before = asked->network.publish.count;
    for (size_t i = 0; i < granted->count; i++)
        if (strncmp(granted->items[i].text, port, length) == 0 && granted->items[i].text[length] == '=')
            *(struct pin_string *)pin_arena_grow(&asked->arena, &asked->network.publish.items,
                                                 &asked->network.publish.count, sizeof(struct pin_string)) =
                granted->items[i];
    if (asked->network.publish.count == before)
        (void)pin_find(found, PIN_ERROR_REFUSED, "--publish", "add \"PORT=127.0.0.1:0\" to /network/publish",
                       "the policy publishes no port '%.16s'", port);
}

static void narrow_publish(struct pin_policy *asked, const struct pin_policy *ceiling,
                           const struct pin_request *request, struct pin_findings *found) {
    if (request->publish_count == 0)
        return;
    asked->network.publish = (struct pin_strings){0};
    for (size_t i = 0; i < request->publish_count; i++) {
        const char *text = request->publish[i];
        const char *fault = strchr(text, '=') == NULL ? NULL : pin_check_publish(text, false);
        if (fault != NULL)
            (void)pin_find(found, PIN_ERROR_INVALID, "--publish", NULL, "'%.80s': %s", text, fault);
        else if (strchr(text, '=') == NULL)
            publish_as_listed(asked, &ceiling->network.publish, text, found);
        else
            *(struct pin_string *)pin_arena_grow(&asked->arena, &asked->network.publish.items,
                                                 &asked->network.publish.count, sizeof(struct pin_string)) =
                (struct pin_string){text, by_request};
    }
    asked->places[PIN_FIELD_PUBLISH] = by_request;
}

struct pin_policy *pin_request_narrow(const struct pin_policy *ceiling, const struct pin_request *request,
                                      struct pin_findings *found) {
    size_t before = found->count + found->dropped;
    struct pin_policy *asked = pin_policy_copy(ceiling);
    pin_request_check_supported(ceiling, request, found);
    narrow_amounts(asked, ceiling, request, found);
    narrow_workspace(asked, ceiling, request, found);
    narrow_streams(asked, ceiling, request, found);
    narrow_identity(asked, request);
    narrow_egress(asked, request, found);
    narrow_publish(asked, ceiling, request, found);
    narrow_secrets(asked, ceiling, request, found);
    check_labels(ceiling, asked, request, found);
    for (size_t i = 0; i < request->env_count; i++)
        check_variable(ceiling, &request->env[i], found);
    check_command(request, found);
    if (!request->bundle)
        check_image(ceiling, request, found);
    if (request->hostname != NULL && !is_hostname(request->hostname))
        (void)pin_find(found, PIN_ERROR_INVALID, "--hostname", "letters, digits, '.' and '-', at most 63",
                       "this is no host name");
    /* What isn't judged above is judged by the one order over policies; and what is, once more. */
    size_t judged = found->count;
    if (pin_policy_narrower(asked, ceiling, found) && found->count + found->dropped == before)
        return asked;
    pin_wrap_findings(found, judged, "the request");
    pin_policy_free(asked);
    return NULL;
}
