/* why.h: may a sandbox under this policy do that, which rule says so, and what is the smallest edit that
 * would allow it?
 *
 * The answer comes from the code that enforcement uses: the judge of destinations, the resolved filter, the
 * mounts and Landlock rules of a run, the limits. Questions are lines of words:
 *   connect HOST:PORT[/udp] [ADDRESS]   (ADDRESS: what the name resolves to)
 *   write PATH · read PATH · syscall NAME [ARG…] · secret NAME · limit NAME [VALUE] · publish PORT=PLACE
 * Pure.
 */
#pragma once

#include <jansson.h>

#include "policy/address_class.h"
#include "policy/audit/reach.h"
#include "policy/buffer.h"

enum pin_question_kind {
    PIN_ASK_CONNECT,
    PIN_ASK_WRITE,
    PIN_ASK_READ,
    PIN_ASK_SYSCALL,
    PIN_ASK_SECRET,
    PIN_ASK_LIMIT,
    PIN_ASK_PUBLISH,
    PIN_ASK_COUNT
};
const char *pin_question_kind_name(enum pin_question_kind kind);

struct pin_question {
    enum pin_question_kind kind;
    const char *text;                     /* the whole line, as it was asked */
    const char *name;                     /* the path, the call, the secret, the limit's field, the port */
    const struct pin_egress_rule *target; /* of connect: one host or address, one port */
    bool has_address;
    uint8_t address[PIN_ADDRESS_SIZE]; /* what the name resolves to */
    uint64_t args[PIN_FILTER_ARGS_MAX];
    size_t arg_count; /* of a syscall: those that were given */
    enum pin_field field;
    bool has_value; /* of limit */
    uint64_t value;
};

/* From words or from one line; strings go to the arena. */
bool pin_question_parse(struct pin_question *question, struct pin_arena *arena, const char *const *words,
                        size_t count, struct pin_error *err);
bool pin_question_parse_line(struct pin_question *question, struct pin_arena *arena, const char *line,
                             struct pin_error *err);

enum pin_answer_verdict {
    PIN_ANSWER_ALLOW,
    PIN_ANSWER_DENY,
    PIN_ANSWER_ERRNO,   /* the call answers with `error` */
    PIN_ANSWER_KILL,    /* the call ends the process */
    PIN_ANSWER_DEPENDS, /* on arguments that the question doesn't give */
    PIN_ANSWER_COUNT
};
const char *pin_answer_verdict_name(enum pin_answer_verdict verdict);

/* Texts live in the arena of the question or as long as the policy. */
struct pin_answer {
    enum pin_answer_verdict verdict;
    int error;
    const char *reason; /* one sentence */
    const char *rule;   /* "/network/egress/2"; NULL: no rule speaks of it */
    struct pin_place place;
    const char *given; /* what the verdict takes for granted, or NULL */
    const char *edit;  /* a fragment of policy JSON that allows it in a policy which extends this one; NULL */
    const char *caution; /* what else the edit would open, or why there is none; NULL */
};

/* What the image's root shows, when that is known. */
struct pin_why_root {
    const char *image; /* "host" */
    bool (*shows)(const void *context, const char *path);
    const void *context;
};

struct pin_answer pin_why(const struct pin_reach *reach, const struct pin_question *question,
                          const struct pin_why_root *root, struct pin_arena *arena);

/* Whether the question was about something that would be let through. */
static inline bool pin_answer_allows(const struct pin_answer *answer) {
    return answer->verdict == PIN_ANSWER_ALLOW;
}

void pin_answer_print(struct pin_buffer *to, const struct pin_question *question,
                      const struct pin_answer *answer);
json_t *pin_answer_json(const struct pin_question *question, const struct pin_answer *answer);
