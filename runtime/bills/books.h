/* books.h: bills in a database, and their sums by label.
 *
 * `bills.db` of the directory of bills (SQLite, with a number of its schema's version, which is brought up to
 * date when it is opened). Whoever opens it enters what is on the spool first; several at once wait for each
 * other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct pin_books;

/* Opens the books, made where they are missing, and enters the spool. NULL with an error. */
struct pin_books *pin_books_open(struct pin_error *err);
void pin_books_close(struct pin_books *books);
/* Lines of the spool that were no bills: a writer was killed, or a disk full. */
uint64_t pin_books_skipped(const struct pin_books *books);

struct pin_books_sum {
    const char *value; /* of the label; NULL: those without it */
    double cpu_seconds, memory_byte_seconds, wall_seconds;
    uint64_t egress_out, egress_in, published_out, published_in, runs, sandboxes;
};

/* Calls for each value of the label, in their order; of bills written in [since, until), ms since 1970. */
typedef void pin_books_each(void *self, const struct pin_books_sum *sum);
bool pin_books_sum(struct pin_books *books, const char *label, uint64_t since_ms, uint64_t until_ms,
                   pin_books_each *each, void *self, struct pin_error *err);
