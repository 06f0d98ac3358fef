/* The configurations in the store: read, made, changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "runtime/tool/config_sql.h"

static const char *now_text(char to[24]) {
    (void)snprintf(to, 24, "%lld", (long long)time(NULL));
    return to;
}

static bool absent(const char *organisation, const char *name, struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "there is no configuration '%.60s' of '%.60s'", name,
                   organisation);
    return pin_hint(err, "see 'pinfold config list'");
}

static const char *column(sqlite3_stmt *query, int index) {
    return (const char *)sqlite3_column_text(query, index);
}

/* --- reading --- */

static bool take_content(struct pin_tool_config *config, const char *text, struct pin_error *err) {
    struct pin_findings *found = calloc(1, sizeof(*found));
    if (found == NULL || text == NULL) {
        free(found);
        return pin_fail(err, PIN_ERROR_SYNTAX, "the stored configuration has no content");
    }
    bool good = pin_tool_config_parse(config, "the stored configuration", text, strlen(text), found) ||
                pin_fail_findings(err, found);
    free(found);
    return good;
}

static bool take_env(struct pin_config_store *store, struct pin_tool_config *config, const char *id,
                     struct pin_error *err) {
    PIN_SQL sqlite3_stmt *query = pin_sql_prepare(
        store, err, "SELECT name, value, sealed FROM variable WHERE configuration = ? ORDER BY name", 1, id);
    while (query != NULL && pin_sql_step(store, query, err)) {
        const char *name = column(query, 0), *value = column(query, 1), *sealed = column(query, 2);
        if (name == NULL || !pin_tool_is_variable(name))
            return pin_sql_damaged(store, err, "a variable has no name");
        struct pin_tool_variable *variable =
            pin_arena_grow(&config->arena, &config->env, &config->env_count, sizeof(*variable));
        variable->name = pin_arena_strdup(&config->arena, name);
        variable->value = value != NULL ? pin_arena_strdup(&config->arena, value) : NULL;
        variable->sealed = sealed != NULL ? pin_arena_strdup(&config->arena, sealed) : NULL;
    }
    return !pin_is_set(err);
}

static bool take_row(struct pin_config_store *store, sqlite3_stmt *query, const char *organisation,
                     struct pin_tool_config *config, struct pin_error *err) {
    char id[24];
    (void)snprintf(id, sizeof(id), "%lld", (long long)sqlite3_column_int64(query, 0));
    const char *name = column(query, 1);
    if (name == NULL || !take_content(config, column(query, 2), err))
        return false;
    config->organisation = pin_arena_strdup(&config->arena, organisation);
    config->name = pin_arena_strdup(&config->arena, column(query, 1));
    return take_env(store, config, id, err);
}

static bool get(struct pin_config_store *store, const char *organisation, const char *name,
                struct pin_tool_config *config, struct pin_error *err) {
    PIN_SQL sqlite3_stmt *query = pin_sql_prepare(store, err,
                                                  name != NULL ? "SELECT id, name, content FROM configuration"
                                                                 " WHERE organisation = ? AND name = ?"
                                                               : "SELECT id, name, content FROM configuration"
                                                                 " WHERE organisation = ? AND is_default = 1",
                                                  name != NULL ? 2 : 1, organisation, name);
    if (query == NULL)
        return false;
    if (pin_sql_step(store, query, err))
        return take_row(store, query, organisation, config, err);
    return !pin_is_set(err) && absent(organisation, name != NULL ? name : "(default)", err);
}

/* One transaction, so that content and environment are of one moment. */
bool pin_config_store_get(struct pin_config_store *store, const char *organisation, const char *name,
                          struct pin_tool_config *config, struct pin_error *err) {
    if (!pin_sql_run(store, err, "BEGIN"))
        return false;
    if (pin_sql_end(store, get(store, organisation, name, config, err), err))
        return true;
    pin_tool_config_free(config);
    return false;
}

