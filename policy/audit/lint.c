#include "policy/audit/lint.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "policy/audit/lint_checks.h"
#include "policy/policy_write.h"

static const char *const severity_names[] = {
    [PIN_LINT_NOTE] = "note",
    [PIN_LINT_WARNING] = "warning",
    [PIN_LINT_ERROR] = "error",
};
_Static_assert(PIN_COUNT(severity_names) == PIN_LINT_SEVERITY_COUNT, "every severity has a name");

const char *pin_lint_severity_name(enum pin_lint_severity severity) {
    return severity_names[severity];
}

#define RULE(number, at, level, word, why, mend) [PIN_LINT_##at] = {number, word, PIN_LINT_##level, why, mend}

const struct pin_lint_rule pin_lint_rules[] = {
    RULE("PF001", SECRET_HOSTS, WARNING, "secret-without-host",
         "a secret isn't bound to a host: code inside can send it to every destination of the policy",
         "give each service that needs a secret a policy of its own, with that one destination"),
    RULE("PF003", WRITE_PARENT, WARNING, "write-over-parent",
         "a write path over a parent of the workspace or of a mount lets more be written than it seems to",
         "list the folders themselves in filesystem.write"),
    RULE("PF004", WALL_SYSCALL, WARNING, "syscall-breaks-wall",
         "the call reaches through the wall that the other layers make",
         "use the baseline \"build\" or a smaller one, or deny the call"),
    RULE("PF005", SHADOWED, NOTE, "shadowed-rule",
         "another rule grants all that this one grants; whoever takes this one out changes nothing",
         "remove the rule, or the wider one"),
    RULE("PF006", DEAD_ALLOW, WARNING, "denied-rule", "a deny rule beats it, so the rule grants nothing",
         "remove the rule, or narrow the deny rule"),
    RULE("PF007", NO_LIMIT, WARNING, "no-limit",
         "without a limit one sandbox can take all that the machine has",
         "set a limit; a request may always ask for less"),
    RULE("PF008", BROAD_CIDR, ERROR, "broad-range",
         "a range of so many addresses names no destination; of its addresses it opens the public ones, "
         "or those of the one special block that it lies in",
         "name the hosts, or the ranges that one owner holds"),
    RULE("PF009", SPECIAL_ADDRESS, WARNING, "special-address",
         "the rule opens addresses that no name may lead to: the host's own, the link's, or a cloud's "
         "metadata",
         "leave the range out, or narrow it to the one service that is meant"),
    RULE("PF010", MANY_PORTS, WARNING, "many-ports", "many ports of a host are many services of it",
         "list the ports that the tool uses"),
    RULE("PF011", CAPABILITY, WARNING, "capability",
         "a capability opens privileged kernel code, even though it only counts inside the sandbox",
         "drop the capability, or give it to a policy that only this one tool uses"),
    RULE("PF012", PRIVILEGED, ERROR, "privileged", "a privileged sandbox has hardly any walls",
         "set privileged to false"),
    RULE("PF013", PASSED_SECRET, WARNING, "secret-in-environment",
         "the name looks like a secret's; a variable of the host's is neither masked in output nor logged",
         "list it in secrets instead of environment.pass"),
    RULE("PF014", SET_SECRET, ERROR, "secret-in-policy",
         "the name looks like a secret's, and its value stands in the policy file",
         "take the value out of the file, and list the name in secrets"),
    RULE("PF015", LOADER, WARNING, "loader-variables",
         "requests can set LD_PRELOAD and its kin for every program inside",
         "add \"LD_*\" to environment.refuse"),
    RULE("PF016", OPTIONAL, WARNING, "optional-protection",
         "where the host lacks the protection, the run goes on without it",
         "make it mandatory by removing it from optional"),
    RULE("PF017", ANY_IMAGE, NOTE, "any-image", "every image that somebody put into the store may be run",
         "list the images, or require their signatures"),
    RULE("PF018", SENSITIVE_MOUNT, ERROR, "sensitive-mount",
         "the host path holds credentials, other users' files, or a door to the host",
         "mount a folder that holds only what the tool needs"),
    RULE("PF019", WRITABLE_MOUNT, WARNING, "writable-mount",
         "what is written there stays on the host, and other programs read it",
         "mount it read-only, or use a workspace"),
    RULE("PF020", PORT, NOTE, "port",
         "what this port usually carries is readable on the way, or carries more than it seems to",
         "use the protected form of the protocol"),
    RULE("PF021", ROOT, NOTE, "root-inside",
         "files that root makes inside may be run by others, and a fault of the kernel is worth more to root",
         "set identity.user and identity.group to an ordinary id"),
    RULE("PF022", NOT_RECORDED, NOTE, "egress-not-recorded",
         "the policy grants destinations and the audit log doesn't say which were used",
         "add \"egress\" to audit.record"),
    RULE("PF023", NO_EFFECT, NOTE, "no-effect",
         "the entry changes nothing, so it says something about the policy that isn't so",
         "remove the entry"),
    RULE("PF024", HOST_INTERNAL, WARNING, "host-service",
         "the rule opens a service on the host's own loopback, which trusts whoever reaches it",
         "make sure that the service asks for credentials"),
    RULE("PF025", CORE_SECRETS, WARNING, "core-dump",
         "a core file holds every secret that the process has seen", "set resources.core to 0"),
    RULE("PF026", MOUNT_NOT_WRITABLE, WARNING, "mount-not-writable",
         "a read-write mount that filesystem.write doesn't cover can't be written to",
         "add its target to filesystem.write, or mount it read-only"),
    RULE("PF027", PUBLISHED_LOOPBACK, NOTE, "published-to-all-users",
         "a port of the host's loopback can be connected to by every user and every browser of the host",
         "publish at a UNIX socket, which is its owner's alone, or have the server ask for credentials"),
};
const size_t pin_lint_rules_count = PIN_COUNT(pin_lint_rules);
_Static_assert(PIN_COUNT(pin_lint_rules) == PIN_LINT_ID_COUNT, "every id has a rule");

