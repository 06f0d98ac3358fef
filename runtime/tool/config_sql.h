/* config_sql.h: statements of the configurations' store: bound, stepped, and their failures as errors. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <sqlite3.h>

#include "base/error.h"
#include "runtime/tool/config_store.h"

static inline void pin_sql_finish(sqlite3_stmt **query) {
    (void)sqlite3_finalize(*query);
}
#define PIN_SQL __attribute__((cleanup(pin_sql_finish)))

/* The error of the last call; false. */
bool pin_sql_fail(struct pin_config_store *store, struct pin_error *err);
bool pin_sql_damaged(struct pin_config_store *store, struct pin_error *err, const char *why);

/* A statement with `count` texts (const char *, NULL is null) bound in their order; the texts live as long.
 */
sqlite3_stmt *pin_sql_prepare(struct pin_config_store *store, struct pin_error *err, const char *sql,
                              size_t count, ...);
/* One row is there: true. None: false without an error. */
bool pin_sql_step(struct pin_config_store *store, sqlite3_stmt *query, struct pin_error *err);
/* A statement that gives no rows, with `changed` (or NULL) rows changed. */
bool pin_sql_change(struct pin_config_store *store, sqlite3_stmt *query, int *changed, struct pin_error *err);
/* Statements without values. */
bool pin_sql_run(struct pin_config_store *store, struct pin_error *err, const char *sql);

/* A transaction that may write, alone; its end keeps all or nothing and passes `good` on. */
bool pin_sql_begin(struct pin_config_store *store, struct pin_error *err);
bool pin_sql_end(struct pin_config_store *store, bool good, struct pin_error *err);