bool pin_config_store_list(struct pin_config_store *store, const char *organisation, pin_config_see *see,
                           void *self, struct pin_error *err) {
    PIN_SQL sqlite3_stmt *query = pin_sql_prepare(
        store, err,
        "SELECT organisation, name, json_extract(content, '$.description'), is_default, changed_s,"
        " (SELECT count(*) FROM variable WHERE configuration = configuration.id)"
        " FROM configuration WHERE ?1 IS NULL OR organisation = ?1 ORDER BY organisation, name",
        1, organisation);
    while (query != NULL && pin_sql_step(store, query, err)) {
        const struct pin_config_row row = {
            .organisation = column(query, 0),
            .name = column(query, 1),
            .description = column(query, 2),
            .is_default = sqlite3_column_int(query, 3) == 1,
            .changed_s = sqlite3_column_int64(query, 4),
            .variables = (uint64_t)sqlite3_column_int64(query, 5),
        };
        if (row.organisation != NULL && row.name != NULL)
            see(self, &row);
    }
    return !pin_is_set(err);
}

/* --- writing --- */

static bool clear_default(struct pin_config_store *store, const char *organisation, struct pin_error *err) {
    PIN_SQL sqlite3_stmt *query = pin_sql_prepare(
        store, err, "UPDATE configuration SET is_default = 0 WHERE organisation = ? AND is_default = 1", 1,
        organisation);
    return pin_sql_change(store, query, NULL, err);
}

static bool mark_default(struct pin_config_store *store, const char *organisation, const char *name,
                         int *changed, struct pin_error *err) {
    PIN_SQL sqlite3_stmt *query = pin_sql_prepare(
        store, err, "UPDATE configuration SET is_default = 1 WHERE organisation = ? AND name = ?", 2,
        organisation, name);
    return clear_default(store, organisation, err) && pin_sql_change(store, query, changed, err);
}

static bool insert(struct pin_config_store *store, const char *organisation, const char *name,
                   const char *text, struct pin_error *err) {
    char now[24];
    PIN_SQL sqlite3_stmt *query = pin_sql_prepare(store, err,
                                                  "INSERT INTO configuration (organisation, name, content, "
                                                  "changed_s) VALUES (?, ?, ?, CAST(? AS INTEGER))",
                                                  4, organisation, name, text, now_text(now));
    if (query == NULL)
        return false;
    if (sqlite3_step(query) == SQLITE_DONE)
        return true;
    if ((sqlite3_errcode(store->base) & 0xff) != SQLITE_CONSTRAINT)
        return pin_sql_fail(store, err);
    (void)pin_fail(err, PIN_ERROR_EXISTS, "there is a configuration '%.60s' of '%.60s' already", name,
                   organisation);
    return pin_hint(err, "'pinfold config update' changes it");
}

bool pin_config_store_create(struct pin_config_store *store, const char *organisation, const char *name,
                             const char *text, bool make_default, struct pin_error *err) {
    if (!pin_sql_begin(store, err))
        return false;
    bool good = insert(store, organisation, name, text, err) &&
                (!make_default || mark_default(store, organisation, name, NULL, err));
    return pin_sql_end(store, good, err);
}

static bool has_default(struct pin_config_store *store, const char *organisation, struct pin_error *err) {
    PIN_SQL sqlite3_stmt *query = pin_sql_prepare(
        store, err, "SELECT 1 FROM configuration WHERE organisation = ? AND is_default = 1", 1, organisation);
    return query != NULL && pin_sql_step(store, query, err);
}

static bool make_default(struct pin_config_store *store, const char *organisation, struct pin_error *err) {
    int changed = 0;
    if (has_default(store, organisation, err))
        return true;
    if (pin_is_set(err) || !mark_default(store, organisation, PIN_TOOL_DEFAULT_CONFIG, &changed, err))
        return false;
    return changed > 0 || (insert(store, organisation, PIN_TOOL_DEFAULT_CONFIG, "{}", err) &&
                           mark_default(store, organisation, PIN_TOOL_DEFAULT_CONFIG, NULL, err));
}

bool pin_config_store_ensure(struct pin_config_store *store, const char *organisation,
                             struct pin_error *err) {
    if (has_default(store, organisation, err))
        return true;
    return !pin_is_set(err) && pin_sql_begin(store, err) &&
           pin_sql_end(store, make_default(store, organisation, err), err);
}

bool pin_config_store_set_default(struct pin_config_store *store, const char *organisation, const char *name,
                                  struct pin_error *err) {
    int changed = 0;
    if (!pin_sql_begin(store, err))
        return false;
    bool good = mark_default(store, organisation, name, &changed, err) &&
                (changed > 0 || absent(organisation, name, err));
    return pin_sql_end(store, good, err);
}