void pin_lint_add(const struct pin_lint_check *check, enum pin_lint_id id, const char *pointer,
                  const struct pin_place *place, const char *format, ...) {
    struct pin_lint *lint = check->lint;
    char message[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    struct pin_lint_fault *fault =
        pin_arena_grow(&lint->arena, &lint->faults, &lint->count, sizeof(*lint->faults));
    *fault = (struct pin_lint_fault){&pin_lint_rules[id], pin_arena_strdup(&lint->arena, pointer), *place,
                                     pin_arena_strdup(&lint->arena, message)};
}

const char *pin_lint_item(const struct pin_lint_check *check, enum pin_field field, size_t index) {
    return pin_arena_printf(&check->lint->arena, "%s/%zu", pin_field_pointer(field), index);
}

static int compare_faults(const void *a, const void *b) {
    const struct pin_lint_fault *x = a, *y = b;
    if (x->rule->severity != y->rule->severity)
        return x->rule->severity > y->rule->severity ? -1 : 1;
    if (x->rule != y->rule)
        return x->rule < y->rule ? -1 : 1;
    if (x->place.line != y->place.line)
        return x->place.line < y->place.line ? -1 : 1;
    return strcmp(x->pointer, y->pointer);
}

void pin_lint_check(struct pin_lint *lint, const struct pin_reach *reach) {
    const struct pin_lint_check check = {lint, reach, reach->policy};
    pin_lint_check_network(&check);
    pin_lint_check_files(&check);
    pin_lint_check_grants(&check);
    if (lint->count > 1)
        qsort(lint->faults, lint->count, sizeof(*lint->faults), compare_faults);
}

void pin_lint_free(struct pin_lint *lint) {
    pin_arena_free(&lint->arena);
}

static const struct pin_lint_rule *find_rule(const char *id) {
    for (size_t i = 0; i < pin_lint_rules_count; i++)
        if (strcmp(pin_lint_rules[i].id, id) == 0 || strcmp(pin_lint_rules[i].name, id) == 0)
            return &pin_lint_rules[i];
    return NULL;
}

bool pin_lint_ignore(struct pin_lint *lint, const char *const *rules, size_t count, struct pin_error *err) {
    for (size_t i = 0; i < count; i++) {
        const struct pin_lint_rule *rule = find_rule(rules[i]);
        size_t kept = 0;
        if (rule == NULL)
            return pin_fail(err, PIN_ERROR_USAGE, "there is no lint rule '%.40s'", rules[i]);
        for (size_t j = 0; j < lint->count; j++)
            if (lint->faults[j].rule != rule)
                lint->faults[kept++] = lint->faults[j];
        lint->count = kept;
    }
    return true;
}

size_t pin_lint_count(const struct pin_lint *lint, enum pin_lint_severity least) {
    size_t count = 0;
    for (size_t i = 0; i < lint->count; i++)
        count += lint->faults[i].rule->severity >= least;
    return count;
}

/* --- for people --- */

void pin_lint_print(struct pin_buffer *to, const struct pin_lint *lint) {
    for (size_t i = 0; i < lint->count; i++) {
        const struct pin_lint_fault *fault = &lint->faults[i];
        char place[PIN_PLACE_TEXT];
        pin_buffer_printf(to, "%s: %s %s: %s\n", pin_place_print(place, &fault->place),
                          severity_names[fault->rule->severity], fault->rule->id, fault->message);
        if (i > 0 && lint->faults[i - 1].rule == fault->rule)
            continue; /* said already */
        pin_buffer_printf(to, "    why:    %s\n    remedy: %s\n", fault->rule->reason, fault->rule->remedy);
    }
    size_t errors = pin_lint_count(lint, PIN_LINT_ERROR),
           notes = lint->count - pin_lint_count(lint, PIN_LINT_WARNING),
           warnings = lint->count - errors - notes;
    pin_buffer_printf(to, "%zu error%s, %zu warning%s, %zu note%s\n", errors, errors == 1 ? "" : "s",
                      warnings, warnings == 1 ? "" : "s", notes, notes == 1 ? "" : "s");
}

/* --- for programs --- */

static json_t *place_json(const struct pin_place *place) {
    return json_pack("{s:s, s:I, s:I}", "file", place->file != NULL ? place->file : "default", "line",
                     (json_int_t)place->line, "column", (json_int_t)place->column);
}

json_t *pin_lint_json(const struct pin_lint *lint) {
    json_t *list = json_array();
    for (size_t i = 0; i < lint->count; i++) {
        const struct pin_lint_fault *fault = &lint->faults[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "id", fault->rule->id, "name",
                            fault->rule->name, "severity", severity_names[fault->rule->severity], "message",
                            fault->message, "reason", fault->rule->reason, "remedy", fault->rule->remedy,
                            "pointer", fault->pointer, "place", place_json(&fault->place)));
    }
    size_t errors = pin_lint_count(lint, PIN_LINT_ERROR), warnings = pin_lint_count(lint, PIN_LINT_WARNING);
    return json_pack("{s:o, s:I, s:I, s:I}", "findings", list, "errors", (json_int_t)errors, "warnings",
                     (json_int_t)(warnings - errors), "notes", (json_int_t)(lint->count - warnings));
}

