/* score.h: how much of the host a policy exposes, from 0 (nothing) to 10 (everything).
 *
 * One weighted sum: each part (calls, socket families, files, …) is the sum of the weights of what the policy
 * grants, divided by the sum of all weights where that is finite (else cut at 100), and counts at most what
 * `parts` says. The parts' maxima add up to 10. Pure. Formula and weights: docs/auditor.md "Score".
 */
#pragma once

#include <jansson.h>

#include "policy/audit/reach.h"
#include "policy/audit/weights.h"
#include "policy/buffer.h"

#define PIN_SCORE_ADVICE_MAX 3

struct pin_score_line {
    double most, points; /* of this part */
    const char *detail;  /* what weighs most, for people */
};

struct pin_score_advice {
    const char *edit; /* a fragment of policy JSON */
    const char *text; /* what it does */
    double gain;      /* points */
    unsigned cost;    /* 1: hardly any tool will miss it; 3: many will */
};

struct pin_score {
    struct pin_arena arena;
    double total;
    struct pin_score_line parts[PIN_SCORE_PART_COUNT];
    struct pin_score_advice advice[PIN_SCORE_ADVICE_MAX]; /* the most for its cost first */
    size_t advice_count;
};

#define PIN_SCORE __attribute__((cleanup(pin_score_free)))

/* Fills a zeroed score. Without advice it costs less. */
void pin_score_make(struct pin_score *score, const struct pin_reach *reach,
                    const struct pin_weights *weights);
void pin_score_advise(struct pin_score *score, const struct pin_reach *reach,
                      const struct pin_weights *weights);
void pin_score_free(struct pin_score *score);

void pin_score_print(struct pin_buffer *to, const struct pin_score *score);
json_t *pin_score_json(const struct pin_score *score);