bool pin_config_store_delete(struct pin_config_store *store, const char *organisation, const char *name,
                             struct pin_error *err) {
    int changed = 0;
    if (!pin_sql_begin(store, err))
        return false;
    PIN_SQL sqlite3_stmt *query = pin_sql_prepare(
        store, err, "DELETE FROM configuration WHERE organisation = ? AND name = ?", 2, organisation, name);
    bool good =
        pin_sql_change(store, query, &changed, err) && (changed > 0 || absent(organisation, name, err));
    return pin_sql_end(store, good, err);
}

static bool replace(struct pin_config_store *store, const char *organisation, const char *name,
                    const char *text, struct pin_error *err) {
    char now[24];
    PIN_SQL sqlite3_stmt *query =
        pin_sql_prepare(store, err,
                        "UPDATE configuration SET content = ?, changed_s = CAST(? AS INTEGER)"
                        " WHERE organisation = ? AND name = ?",
                        4, text, now_text(now), organisation, name);
    return pin_sql_change(store, query, NULL, err);
}

static bool change_content(struct pin_config_store *store, const char *organisation, const char *name,
                           pin_config_change *change, void *self, struct pin_findings *found,
                           struct pin_error *err) {
    struct pin_tool_config now = {0};
    if (!get(store, organisation, name, &now, err))
        return false;
    PIN_FREE char *text = change(self, now.text, found);
    pin_tool_config_free(&now);
    return text != NULL && replace(store, organisation, name, text, err);
}

bool pin_config_store_update(struct pin_config_store *store, const char *organisation, const char *name,
                             pin_config_change *change, void *self, struct pin_findings *found) {
    struct pin_error err = {0};
    bool good =
        pin_sql_begin(store, &err) &&
        pin_sql_end(store, change_content(store, organisation, name, change, self, found, &err), &err);
    if (pin_is_set(&err))
        pin_find_error(found, &err);
    return good;
}

/* --- variables --- */

/* The row's number as text; false where there is none. */
static bool find_id(struct pin_config_store *store, const char *organisation, const char *name, char id[24],
                    struct pin_error *err) {
    PIN_SQL sqlite3_stmt *query =
        pin_sql_prepare(store, err, "SELECT id FROM configuration WHERE organisation = ? AND name = ?", 2,
                        organisation, name);
    if (query == NULL)
        return false;
    if (!pin_sql_step(store, query, err))
        return !pin_is_set(err) && absent(organisation, name, err);
    (void)snprintf(id, 24, "%lld", (long long)sqlite3_column_int64(query, 0));
    return true;
}

static bool put_variable(struct pin_config_store *store, const char *id,
                         const struct pin_tool_variable *variable, struct pin_error *err) {
    PIN_SQL sqlite3_stmt *query = pin_sql_prepare(store, err,
                                                  "INSERT OR REPLACE INTO variable (configuration, name, "
                                                  "value, sealed) VALUES (CAST(? AS INTEGER), ?, ?, ?)",
                                                  4, id, variable->name, variable->value, variable->sealed);
    return pin_sql_change(store, query, NULL, err);
}

bool pin_config_store_set_env(struct pin_config_store *store, const char *organisation,
                              const char *configuration, const struct pin_tool_variable *variables,
                              size_t count, struct pin_error *err) {
    char id[24];
    if (!pin_sql_begin(store, err))
        return false;
    bool good = find_id(store, organisation, configuration, id, err);
    for (size_t i = 0; good && i < count; i++)
        good = put_variable(store, id, &variables[i], err);
    return pin_sql_end(store, good, err);
}

static bool take_variable(struct pin_config_store *store, const char *id, const char *name,
                          struct pin_error *err) {
    int changed = 0;
    PIN_SQL sqlite3_stmt *query =
        pin_sql_prepare(store, err, "DELETE FROM variable WHERE configuration = ? AND name = ?", 2, id, name);
    if (!pin_sql_change(store, query, &changed, err))
        return false;
    return changed > 0 || pin_fail(err, PIN_ERROR_NOT_FOUND, "there is no variable '%.60s'", name);
}

bool pin_config_store_unset_env(struct pin_config_store *store, const char *organisation,
                                const char *configuration, const char *const *names, size_t count,
                                struct pin_error *err) {
    char id[24];
    if (!pin_sql_begin(store, err))
        return false;
    bool good = find_id(store, organisation, configuration, id, err);
    for (size_t i = 0; good && i < count; i++)
        good = take_variable(store, id, names[i], err);
    return pin_sql_end(store, good, err);
}
