/* logs: the numbered output of a kept sandbox, alive or not. */
#include <errno.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/kept/home.h"
#include "runtime/kept/log_json.h"
#include "runtime/kept/log_read.h"
#include "runtime/supervise/result.h"
#include "tools/pinfold-kept/client.h"
#include "tools/pinfold-kept/verbs.h"
#include "tools/pinfold/report.h"

#define LIVE_CHECK_MS 1000 /* a supervisor that was killed writes nothing */

struct logs_options {
    bool json, follow;
    const char *grep;
    struct pin_number tail, since, exec;
};

static const struct pin_option options[] = {
    {"tail",   'n', PIN_OPTION_COUNT, offsetof(struct logs_options, tail),   "N",  "only the last N records",
     NULL                                                                                                             },
    {"since",  0,   PIN_OPTION_COUNT, offsetof(struct logs_options, since),  "N",  "only records after number N",
     NULL                                                                                                             },
    {"exec",   0,   PIN_OPTION_COUNT, offsetof(struct logs_options, exec),   "N",  "only of this command",        NULL},
    {"grep",   'g', PIN_OPTION_TEXT,  offsetof(struct logs_options, grep),   "RE",
     "only records of output in which this extended regular expression matches",                                  NULL},
    {"follow", 'f', PIN_OPTION_FLAG,  offsetof(struct logs_options, follow), NULL,
     "wait for more until the sandbox ends",                                                                      NULL},
    {"json",   0,   PIN_OPTION_FLAG,  offsetof(struct logs_options, json),   NULL, "one JSON object a record",    NULL},
};

struct reading {
    const struct logs_options *values;
    struct pin_log_reader reader;
    regex_t pattern; /* of --grep */
    bool escaped;    /* standard output is a terminal */
};

/* In the bytes as they are, line by line; a match may hold zero bytes, and no line break. */
static bool matches(const struct reading *reading, const struct pin_log_record *record) {
    regmatch_t range = {0, (regoff_t)record->size};
    return (record->kind == PIN_LOG_STDOUT || record->kind == PIN_LOG_STDERR) &&
           regexec(&reading->pattern, (const char *)record->payload, 1, &range, REG_STARTEND) == 0;
}

static bool is_wanted(const struct reading *reading, const struct pin_log_record *record) {
    const struct logs_options *values = reading->values;
    return (!values->since.given || record->sequence > values->since.value) &&
           (!values->exec.given || record->exec == values->exec.value) &&
           (values->grep == NULL || matches(reading, record));
}

static bool print_json(const struct pin_log_record *record, struct pin_error *err) {
    json_t *line = pin_log_record_json(record);
    bool ok = pin_json_print(STDOUT_FILENO, line, err);
    json_decref(line);
    return ok;
}

/* Line by line, so that line breaks stay what they are and nothing else of a terminal's language does. */
static void print_escaped(const uint8_t *data, size_t size) {
    char text[4096];
    while (size > 0) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t line = end != NULL ? (size_t)(end - data) : size;
        size_t part = line < sizeof(text) / 8 ? line : sizeof(text) / 8; /* \u{10ffff}: ten for four */
        (void)fputs(pin_escape(text, sizeof(text), data, part), stdout);
        if (part == line && end != NULL) {
            (void)putchar('\n');
            part++;
        }
        data += part;
        size -= part;
    }
}

static void print_text(const struct reading *reading, const struct pin_log_record *record) {
    if (record->kind == PIN_LOG_CUT) {
        (void)fprintf(stderr, "pinfold: cut here: %.*s\n", (int)record->size, (const char *)record->payload);
    } else if (record->kind == PIN_LOG_STDOUT || record->kind == PIN_LOG_STDERR) {
        if (reading->escaped)
            print_escaped(record->payload, record->size);
        else
            (void)fwrite(record->payload, 1, record->size, record->kind == PIN_LOG_STDOUT ? stdout : stderr);
    }
}

static void tell_gap(const struct reading *reading) {
    if (reading->reader.missing == 0)
        return;
    if (reading->values->json)
        (void)printf("{\"kind\":\"gap\",\"records\":%llu}\n", (unsigned long long)reading->reader.missing);
    else
        (void)fprintf(stderr, "pinfold: %llu records are gone\n",
                      (unsigned long long)reading->reader.missing);
    (void)fflush(stdout);
}

