#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

#include "base/names.h"
#include "runtime/audit/verify.h"
#include "tools/pinfold-audit/verbs.h"
#include "tools/pinfold/report.h"

struct verify_options {
    const char *file;
    struct pin_number from;
    bool json;
};

static const struct pin_option options[] = {
    {"file", 0, PIN_OPTION_TEXT,  offsetof(struct verify_options, file), "FILE",
     "this log instead of one's own, its absolute path",                                                  NULL},
    {"from", 0, PIN_OPTION_COUNT, offsetof(struct verify_options, from), "SEQ",
     "the log begins with this record: older ones were put away on purpose",                              NULL},
    {"json", 0, PIN_OPTION_FLAG,  offsetof(struct verify_options, json), NULL,   "print one JSON object", NULL},
};

static void print_records(const struct pin_audit_finding *finding) {
    if (finding->seq == 0)
        return;
    if (finding->seq == finding->last)
        (void)printf(" record %" PRIu64, finding->seq);
    else
        (void)printf(" records %" PRIu64 " to %" PRIu64, finding->seq, finding->last);
}

static const char *const meanings[] = {
    [PIN_AUDIT_MALFORMED] = "the line is no record",
    [PIN_AUDIT_EDITED] = "the bytes don't have their hash",
    [PIN_AUDIT_REPLACED] = "the chain goes on from another record than this one",
    [PIN_AUDIT_REMOVED] = "not in the log",
    [PIN_AUDIT_MISPLACED] = "not in its place, or there twice",
    [PIN_AUDIT_TRUNCATED] = "the log ends before them",
    [PIN_AUDIT_UNHEADED] = "behind the end that the head names",
};
_Static_assert(PIN_COUNT(meanings) == PIN_AUDIT_FAULT_COUNT, "every fault has a meaning");

static void print_finding(void *self, const struct pin_audit_finding *finding) {
    (void)self;
    (void)printf("%s", finding->file);
    if (finding->line > 0)
        (void)printf(":%" PRIu64, finding->line);
    (void)printf(": %s", pin_audit_fault_name(finding->fault));
    print_records(finding);
    (void)printf(": %s\n", meanings[finding->fault]);
}

static void list_finding(void *self, const struct pin_audit_finding *finding) {
    (void)json_array_append_new(self, json_pack("{s:s, s:s, s:I, s:I, s:I}", "fault",
                                                pin_audit_fault_name(finding->fault), "file", finding->file,
                                                "line", (json_int_t)finding->line, "first",
                                                (json_int_t)finding->seq, "last", (json_int_t)finding->last));
}

static void print_summary(const struct pin_audit_verifier *verifier, const struct pin_audit_head *head,
                          json_t *list) {
    if (list != NULL) {
        json_t *whole = json_pack("{s:b, s:I, s:I, s:s, s:O}", "ok", verifier->findings == 0, "records",
                                  (json_int_t)verifier->records, "last", (json_int_t)head->seq, "hash",
                                  head->hash, "findings", list);
        (void)json_dumpf(whole, stdout, JSON_COMPACT);
        (void)fputc('\n', stdout);
        json_decref(whole);
    } else if (verifier->findings == 0) {
        (void)printf("%" PRIu64 " records, all as they were written; the last is %" PRIu64 ", %s\n",
                     verifier->records, head->seq, head->hash);
    }
}

static int run_verify(const struct pin_invocation *invocation) {
    const struct verify_options *values = invocation->values;
    struct pin_audit audit = PIN_AUDIT_NONE;
    struct pin_audit_verifier verifier;
    struct pin_audit_head head;
    struct pin_error err = {0};
    json_t *list = values->json ? json_array() : NULL;
    int code = PIN_AUDIT_ERROR;
    pin_audit_verifier_init(&verifier, values->from.given ? values->from.value : 1,
                            list != NULL ? list_finding : print_finding, list);
    bool opened = values->file != NULL ? pin_audit_open_path(&audit, values->file, false, &err)
                                       : pin_audit_open(&audit, false, &err);
    if (opened && pin_audit_verify(&audit, &verifier, &head, &err)) {
        print_summary(&verifier, &head, list);
        code = verifier.findings == 0 ? PIN_AUDIT_GOOD : PIN_AUDIT_BAD;
    } else {
        (void)pin_report(&err, values->json);
    }
    pin_audit_close(&audit);
    json_decref(list);
    return code;
}

const struct pin_verb pin_audit_verb_verify = {
    .name = "audit verify",
    .synopsis = "",
    .summary = "find records that were edited, removed, reordered or cut off",
    .description =
        "Reads the whole log, with the files that were rotated away, and prints a line for each finding.\n"
        "Exit code 0: none; 1: some; 2: the log can't be read. Who can write the log and its head can write\n"
        "both anew: keep the last hash elsewhere, and compare.",
    .example = "  pinfold audit verify",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct verify_options),
    .run = run_verify,
};
