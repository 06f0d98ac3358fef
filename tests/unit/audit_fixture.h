/* audit_fixture.h: policies in memory, and what the auditor's tests ask of them. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "policy/audit/why.h"
#include "policy/policy_read.h"

/* A policy that stands; `text` without the braces and the version. */
static inline struct pin_policy *policy_of(const char *text) {
    static struct pin_findings found;
    PIN_BUFFER struct pin_buffer whole = {0};
    memset(&found, 0, sizeof(found));
    pin_buffer_printf(&whole, "{\"pinfold\": 1%s%s}", *text != '\0' ? ", " : "", text);
    struct pin_policy *policy = pin_policy_parse("test.json", whole.data, whole.size, &found);
    if (policy == NULL)
        fail_msg("%s: %s (%s)", text, found.list[0].message, found.list[0].pointer);
    return policy;
}

static inline struct pin_policy *policy_named(const char *name) {
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    struct pin_policy *policy = pin_policy_load(name, &found);
    if (policy == NULL)
        fail_msg("%s: %s (%s)", name, found.list[0].message, found.list[0].pointer);
    return policy;
}

static inline void reach_of(struct pin_reach *reach, const struct pin_policy *policy) {
    struct pin_findings found = {0};
    memset(reach, 0, sizeof(*reach));
    if (!pin_reach_make(reach, policy, PIN_ARCH_X86_64, &found))
        fail_msg("%s", found.list[0].message);
}

/* Texts of the answer live in the arena. */
static inline struct pin_answer ask(const struct pin_reach *reach, struct pin_arena *arena,
                                    const char *line) {
    struct pin_question question;
    struct pin_error err = {0};
    if (!pin_question_parse_line(&question, arena, line, &err))
        fail_msg("'%s': %s", line, err.message);
    return pin_why(reach, &question, NULL, arena);
}

/* The policy in a file of its own that only its owner can write; the caller unlinks it. */
static inline void write_file(char path[64], const char *text, size_t size) {
    (void)snprintf(path, 64, "/tmp/pin-audit-XXXXXX.json");
    int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    (void)close(fd);
}

/* `policy` with an edit of the auditor's laid over it, as a policy that extends it. */
static inline struct pin_policy *policy_edited(const char *base, const char *edit) {
    PIN_BUFFER struct pin_buffer text = {0};
    pin_buffer_printf(&text, "\"extends\": [\"%s\"], %.*s", base, (int)strlen(edit) - 2, edit + 1);
    return policy_of(text.data);
}