/* Who follows ends when nobody reads any more. */
static bool print_all(struct reading *reading, uint64_t from, struct pin_error *err) {
    struct pin_log_record record;
    while (pin_log_reader_next(&reading->reader, &record)) {
        tell_gap(reading);
        if (!is_wanted(reading, &record) || record.sequence < from)
            continue;
        if (reading->values->json && !print_json(&record, err))
            return false;
        if (!reading->values->json)
            print_text(reading, &record);
    }
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    (void)pin_fail_errno(err, "write standard output");
    clearerr(stdout); /* it is told here */
    return false;
}

/* The sequence number of the first of the last N that are wanted. */
static bool find_tail(struct reading *reading, int folder, uint64_t *from, struct pin_error *err) {
    uint64_t tail = reading->values->tail.value, count = 0;
    struct pin_log_record record;
    if (tail == 0) {
        *from = UINT64_MAX;
        return true;
    }
    if (tail > 1000000)
        tail = 1000000;
    PIN_FREE uint64_t *ring = calloc((size_t)tail, sizeof(*ring));
    if (ring == NULL || !pin_log_reader_open(&reading->reader, folder, err))
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, which the analyzer doesn't see */
        return ring != NULL ? false : pin_fail_errno(err, "read the output log");
    while (pin_log_reader_next(&reading->reader, &record))
        if (is_wanted(reading, &record))
            ring[count++ % tail] = record.sequence;
    *from = count > tail ? ring[count % tail] : 0;
    pin_log_reader_close(&reading->reader);
    return true;
}

static bool follow(struct reading *reading, int folder, uint64_t from, struct pin_error *err) {
    char path[32], events[4096];
    PIN_CLOSE int notes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", folder);
    if (notes < 0 || inotify_add_watch(notes, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0)
        return pin_fail_errno(err, "follow the output log");
    for (;;) {
        bool live = pin_home_is_live(folder); /* asked before the last look */
        if (!print_all(reading, from, err))
            return false;
        if (!live)
            return true;
        struct pollfd ready[] = {
            {.fd = notes,         .events = POLLIN},
            {.fd = STDOUT_FILENO, .events = 0     }  /* says when nobody reads it any more */
        };
        bool told = poll(ready, PIN_COUNT(ready), LIVE_CHECK_MS) > 0;
        if (told && (ready[1].revents & POLLERR) != 0) {
            errno = EPIPE;
            return pin_fail_errno(err, "write standard output");
        }
        if (told)
            while (read(notes, events, sizeof(events)) > 0)
                ;
    }
}

static bool compile(struct reading *reading, struct pin_error *err) {
    char why[128];
    if (reading->values->grep == NULL)
        return true;
    int fault = regcomp(&reading->pattern, reading->values->grep, REG_EXTENDED | REG_NEWLINE);
    if (fault == 0)
        return true;
    (void)regerror(fault, &reading->pattern, why, sizeof(why));
    return pin_fail(err, PIN_ERROR_USAGE, "--grep '%.60s' is no regular expression: %s",
                    reading->values->grep, why);
}

static int run_logs(const struct pin_invocation *invocation) {
    struct reading reading = {.values = invocation->values, .escaped = isatty(STDOUT_FILENO) != 0};
    PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
    struct pin_error err = {0};
    uint64_t from = 0;
    if (!compile(&reading, &err))
        return pin_report(&err, reading.values->json);
    bool ok = pin_client_find(&client, invocation->arguments[0], &err) &&
              (!reading.values->tail.given || find_tail(&reading, client.folder, &from, &err)) &&
              pin_log_reader_open(&reading.reader, client.folder, &err);
    if (from == UINT64_MAX) { /* nothing of what there is, all of what comes */
        struct pin_log_record record;
        from = 0;
        while (ok && pin_log_reader_next(&reading.reader, &record))
            ;
    }
    if (ok && reading.values->follow)
        ok = follow(&reading, client.folder, from, &err);
    else if (ok)
        ok = print_all(&reading, from, &err);
    pin_log_reader_close(&reading.reader);
    if (reading.values->grep != NULL)
        regfree(&reading.pattern);
    if (!ok && err.os_errno == EPIPE)
        return 128 + SIGPIPE;
    return ok ? 0 : pin_report(&err, reading.values->json);
}

const struct pin_verb pin_kept_verb_logs = {
    .name = "logs",
    .synopsis = "NAME",
    .summary = "what the commands of a kept sandbox have printed",
    .description = "Records are numbered without gaps, so that --since resumes where a reader left off.\n"
                   "On a terminal, control characters are escaped.",
    .example = "  pinfold logs work --tail 100 --follow\n  pinfold logs work --exec 3 --json\n  pinfold logs "
               "work --grep 'error|warning'",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct logs_options),
    .least_arguments = 1,
    .most_arguments = 1,
    .run = run_logs,
};
