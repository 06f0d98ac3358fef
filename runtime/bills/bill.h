/* bill.h: what a labelled sandbox has used, on its way into the books.
 *
 * A run leaves one bill, a kept sandbox one now and then and one at its end; figures are what was used since
 * its bill before. A bill is one line in the file `spool` of a private directory ($PINFOLD_BILLS, root's
 * /var/lib/pinfold/bills, a user's ~/.local/share/pinfold/bills), written in one piece under a shared lock:
 * no database is opened on a run's way. `pinfold stats --by` enters them into the books (books.h). `id` and
 * `part` name a bill for good, so that entering it twice changes nothing. Source: docs/bills.md.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define PIN_BILL_LINE_MAX ((size_t)64 * 1024)
#define PIN_BILL_ID 33 /* 32 hex digits and a zero */

struct pin_bill {
    char id[PIN_BILL_ID]; /* of the run or the kept sandbox, never used twice */
    uint32_t part;        /* from 1 on, of a kept sandbox */
    const char *kind;     /* "run" or "kept" */
    const char *sandbox;
    const json_t *labels;    /* an object of strings */
    uint64_t at_ms;          /* since 1970 */
    uint64_t cpu_ns;         /* of the kernel's account */
    uint64_t memory_byte_ms; /* bytes held, times how long */
    uint64_t wall_ms, egress_out, egress_in, runs;
    uint64_t published_out, published_in; /* by published ports: it stays on this host */
};

/* Draws the id. */
bool pin_bill_begin(struct pin_bill *bill, struct pin_error *err);
/* Stamps it and puts it on the spool. */
bool pin_bill_write(struct pin_bill *bill, struct pin_error *err);

/* Pure: a line of the spool, without its end. *labels is the caller's, and `bill` points into it. False for
 * what is none. */
bool pin_bill_parse(const char *line, size_t size, struct pin_bill *bill, json_t **whole);

/* The directory; -1 with an error. */
int pin_bill_folder(bool create, struct pin_error *err);
/* Renames the spool to "spool." and a name of its own, for who enters it; true as well when nothing was on
 * it. */
bool pin_bill_take_spool(int folder, struct pin_error *err);
