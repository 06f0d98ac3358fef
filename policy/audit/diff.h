/* diff.h: what becomes reachable, or unreachable, from one policy to another.
 *
 * The verdict is the order of policy_order.h, taken both ways, so that diff and ceiling can't disagree; the
 * changes say in detail what it rests on. Order of items, names, descriptions and how a policy is put
 * together by `extends` make no difference. Pure.
 */
#pragma once

#include <jansson.h>

#include "policy/audit/reach.h"
#include "policy/buffer.h"

enum pin_change_kind {
    PIN_CHANGE_WIDER,    /* B grants it, A doesn't */
    PIN_CHANGE_NARROWER, /* A grants it, B doesn't */
    PIN_CHANGE_OTHER,    /* different, and neither grants more: a value of environment.set */
    PIN_CHANGE_KIND_COUNT
};

struct pin_change {
    enum pin_change_kind kind;
    const char *pointer;    /* of the field */
    const char *text;       /* "connections to api.example.com:443" */
    struct pin_place place; /* of what grants it, or of what takes it away */
};

struct pin_diff {
    struct pin_arena arena;
    bool wider, narrower; /* B has what A hasn't; A has what B hasn't */
    struct pin_change *changes;
    size_t count;
};

#define PIN_DIFF __attribute__((cleanup(pin_diff_free)))

/* Fills a zeroed diff; both policies must outlive it. */
void pin_diff_make(struct pin_diff *diff, const struct pin_reach *a, const struct pin_reach *b);
void pin_diff_free(struct pin_diff *diff);

void pin_diff_print(struct pin_buffer *to, const struct pin_diff *diff, const char *a, const char *b);
json_t *pin_diff_json(const struct pin_diff *diff);