static json_t *sarif_rules(void) {
    json_t *list = json_array();
    for (size_t i = 0; i < pin_lint_rules_count; i++) {
        const struct pin_lint_rule *rule = &pin_lint_rules[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:{s:s}, s:{s:s}, s:{s:s}}", "id", rule->id, "name",
                                              rule->name, "shortDescription", "text", rule->reason, "help",
                                              "text", rule->remedy, "defaultConfiguration", "level",
                                              severity_names[rule->severity]));
    }
    return list;
}

/* A path as a relative reference of RFC 3986: what isn't plain is written in hexadecimal. */
static json_t *uri_of(const char *file) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:";
    PIN_BUFFER struct pin_buffer uri = {0};
    for (; *file != '\0'; file++)
        pin_buffer_printf(&uri, strchr(plain, *file) != NULL ? "%c" : "%%%02X", (unsigned char)*file);
    return json_string(uri.data != NULL ? uri.data : "");
}

/* A result without a line (a default, a built-in profile) has its place by name alone. */
static json_t *sarif_location(const struct pin_lint_fault *fault) {
    const struct pin_place *place = &fault->place;
    json_t *physical = json_pack("{s:{s:o}}", "artifactLocation", "uri",
                                 uri_of(place->file != NULL ? place->file : "default"));
    if (place->line > 0)
        json_object_set_new(physical, "region",
                            json_pack("{s:I, s:I}", "startLine", (json_int_t)place->line, "startColumn",
                                      (json_int_t)(place->column > 0 ? place->column : 1)));
    return json_pack("{s:o, s:[{s:s, s:s}]}", "physicalLocation", physical, "logicalLocations",
                     "fullyQualifiedName", fault->pointer, "kind", "member");
}

static json_t *sarif_results(const struct pin_lint *lint) {
    json_t *list = json_array();
    for (size_t i = 0; i < lint->count; i++) {
        const struct pin_lint_fault *fault = &lint->faults[i];
        json_array_append_new(list, json_pack("{s:s, s:I, s:s, s:{s:s}, s:[o]}", "ruleId", fault->rule->id,
                                              "ruleIndex", (json_int_t)(fault->rule - pin_lint_rules),
                                              "level", severity_names[fault->rule->severity], "message",
                                              "text", fault->message, "locations", sarif_location(fault)));
    }
    return list;
}

json_t *pin_lint_sarif(const struct pin_lint *lint) {
    json_t *driver = json_pack("{s:s, s:s, s:o}", "name", "pinfold policy lint", "version", PIN_VERSION,
                               "rules", sarif_rules());
    return json_pack("{s:s, s:s, s:[{s:{s:o}, s:s, s:o}]}", "$schema",
                     "https://json.schemastore.org/sarif-2.1.0.json", "version", "2.1.0", "runs", "tool",
                     "driver", driver, "columnKind", "unicodeCodePoints", "results", sarif_results(lint));
}
