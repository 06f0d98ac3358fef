#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/audit/verify.h"
#include "tools/pinfold-audit/verbs.h"
#include "tools/pinfold/report.h"

struct show_options {
    const char *file, *event, *sandbox, *since, *until;
    struct pin_texts labels;
    struct pin_number tail;
    bool json;
};

#define ROW(name, type, member, value, help)                                                                 \
    { name, 0, type, offsetof(struct show_options, member), value, help, NULL }
static const struct pin_option options[] = {
    ROW("event", PIN_OPTION_TEXT, event, "NAME", "only such: start, end, refusal, limit, egress, secret, …"),
    ROW("sandbox", PIN_OPTION_TEXT, sandbox, "NAME", "only of this one"),
    ROW("label", PIN_OPTION_TEXTS, labels, "K=V", "only with this label; all of them, if there are several"),
    ROW("since", PIN_OPTION_TEXT, since, "TIME",
        "not before: 2026-01-31, 2026-01-31T12:00:00Z, or 2h for the last two hours"),
    ROW("until", PIN_OPTION_TEXT, until, "TIME", "before this time, written in the same ways"),
    ROW("tail", PIN_OPTION_COUNT, tail, "N", "only the last N of them"),
    ROW("file", PIN_OPTION_TEXT, file, "FILE", "this log instead of one's own, its absolute path"),
    ROW("json", PIN_OPTION_FLAG, json, NULL, "print the records as they are in the log, one a line"),
};

enum { TIME_TEXT = 40 };

struct filter {
    const struct show_options *values;
    char since[TIME_TEXT], until[TIME_TEXT]; /* "": none; compared as text with what records have */
    char **kept;                             /* a ring of --tail lines */
    size_t kept_count, next;
    uint64_t strange; /* lines that are no records */
};

/* A time of the log's form sorts as text: it is always UTC and its fields have fixed widths. */
static bool take_time(const char *text, char to[TIME_TEXT], const char *option, struct pin_error *err) {
    uint64_t ago_ns;
    struct tm at = {0};
    if (text == NULL)
        return true;
    if (pin_parse_time(text, &ago_ns)) {
        time_t then = time(NULL) - (time_t)(ago_ns / PIN_NS_PER_S);
        (void)gmtime_r(&then, &at);
        (void)strftime(to, TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &at);
        return true;
    }
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &at);
    if (end == NULL)
        end = strptime(text, "%Y-%m-%d", &at);
    if (end == NULL || *end != '\0') {
        (void)pin_fail(err, PIN_ERROR_USAGE, "%s can't be '%.60s'", option, text);
        return pin_hint(err, "write 2026-01-31, 2026-01-31T12:00:00Z, or 2h");
    }
    (void)strftime(to, TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &at);
    return true;
}

static bool check_event(const char *name, struct pin_error *err) {
    char shown[64], known[128] = "";
    if (name == NULL || pin_name_find(pin_audit_events, PIN_AUDIT_EVENTS, name) >= 0)
        return true;
    for (size_t i = 0; i < PIN_AUDIT_EVENTS; i++)
        (void)snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i > 0 ? ", " : "",
                       pin_audit_events[i]);
    (void)pin_fail(err, PIN_ERROR_USAGE, "there is no event '%s', only %s",
                   pin_escape(shown, sizeof(shown), name, strlen(name)), known);
    const char *near = pin_name_suggest(pin_audit_events, PIN_AUDIT_EVENTS, name);
    return near != NULL ? pin_hint(err, "did you mean '%s'?", near) : false;
}

static bool is_text(const json_t *json, const char *key, const char *wanted) {
    return wanted == NULL || strcmp(json_string_value(json_object_get(json, key)), wanted) == 0;
}

static bool has_label(const json_t *json, const char *label) {
    const char *equals = strchr(label, '=');
    char *key = equals != NULL ? strndup(label, (size_t)(equals - label)) : strdup(label);
    const char *value = json_string_value(json_object_get(json_object_get(json, "labels"), key));
    bool has = value != NULL && (equals == NULL || strcmp(value, equals + 1) == 0);
    free(key);
    return has;
}

static bool is_wanted(const struct filter *filter, const json_t *json) {
    const struct show_options *values = filter->values;
    const char *time = json_string_value(json_object_get(json, "time"));
    if (!is_text(json, "event", values->event) || !is_text(json, "sandbox", values->sandbox) ||
        (filter->since[0] != '\0' && strcmp(time, filter->since) < 0) ||
        (filter->until[0] != '\0' && strcmp(time, filter->until) >= 0))
        return false;
    for (size_t i = 0; i < values->labels.count; i++)
        if (!has_label(json, values->labels.items[i]))
            return false;
    return true;
}

