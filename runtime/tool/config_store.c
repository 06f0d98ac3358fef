#include "runtime/tool/config_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "runtime/private/private_dir.h"
#include "runtime/tool/config_sql.h"

#define APPLICATION_ID 1885957734 /* "pinf" */
#define WAIT_MS 10000             /* for another writer */

static const struct pin_private_place place = {"PINFOLD_CONFIG", "/var/lib/pinfold/config", "XDG_DATA_HOME",
                                               ".local/share", "pinfold/config"};
static const char file_name[] = "configurations.db";

/* Migration n brings a store of version n to version n + 1. What has been released is never edited. */
static const char *const migrations[] = {
    "CREATE TABLE configuration ("
    "  id INTEGER PRIMARY KEY, organisation TEXT NOT NULL, name TEXT NOT NULL, content TEXT NOT NULL,"
    "  is_default INTEGER NOT NULL DEFAULT 0, changed_s INTEGER NOT NULL,"
    "  UNIQUE (organisation, name)) STRICT;"
    "CREATE UNIQUE INDEX one_default ON configuration (organisation) WHERE is_default = 1;",
    "CREATE TABLE variable ("
    "  configuration INTEGER NOT NULL REFERENCES configuration (id) ON DELETE CASCADE,"
    "  name TEXT NOT NULL, value TEXT, sealed TEXT,"
    "  PRIMARY KEY (configuration, name), CHECK (value IS NULL OR sealed IS NULL)) STRICT, WITHOUT ROWID;",
};

static bool set_up(struct pin_config_store *store, struct pin_error *err) {
    int ignored;
    (void)sqlite3_extended_result_codes(store->base, 1);
    (void)sqlite3_busy_timeout(store->base, WAIT_MS);
    /* a file that somebody else has made may hold a schema that does things */
    (void)sqlite3_db_config(store->base, SQLITE_DBCONFIG_DEFENSIVE, 1, &ignored);
    (void)sqlite3_db_config(store->base, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, &ignored);
    (void)sqlite3_db_config(store->base, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, &ignored);
    (void)sqlite3_db_config(store->base, SQLITE_DBCONFIG_ENABLE_VIEW, 0, &ignored);
    return pin_sql_run(store, err, "PRAGMA foreign_keys = ON") &&
           pin_sql_run(store, err, "PRAGMA cell_size_check = ON");
}

static bool read_number(struct pin_config_store *store, const char *pragma, int64_t *number,
                        struct pin_error *err) {
    PIN_SQL sqlite3_stmt *query = pin_sql_prepare(store, err, pragma, 0);
    if (query == NULL || !pin_sql_step(store, query, err))
        return false;
    *number = sqlite3_column_int64(query, 0);
    return true;
}

static bool is_ours(struct pin_config_store *store, int64_t *version, struct pin_error *err) {
    int64_t id = 0, pages = 0;
    if (!read_number(store, "PRAGMA application_id", &id, err) ||
        !read_number(store, "PRAGMA user_version", version, err) ||
        !read_number(store, "SELECT count(*) FROM sqlite_schema", &pages, err))
        return false;
    if (id != APPLICATION_ID && pages > 0) {
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "the file isn't a store of pinfold's configurations");
        return pin_hint(err, "move it away; a new one is made when it is needed");
    }
    if (*version < 0 || *version > (int64_t)PIN_COUNT(migrations)) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "the store has version %lld, and this pinfold knows %zu",
                       (long long)*version, PIN_COUNT(migrations));
        return pin_hint(err, "use the pinfold that wrote it, or a later one");
    }
    return true;
}

static bool apply_migrations(struct pin_config_store *store, struct pin_error *err) {
    int64_t version;
    char text[64];
    if (!is_ours(store, &version, err))
        return false;
    for (size_t i = (size_t)version; i < PIN_COUNT(migrations); i++)
        if (!pin_sql_run(store, err, migrations[i]))
            return pin_wrap(err, "bring the store to version %zu", i + 1);
    (void)snprintf(text, sizeof(text), "PRAGMA user_version = %zu", PIN_COUNT(migrations));
    if (!pin_sql_run(store, err, text))
        return false;
    (void)snprintf(text, sizeof(text), "PRAGMA application_id = %d", APPLICATION_ID);
    return pin_sql_run(store, err, text);
}

/* A store of an earlier version is changed under the writers' lock: two at once migrate it once. */
static bool bring_up(struct pin_config_store *store, struct pin_error *err) {
    int64_t version = 0;
    /* its numbers are of one moment: another process may just be making it */
    if (!pin_sql_run(store, err, "BEGIN") || !pin_sql_end(store, is_ours(store, &version, err), err))
        return false;
    if (version == (int64_t)PIN_COUNT(migrations))
        return true;
    return pin_sql_begin(store, err) && pin_sql_end(store, apply_migrations(store, err), err);
}

static bool check_pages(struct pin_config_store *store, struct pin_error *err) {
    PIN_SQL sqlite3_stmt *query = pin_sql_prepare(store, err, "PRAGMA quick_check(1)", 0);
    if (query == NULL || !pin_sql_step(store, query, err))
        return false;
    const char *said = (const char *)sqlite3_column_text(query, 0);
    if (said != NULL && strcmp(said, "ok") == 0)
        return true;
    return pin_sql_damaged(store, err, said != NULL ? said : "");
}

/* SQLite opens by path; that the directory is private and the file a regular one of ours is checked first. */
static bool claim_file(struct pin_config_store *store, bool create, struct pin_error *err) {
    char folder[PATH_MAX];
    if (!pin_private_choose(&place, folder, err))
        return false;
    PIN_CLOSE int dir = pin_private_dir(folder, create, err);
    PIN_CLOSE int file =
        dir < 0 ? -1 : pin_private_file(dir, file_name, O_RDWR | (create ? O_CREAT : 0), err);
    if (file < 0)
        return false;
    if (snprintf(store->path, sizeof(store->path), "%s/%s", folder, file_name) >= (int)sizeof(store->path))
        return pin_fail(err, PIN_ERROR_INVALID, "the store's path is too long");
    return true;
}

static bool open_base(struct pin_config_store *store, enum pin_config_open how, struct pin_error *err) {
    if (sqlite3_open_v2(store->path, &store->base, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        return pin_sql_fail(store, err);
    return set_up(store, err) && bring_up(store, err) && (how != PIN_CONFIG_CHECK || check_pages(store, err));
}

bool pin_config_store_open(struct pin_config_store *store, enum pin_config_open how, struct pin_error *err) {
    if (!claim_file(store, how != PIN_CONFIG_READ, err))
        return false;
    if (open_base(store, how, err))
        return true;
    (void)pin_point(err, "%s", store->path);
    pin_config_store_close(store);
    return false;
}

void pin_config_store_close(struct pin_config_store *store) {
    (void)sqlite3_close(store->base);
    *store = PIN_CONFIG_STORE_NONE;
}
