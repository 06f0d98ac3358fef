/* plan_parts.h: the parts that every plan has; for this folder alone. */
#pragma once

#include "base/findings.h"
#include "runtime/plan/plan.h"

extern const uint64_t pin_plan_clone_flags[PIN_NS_COUNT]; /* CLONE_NEW* */

/* Appends an operation; all that add to `ops` come through here. The others may move. */
struct pin_op *pin_plan_add_op(struct pin_plan *plan, enum pin_op_kind kind, const char *target);

/* Notes what an engine asks for and what has no effect, here or anywhere. */
void pin_plan_unheeded(struct pin_plan *plan, const char *pointer, const char *why);

/* The process of an engine's container: plan_engine_process.c. */
void pin_plan_engine_process(struct pin_plan *plan, const struct pin_host *host,
                             const struct pin_engine_request *request, struct pin_findings *found);

void pin_plan_root(struct pin_plan *plan, struct pin_findings *found);
void pin_plan_rlimits(struct pin_plan *plan, const struct pin_host *host, struct pin_findings *found);

/* Files of secrets, after every mount: plan_secrets.c. */
void pin_plan_secrets(struct pin_plan *plan, struct pin_findings *found);

/* The root of an image: plan_layers.c. */
void pin_plan_layers(struct pin_plan *plan, struct pin_findings *found);
/* The root of a bundle that may be written to: what is written goes into an overlay. */
void pin_plan_directory_overlay(struct pin_plan *plan, const char *path, struct pin_findings *found);
/* What is made where an image doesn't have it. */
void pin_plan_missing_entries(struct pin_plan *plan);
