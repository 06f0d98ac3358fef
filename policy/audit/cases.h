/* cases.h: unit tests for policies: a list of assertions, answered offline by why.h.
 *
 *   [{"deny": "connect 169.254.169.254:80"}, {"errno": ["EPERM", "syscall mount"]},
 *    {"name": "scratch", "allow": "write /tmp/x"}, {"kill": "syscall ptrace"}]
 *
 * "deny" holds for whatever isn't let through, "errno" and "kill" for just that answer. An answer that
 * depends on arguments which aren't given holds for none. Pure.
 */
#pragma once

#include "policy/audit/why.h"

enum pin_case_want { PIN_CASE_ALLOW, PIN_CASE_DENY, PIN_CASE_ERRNO, PIN_CASE_KILL, PIN_CASE_WANT_COUNT };
const char *pin_case_want_name(enum pin_case_want want);

struct pin_case {
    const char *name; /* the author's, or the question */
    enum pin_case_want want;
    int error; /* of ERRNO */
    struct pin_question question;
    uint32_t line, column; /* in the file */
    struct pin_answer answer;
    bool holds;
    const char *live; /* set by who tried it for real: what was seen instead; NULL: not tried, or the same */
};

struct pin_cases {
    struct pin_arena arena;
    const char *file;
    struct pin_case *list;
    size_t count;
};

#define PIN_CASES __attribute__((cleanup(pin_cases_free)))
#define PIN_CASES_BYTES_MAX ((size_t)1024 * 1024)

/* Fills zeroed cases from the text of a file. False with findings. */
bool pin_cases_read(struct pin_cases *cases, const char *file, const char *text, size_t size,
                    struct pin_findings *found);
void pin_cases_free(struct pin_cases *cases);

/* Answers all of them; returns how many don't hold. */
size_t pin_cases_run(struct pin_cases *cases, const struct pin_reach *reach, const struct pin_why_root *root);

/* How many don't hold, or were seen to be otherwise. */
size_t pin_cases_failed(const struct pin_cases *cases);

/* TAP version 14, and JUnit's XML. */
void pin_cases_tap(struct pin_buffer *to, const struct pin_cases *cases, const char *policy);
void pin_cases_junit(struct pin_buffer *to, const struct pin_cases *cases, const char *policy);
json_t *pin_cases_json(const struct pin_cases *cases);
