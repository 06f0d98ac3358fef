#include "tools/pinfold/report.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/text.h"

static json_t *text(const char *bytes) {
    json_t *string = json_string(bytes);
    if (string != NULL)
        return string;
    char escaped[1024]; /* not UTF-8: bytes of a path, perhaps */
    return json_string(pin_escape(escaped, sizeof(escaped), bytes, strlen(bytes)));
}

static json_t *error_object(const struct pin_error *err) {
    json_t *object = json_object();
    json_object_set_new(object, "kind", json_string(pin_error_kind_name(err->kind)));
    json_object_set_new(object, "message", text(err->message));
    json_object_set_new(object, "pointer", text(err->pointer));
    json_object_set_new(object, "hint", text(pin_error_hint(err)));
    return object;
}

static void print_line(const struct pin_error *err) {
    char message[1024], pointer[512], hint[512];
    (void)pin_show(message, sizeof(message), err->message);
    (void)pin_show(pointer, sizeof(pointer), err->pointer);
    (void)pin_show(hint, sizeof(hint), pin_error_hint(err));
    (void)fprintf(stderr, "pinfold: %s%s%s%s%s%s\n", message, pointer[0] ? " (" : "", pointer,
                  pointer[0] ? ")" : "", hint[0] ? "; " : "", hint);
}

static int print_json(json_t *error, json_t *others) {
    if (others != NULL)
        json_object_set_new(error, "others", others);
    json_t *whole = json_pack("{s:o}", "error", error);
    (void)json_dumpf(whole, stdout, JSON_COMPACT);
    (void)fputc('\n', stdout);
    (void)fflush(stdout);
    json_decref(whole);
    return PIN_REPORT_EXIT;
}

int pin_report(const struct pin_error *err, bool as_json) {
    if (as_json)
        return print_json(error_object(err), NULL);
    print_line(err);
    return PIN_REPORT_EXIT;
}

int pin_report_findings(const struct pin_findings *found, bool as_json) {
    return pin_report_refusal(found, NULL, as_json);
}

int pin_report_refusal(const struct pin_findings *found, json_t *denials, bool as_json) {
    if (as_json) {
        json_t *others = json_array(), *first = error_object(&found->list[0]);
        for (size_t i = 1; i < found->count; i++)
            json_array_append_new(others, error_object(&found->list[i]));
        if (found->dropped > 0)
            json_object_set_new(first, "dropped", json_integer((json_int_t)found->dropped));
        if (denials != NULL)
            (void)json_object_set(first, "denials", denials);
        return print_json(first, others);
    }
    for (size_t i = 0; i < found->count; i++)
        print_line(&found->list[i]);
    if (found->dropped > 0)
        (void)fprintf(stderr, "pinfold: and %zu more findings\n", found->dropped);
    return PIN_REPORT_EXIT;
}

/* A reader that has gone knows. */
int pin_report_flush(int code) {
    struct stat facts;
    struct pin_error err = {0};
    if ((fflush(stdout) == 0 && !ferror(stdout)) || code != 0 ||
        (fstat(STDOUT_FILENO, &facts) == 0 && (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode))))
        return code;
    (void)pin_fail(&err, PIN_ERROR_SYSTEM, "standard output could not be written");
    return pin_report(&err, false);
}
