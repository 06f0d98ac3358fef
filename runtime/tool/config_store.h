/* config_store.h: stored configurations and their environments, per organisation: SQLite.
 *
 * root: /var/lib/pinfold/config; others: $XDG_DATA_HOME/pinfold/config, or ~/.local/share/pinfold/config;
 * $PINFOLD_CONFIG overrides both. The directory is 0700 and the caller's own, or it isn't used. Every change
 * is one transaction: two writers wait for each other, and a killed one leaves the store as it was. A file
 * that is damaged, of another program or of a later version is refused, and never changed. What is read is
 * parsed as strictly as what is given. Sealed values pass through as they are: only tools/pinfold-config
 * opens them. Source: docs/tool.md "Configurations".
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/findings.h"
#include "runtime/tool/config.h"

struct sqlite3;

struct pin_config_store { /* PIN_CONFIG_STORE_NONE at first */
    struct sqlite3 *base;
    char path[PATH_MAX];
};
#define PIN_CONFIG_STORE_NONE ((struct pin_config_store){.base = NULL})

enum pin_config_open { PIN_CONFIG_READ, PIN_CONFIG_WRITE, PIN_CONFIG_CHECK };

/* READ: a missing store is an error of kind NOT_FOUND. WRITE makes it. CHECK is WRITE with every page of the
 * file looked at. All of them bring a store of an earlier version to this one. */
bool pin_config_store_open(struct pin_config_store *store, enum pin_config_open how, struct pin_error *err);
void pin_config_store_close(struct pin_config_store *store);

/* Into a zeroed configuration, with its environment. `name` NULL: the organisation's default; NOT_FOUND where
 * there is none. */
bool pin_config_store_get(struct pin_config_store *store, const char *organisation, const char *name,
                          struct pin_tool_config *config, struct pin_error *err);
/* Makes a default where the organisation has none: the configuration of that name, or an empty one. */
bool pin_config_store_ensure(struct pin_config_store *store, const char *organisation, struct pin_error *err);

/* `text` is canonical and known to be good. EXISTS where the name is taken. */
bool pin_config_store_create(struct pin_config_store *store, const char *organisation, const char *name,
                             const char *text, bool make_default, struct pin_error *err);
/* The new text of the configuration `name`, from the one it has, within one transaction: the caller's
 * `change` returns it, to be freed by free(), or NULL with findings. */
typedef char *pin_config_change(void *self, const char *text, struct pin_findings *found);
bool pin_config_store_update(struct pin_config_store *store, const char *organisation, const char *name,
                             pin_config_change *change, void *self, struct pin_findings *found);
bool pin_config_store_delete(struct pin_config_store *store, const char *organisation, const char *name,
                             struct pin_error *err);
bool pin_config_store_set_default(struct pin_config_store *store, const char *organisation, const char *name,
                                  struct pin_error *err);

struct pin_config_row {
    const char *organisation, *name, *description;
    bool is_default;
    int64_t changed_s;
    uint64_t variables;
};
/* In order of organisation and name; `organisation` NULL: of all. The row is good for the call alone. */
typedef void pin_config_see(void *self, const struct pin_config_row *row);
bool pin_config_store_list(struct pin_config_store *store, const char *organisation, pin_config_see *see,
                           void *self, struct pin_error *err);

/* All of them or none. `configuration` must be there. */
bool pin_config_store_set_env(struct pin_config_store *store, const char *organisation,
                              const char *configuration, const struct pin_tool_variable *variables,
                              size_t count, struct pin_error *err);
/* NOT_FOUND where one isn't there: then none is taken away. */
bool pin_config_store_unset_env(struct pin_config_store *store, const char *organisation,
                                const char *configuration, const char *const *names, size_t count,
                                struct pin_error *err);
