/* deps_store.h: installed requirements, as read-only layers that calls share.
 *
 *   KEY/layer   what is shown inside
 *   KEY/facts   what it was made of, JSON
 *   KEY.lock    held shared by whoever uses the layer, alone by whoever makes or removes it
 *   tmp/KEY     one that is being made
 *
 * KEY is deps_key.h's. The folder is 0700 and the caller's own. A layer becomes visible by one rename, whole.
 * Locks are of open files: the kernel drops those of a killed process, and what it was making is removed by
 * whoever comes next. root: /var/lib/pinfold/deps; others: $XDG_DATA_HOME/pinfold/deps, or
 * ~/.local/share/pinfold/deps; $PINFOLD_DEPS overrides both.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"
#include "runtime/tool/deps_key.h"
#include "runtime/tool/deps_tree.h"

#define PIN_DEPS_LOCK_FILE "pinfold-lock" /* in a layer: what was installed, with digests */
#define PIN_DEPS_FACTS_MAX ((size_t)1024 * 1024)

struct pin_deps_store {
    int dir, tmp; /* -1: closed */
    char path[PATH_MAX];
};
#define PIN_DEPS_STORE_NONE ((struct pin_deps_store){.dir = -1, .tmp = -1})

/* A missing store is NOT_FOUND without `create`. */
bool pin_deps_store_open(struct pin_deps_store *store, bool create, struct pin_error *err);
void pin_deps_store_close(struct pin_deps_store *store);

enum pin_deps_hold { PIN_DEPS_SHARED, PIN_DEPS_ALONE, PIN_DEPS_ALONE_AT_ONCE };

/* Locks the key; waits for others, but for AT_ONCE, which fails with BUSY. The descriptor is the lock. -1. */
int pin_deps_lock(const struct pin_deps_store *store, const char *key, enum pin_deps_hold how,
                  struct pin_error *err);
/* Whether the layer is there; for whoever holds the lock. */
bool pin_deps_exists(const struct pin_deps_store *store, const char *key);

/* With the lock held alone: an empty tmp/KEY/layer, whose path is written. */
bool pin_deps_begin(const struct pin_deps_store *store, const char *key, char path[PATH_MAX],
                    struct pin_error *err);
/* Makes it KEY, with its facts; an earlier KEY is removed. */
bool pin_deps_publish(const struct pin_deps_store *store, const char *key, const char *facts,
                      struct pin_error *err);
void pin_deps_abandon(const struct pin_deps_store *store, const char *key);

/* "sha256:…" of the layer's lock file. */
bool pin_deps_lock_digest(int parent, const char *folder, char digest[PIN_DIGEST_TEXT],
                          struct pin_error *err);
/* Of a layer that is there: the digest that its facts have. */
bool pin_deps_read_lock(const struct pin_deps_store *store, const char *key, char digest[PIN_DIGEST_TEXT],
                        struct pin_error *err);

struct pin_deps_row {
    const char *key, *facts; /* JSON text */
    int64_t used_s;
    bool in_use;
};
/* Every layer; the row is good for the call alone. */
typedef void pin_deps_see(void *self, const struct pin_deps_row *row);
bool pin_deps_list(const struct pin_deps_store *store, pin_deps_see *see, void *self, struct pin_error *err);

/* BUSY while a call uses it. */
bool pin_deps_remove(const struct pin_deps_store *store, const char *key, struct pin_error *err);

struct pin_deps_removed {
    uint64_t layers, unfinished, bytes;
};
/* Layers that nobody has used since `before_s` and nobody uses now, and what killed installations have left.
 */
bool pin_deps_gc(const struct pin_deps_store *store, int64_t before_s, struct pin_deps_removed *removed,
                 struct pin_error *err);
