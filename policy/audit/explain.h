/* explain.h: what a run under a policy can do, in plain sentences, grouped by what it touches. Pure. */
#pragma once

#include <jansson.h>

#include "policy/audit/reach.h"
#include "policy/buffer.h"

enum pin_explain_tone {
    PIN_EXPLAIN_CAN,    /* it can */
    PIN_EXPLAIN_CANNOT, /* it can't */
    PIN_EXPLAIN_LIMIT,  /* up to here */
    PIN_EXPLAIN_TONE_COUNT
};

struct pin_explain_line {
    enum pin_explain_tone tone;
    const char *text;
    struct pin_place place; /* file NULL: always so */
};

enum pin_explain_group {
    PIN_EXPLAIN_FILES,
    PIN_EXPLAIN_NETWORK,
    PIN_EXPLAIN_CALLS,
    PIN_EXPLAIN_IDENTITY,
    PIN_EXPLAIN_RESOURCES,
    PIN_EXPLAIN_ENVIRONMENT,
    PIN_EXPLAIN_RECORD,
    PIN_EXPLAIN_GROUP_COUNT
};
const char *pin_explain_group_title(enum pin_explain_group group);

struct pin_explain_lines {
    struct pin_explain_line *list;
    size_t count;
};

struct pin_explain {
    struct pin_arena arena;
    struct pin_explain_lines groups[PIN_EXPLAIN_GROUP_COUNT];
};

#define PIN_EXPLAIN __attribute__((cleanup(pin_explain_free)))

/* Fills a zeroed explanation; the policy must outlive it. */
void pin_explain_make(struct pin_explain *explain, const struct pin_reach *reach);
void pin_explain_free(struct pin_explain *explain);

void pin_explain_print(struct pin_buffer *to, const struct pin_explain *explain,
                       const struct pin_policy *policy);
json_t *pin_explain_json(const struct pin_explain *explain, const struct pin_policy *policy);
