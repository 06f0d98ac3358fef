#include "runtime/tool/config_sql.h"

#include <errno.h>
#include <stdarg.h>

bool pin_sql_damaged(struct pin_config_store *store, struct pin_error *err, const char *why) {
    (void)store;
    (void)pin_fail(err, PIN_ERROR_SYNTAX, "the store of configurations is damaged: %.120s", why);
    return pin_hint(err, "restore it from a backup, or move it away and make the configurations anew");
}

bool pin_sql_fail(struct pin_config_store *store, struct pin_error *err) {
    static const struct {
        int code;
        enum pin_error_kind kind;
    } kinds[] = {
        {SQLITE_BUSY,     PIN_ERROR_BUSY     },
        {SQLITE_FULL,     PIN_ERROR_EXHAUSTED},
        {SQLITE_NOMEM,    PIN_ERROR_EXHAUSTED},
        {SQLITE_READONLY, PIN_ERROR_REFUSED  },
        {SQLITE_CANTOPEN, PIN_ERROR_SYSTEM   },
        {SQLITE_IOERR,    PIN_ERROR_SYSTEM   },
    };
    int code = sqlite3_errcode(store->base) & 0xff;
    const char *text = sqlite3_errmsg(store->base);
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        return pin_sql_damaged(store, err, text);
    enum pin_error_kind kind = PIN_ERROR_INTERNAL;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].code == code)
            kind = kinds[i].kind;
    return pin_fail(err, kind, "the store of configurations: %.160s", text);
}

sqlite3_stmt *pin_sql_prepare(struct pin_config_store *store, struct pin_error *err, const char *sql,
                              size_t count, ...) {
    sqlite3_stmt *query = NULL;
    va_list list;
    if (sqlite3_prepare_v2(store->base, sql, -1, &query, NULL) != SQLITE_OK) {
        (void)pin_sql_fail(store, err);
        return NULL;
    }
    va_start(list, count);
    for (size_t i = 0; i < count; i++)
        (void)sqlite3_bind_text(query, (int)i + 1, va_arg(list, const char *), -1, SQLITE_STATIC);
    va_end(list);
    return query;
}

bool pin_sql_step(struct pin_config_store *store, sqlite3_stmt *query, struct pin_error *err) {
    int code = sqlite3_step(query);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        (void)pin_sql_fail(store, err);
    return code == SQLITE_ROW;
}

bool pin_sql_change(struct pin_config_store *store, sqlite3_stmt *query, int *changed,
                    struct pin_error *err) {
    if (query == NULL)
        return false;
    (void)pin_sql_step(store, query, err);
    if (pin_is_set(err))
        return false;
    if (changed != NULL)
        *changed = sqlite3_changes(store->base);
    return true;
}

bool pin_sql_run(struct pin_config_store *store, struct pin_error *err, const char *sql) {
    return sqlite3_exec(store->base, sql, NULL, NULL, NULL) == SQLITE_OK || pin_sql_fail(store, err);
}

bool pin_sql_begin(struct pin_config_store *store, struct pin_error *err) {
    return pin_sql_run(store, err, "BEGIN IMMEDIATE");
}

bool pin_sql_end(struct pin_config_store *store, bool good, struct pin_error *err) {
    if (good && pin_sql_run(store, err, "COMMIT"))
        return true;
    (void)sqlite3_exec(store->base, "ROLLBACK", NULL, NULL,
                       NULL); /* some failures have rolled back already */
    return false;
}
