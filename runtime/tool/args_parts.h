/* args_parts.h: what the files of args.c share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/findings.h"

#define PIN_ARGS_DEPTH_MAX 64
#define PIN_ARGS_STEPS_MAX                                                                                   \
    1000000 /* schemas applied to values: alternatives within alternatives multiply                          \
             */

struct pin_args_walk {
    json_t *given, *root; /* the schema as it came, and the schema of the arguments within it */
    struct pin_findings *found;
    unsigned trials; /* above 0: an alternative is being tried, and faults are no findings */
    bool exact;      /* no conversions */
    unsigned depth, steps;
    size_t length;
    char path[128]; /* JSON pointer of the value; cut where room ends */
};

/* A finding at the value's place, unless it is a trial; false. */
bool pin_args_fault(struct pin_args_walk *walk, enum pin_error_kind kind, const char *text);
/* One level down; what it returns goes to pin_args_leave(). */
size_t pin_args_enter(struct pin_args_walk *walk, const char *key);
void pin_args_leave(struct pin_args_walk *walk, size_t before);

/* The converted value, a new reference; NULL where it doesn't fit. */
json_t *pin_args_value(struct pin_args_walk *walk, json_t *schema, json_t *value);
json_t *pin_args_object(struct pin_args_walk *walk, json_t *schema, json_t *value);
json_t *pin_args_array(struct pin_args_walk *walk, json_t *schema, json_t *value);

/* Every keyword of the schema is one that is kept here, or says nothing about which values are right. */
bool pin_args_known_keywords(struct pin_args_walk *walk, json_t *schema);
/* enum, const, bounds and sizes. */
bool pin_args_check(struct pin_args_walk *walk, json_t *schema, const json_t *value);
