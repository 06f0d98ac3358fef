#include "tools/pinfold-oci/log.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"

enum { MESSAGE_MOST = 8192 };

static void print_time(char text[40]) {
    time_t now = time(NULL);
    struct tm parts;
    (void)strftime(text, 40, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
}

/* As Go's programs have it: quotes within quotes are escaped. */
static void quote(char *to, size_t room, const char *from) {
    size_t at = 0;
    for (; *from != '\0' && at + 3 < room; from++) {
        if (*from == '"')
            to[at++] = '\\';
        to[at++] = *from;
    }
    to[at] = '\0';
}

static char *format_line(const struct pin_oci_options *options, const char *level, const char *message) {
    char now[40], *line = NULL;
    print_time(now);
    if (options->log_format == NULL || strcmp(options->log_format, "json") != 0) {
        char quoted[2 * MESSAGE_MOST];
        quote(quoted, sizeof(quoted), message);
        return asprintf(&line, "time=\"%s\" level=%s msg=\"%s\"\n", now, level, quoted) < 0 ? NULL : line;
    }
    json_t *json = json_pack("{s:s, s:s, s:s}", "level", level, "msg", message, "time", now);
    PIN_FREE char *text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (text == NULL || asprintf(&line, "%s\n", text) < 0)
        return NULL;
    return line;
}

static void print(const struct pin_oci_options *options, const char *level, const char *message) {
    PIN_FREE char *line = format_line(options, level, message);
    struct pin_error ignored = {0}; /* there is nobody left to tell */
    if (line == NULL)
        return;
    if (options->log != NULL && options->log[0] != '\0') {
        PIN_CLOSE int log = open(options->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
        bool written = log >= 0 && pin_write_all(log, line, strlen(line), &ignored);
        pin_error_clear(&ignored);
        if (!written || strcmp(level, "error") == 0)
            (void)fprintf(stderr, "%s\n", message);
        return;
    }
    (void)pin_write_all(STDERR_FILENO, line, strlen(line), &ignored);
}

/* Engines compare the kernel's words in lower case, as Go prints them, and the number's name isn't among
 * them. */
static void put(char *message, const struct pin_error *err) {
    char escaped[1024], pointer[512], hint[512];
    size_t used = strlen(message);
    (void)pin_show(escaped, sizeof(escaped), err->message);
    if (err->os_errno != 0) {
        const char *why = strerrordesc_np(err->os_errno);
        char *at = why != NULL ? strstr(escaped, why) : NULL;
        if (at != NULL)
            *at = (char)tolower((unsigned char)*at);
    }
    (void)pin_show(pointer, sizeof(pointer), err->pointer);
    (void)pin_show(hint, sizeof(hint), pin_error_hint(err));
    (void)snprintf(message + used, MESSAGE_MOST - used, "%s%s%s%s%s%s%s", used > 0 ? "; " : "", escaped,
                   pointer[0] ? " (" : "", pointer, pointer[0] ? ")" : "", hint[0] ? ", " : "", hint);
}

int pin_oci_fail(const struct pin_oci_options *options, const struct pin_error *err) {
    char message[MESSAGE_MOST] = "";
    put(message, err);
    print(options, "error", message);
    return 1;
}

int pin_oci_fail_findings(const struct pin_oci_options *options, const struct pin_findings *found) {
    char message[MESSAGE_MOST] = "";
    for (size_t i = 0; i < found->count; i++)
        put(message, &found->list[i]);
    print(options, "error", message);
    return 1;
}

void pin_oci_warn(const struct pin_oci_options *options, const char *text) {
    char message[MESSAGE_MOST];
    print(options, "warning", pin_escape(message, sizeof(message), text, strlen(text)));
}
