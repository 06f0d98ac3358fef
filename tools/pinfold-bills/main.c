/* pinfold-bills: what labelled sandboxes have used, summed. `pinfold stats --by LABEL` runs it, when those
 * that live have written their bills. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/bills/books.h"
#include "tools/pinfold/options.h"
#include "tools/pinfold/report.h"

struct bills_options {
    const char *by;
    struct pin_number since;
    bool json;
};

static const struct pin_option options[] = {
    {"by",    0, PIN_OPTION_TEXT, offsetof(struct bills_options, by),    "LABEL",
     "the label whose values are told apart",                                                              NULL},
    {"since", 0, PIN_OPTION_TIME, offsetof(struct bills_options, since), "T",
     "only what was used in this last time",                                                               NULL},
    {"json",  0, PIN_OPTION_FLAG, offsetof(struct bills_options, json),  NULL,    "print one JSON object", NULL},
};

static void add_json(void *self, const struct pin_books_sum *sum) {
    json_t *value = sum->value != NULL ? json_string(sum->value) : json_null();
    (void)json_array_append_new(
        self, json_pack("{s:o, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "value", value, "cpu_seconds",
                        sum->cpu_seconds, "memory_byte_seconds", sum->memory_byte_seconds, "wall_seconds",
                        sum->wall_seconds, "egress_bytes_out", (json_int_t)sum->egress_out, "egress_bytes_in",
                        (json_int_t)sum->egress_in, "published_bytes_out", (json_int_t)sum->published_out,
                        "published_bytes_in", (json_int_t)sum->published_in, "runs", (json_int_t)sum->runs,
                        "sandboxes", (json_int_t)sum->sandboxes));
}

static void print_row(void *self, const struct pin_books_sum *sum) {
    char value[96];
    (void)self;
    (void)pin_escape(value, sizeof(value), sum->value != NULL ? sum->value : "-",
                     sum->value != NULL ? strlen(sum->value) : 1);
    (void)printf("%-24s %12.3f %16.1f %14llu %14llu %14llu %14llu %8llu\n", value, sum->cpu_seconds,
                 sum->memory_byte_seconds / (double)PIN_MIB, (unsigned long long)sum->egress_out,
                 (unsigned long long)sum->egress_in, (unsigned long long)sum->published_out,
                 (unsigned long long)sum->published_in, (unsigned long long)sum->runs);
}

static uint64_t since_ms(const struct bills_options *values) {
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / PIN_NS_PER_MS;
    uint64_t back_ms = values->since.value / PIN_NS_PER_MS;
    return !values->since.given || back_ms > now_ms ? 0 : now_ms - back_ms;
}

static bool print(struct pin_books *books, const struct bills_options *values, struct pin_error *err) {
    if (!values->json) {
        (void)printf("%-24s %12s %16s %14s %14s %14s %14s %8s\n", values->by, "CPU s", "memory MiB s",
                     "bytes out", "bytes in", "published out", "published in", "runs");
        return pin_books_sum(books, values->by, since_ms(values), UINT64_MAX, print_row, NULL, err);
    }
    json_t *rows = json_array();
    bool ok = pin_books_sum(books, values->by, since_ms(values), UINT64_MAX, add_json, rows, err);
    json_t *whole = json_pack("{s:s, s:o, s:I}", "by", values->by, "rows", rows, "skipped",
                              (json_int_t)pin_books_skipped(books));
    if (ok) {
        (void)json_dumpf(whole, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
        (void)putchar('\n');
    }
    json_decref(whole);
    return ok;
}

static int run_bills(const struct pin_invocation *invocation) {
    const struct bills_options *values = invocation->values;
    struct pin_error err = {0};
    if (values->by == NULL) {
        (void)pin_fail(&err, PIN_ERROR_USAGE, "--by names no label");
        return pin_report(&err, values->json);
    }
    struct pin_books *books = pin_books_open(&err);
    bool ok = books != NULL && print(books, values, &err);
    pin_books_close(books);
    return ok ? 0 : pin_report(&err, values->json);
}

static const struct pin_verb verb = {
    .name = "stats",
    .synopsis = "",
    .summary = "what labelled sandboxes have used, summed by a label",
    .example = "  pinfold stats --by tenant --since 24h --json",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct bills_options),
    .run = run_bills,
};

int main(int argc, char **argv) {
    return pin_report_flush(pin_verb_main(&verb, argc - 1, argv + 1));
}