static void print_value(const char *key, const json_t *value) {
    char shown[512];
    char *text = json_is_string(value) ? strdup(json_string_value(value))
                                       : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text != NULL)
        (void)printf(" %s=%s", key, pin_escape(shown, sizeof(shown), text, strlen(text)));
    free(text);
}

static void print_record(const char *line, size_t size, const json_t *json, bool as_json) {
    const char *key;
    json_t *value;
    char event[64], sandbox[80], time[TIME_TEXT];
    if (as_json) {
        (void)printf("%.*s\n", (int)size, line);
        return;
    }
    const char *texts[] = {json_string_value(json_object_get(json, "time")),
                           json_string_value(json_object_get(json, "event")),
                           json_string_value(json_object_get(json, "sandbox"))};
    (void)printf("%.19sZ  %-8s %s", pin_escape(time, sizeof(time), texts[0], strlen(texts[0])),
                 pin_escape(event, sizeof(event), texts[1], strlen(texts[1])),
                 pin_escape(sandbox, sizeof(sandbox), texts[2], strlen(texts[2])));
    json_object_foreach(json_object_get(json, "labels"), key, value) print_value(key, value);
    json_object_foreach(json_object_get(json, "data"), key, value) print_value(key, value);
    (void)fputc('\n', stdout);
}

static void keep(struct filter *filter, const char *line, size_t size) {
    size_t room = (size_t)filter->values->tail.value;
    if (filter->kept_count < room) {
        filter->kept = reallocarray(filter->kept, filter->kept_count + 1, sizeof(*filter->kept));
        if (filter->kept == NULL)
            abort();
        filter->kept[filter->kept_count++] = NULL;
    }
    free(filter->kept[filter->next]);
    filter->kept[filter->next] = strndup(line, size);
    filter->next = (filter->next + 1) % room;
}

static bool take_line(void *self, const char *file, uint64_t number, const char *line, size_t size) {
    struct filter *filter = self;
    struct pin_audit_record record;
    (void)file;
    (void)number;
    if (!pin_audit_record_parse(line, size, &record)) {
        filter->strange++;
        return true;
    }
    bool tailing = filter->values->tail.given;
    if (is_wanted(filter, record.json) && (!tailing || filter->values->tail.value > 0)) {
        if (tailing)
            keep(filter, line, size);
        else
            print_record(line, size, record.json, filter->values->json);
    }
    pin_audit_record_free(&record);
    return !ferror(stdout);
}

static void print_kept(struct filter *filter) {
    for (size_t i = 0; i < filter->kept_count; i++) {
        size_t at =
            filter->kept_count < filter->values->tail.value ? i : (filter->next + i) % filter->kept_count;
        struct pin_audit_record record;
        size_t size = strlen(filter->kept[at]);
        if (pin_audit_record_parse(filter->kept[at], size, &record)) {
            print_record(filter->kept[at], size, record.json, filter->values->json);
            pin_audit_record_free(&record);
        }
        free(filter->kept[at]);
    }
    free(filter->kept);
}

static int run_show(const struct pin_invocation *invocation) {
    const struct show_options *values = invocation->values;
    struct filter filter = {.values = values};
    struct pin_audit audit = PIN_AUDIT_NONE;
    struct pin_audit_head head;
    struct pin_error err = {0};
    bool ok = check_event(values->event, &err) && take_time(values->since, filter.since, "--since", &err) &&
              take_time(values->until, filter.until, "--until", &err) &&
              (values->file != NULL ? pin_audit_open_path(&audit, values->file, false, &err)
                                    : pin_audit_open(&audit, false, &err)) &&
              pin_audit_each(&audit, take_line, &filter, &head, &err);
    print_kept(&filter);
    pin_audit_close(&audit);
    if (!ok) {
        (void)pin_report(&err, values->json);
        return PIN_AUDIT_ERROR;
    }
    if (filter.strange > 0)
        (void)fprintf(stderr, "pinfold: %llu lines are no records; see 'pinfold audit verify'\n",
                      (unsigned long long)filter.strange);
    return PIN_AUDIT_GOOD;
}

const struct pin_verb pin_audit_verb_show = {
    .name = "audit show",
    .synopsis = "",
    .summary = "print records of the audit log",
    .description =
        "Shows what the log says, without asking whether it is whole: 'pinfold audit verify' does.\n"
        "For another log: 'pinfold audit show --json | systemd-cat -t pinfold' or '| logger'.",
    .example = "  pinfold audit show --event refusal --since 24h --label tenant=a",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct show_options),
    .run = run_show,
};
