#include "runtime/tool/deps_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/sha256.h"
#include "runtime/private/private_dir.h"
#include "runtime/state/tree.h"

#define LOCK_FILE_MAX ((size_t)16 * 1024 * 1024)

static const struct pin_private_place place = {"PINFOLD_DEPS", "/var/lib/pinfold/deps", "XDG_DATA_HOME",
                                               ".local/share", "pinfold/deps"};

bool pin_deps_store_open(struct pin_deps_store *store, bool create, struct pin_error *err) {
    char tmp[PATH_MAX];
    if (!pin_private_choose(&place, store->path, err))
        return false;
    store->dir = pin_private_dir(store->path, create, err);
    if (store->dir < 0)
        return false;
    if (snprintf(tmp, sizeof(tmp), "%s/tmp", store->path) >= (int)sizeof(tmp))
        return pin_fail(err, PIN_ERROR_INVALID, "the path of the store is too long");
    store->tmp = pin_private_dir(tmp, true, err);
    if (store->tmp >= 0)
        return true;
    pin_deps_store_close(store);
    return false;
}

void pin_deps_store_close(struct pin_deps_store *store) {
    pin_close_fd(&store->dir);
    pin_close_fd(&store->tmp);
}

/* --- locks --- */

static bool is_key(const char *name, size_t length) {
    return length == PIN_DEPS_KEY_TEXT - 1 && strspn(name, "0123456789abcdef") == length;
}

static void name_lock(char to[80], const char *key) {
    (void)snprintf(to, 80, "%s.lock", key);
}

/* A lock file that was removed while we waited is nobody's lock any more. */
static bool is_current(const struct pin_deps_store *store, int lock, const char *name) {
    struct stat held, named;
    return fstat(lock, &held) == 0 && fstatat(store->dir, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

int pin_deps_lock(const struct pin_deps_store *store, const char *key, enum pin_deps_hold how,
                  struct pin_error *err) {
    static const int operations[] = {
        [PIN_DEPS_SHARED] = LOCK_SH,
        [PIN_DEPS_ALONE] = LOCK_EX,
        [PIN_DEPS_ALONE_AT_ONCE] = LOCK_EX | LOCK_NB,
    };
    char name[80];
    name_lock(name, key);
    for (;;) {
        PIN_CLOSE int lock = pin_private_file(store->dir, name, O_RDWR | O_CREAT, err);
        if (lock < 0)
            return -1;
        while (flock(lock, operations[how]) != 0) {
            if (errno == EINTR)
                continue;
            if (errno == EWOULDBLOCK)
                (void)pin_fail(err, PIN_ERROR_BUSY, "a call uses the layer '%.12s'", key);
            else
                (void)pin_fail_errno(err, "lock the layer '%.12s'", key);
            return -1;
        }
        if (!is_current(store, lock, name))
            continue;
        if (how == PIN_DEPS_SHARED)
            (void)futimens(lock, NULL); /* when it was last used: for gc */
        return pin_steal_fd(&lock);
    }
}

bool pin_deps_exists(const struct pin_deps_store *store, const char *key) {
    struct stat facts;
    return fstatat(store->dir, key, &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(facts.st_mode);
}

/* --- making one --- */

bool pin_deps_begin(const struct pin_deps_store *store, const char *key, char path[PATH_MAX],
                    struct pin_error *err) {
    char layer[80];
    (void)snprintf(layer, sizeof(layer), "%s/layer", key);
    if (!pin_tree_remove(store->tmp, key, err)) /* of a killed one */
        return false;
    /* the sandbox's user is another one on the host; the folder above is closed to everybody */
    if (mkdirat(store->tmp, key, 0700) != 0 || mkdirat(store->tmp, layer, 0700) != 0 ||
        fchmodat(store->tmp, layer, 0777, 0) != 0)
        return pin_fail_errno(err, "make a folder for the installation");
    return snprintf(path, PATH_MAX, "%s/tmp/%s/layer", store->path, key) < PATH_MAX ||
           pin_fail(err, PIN_ERROR_INVALID, "the path of the store is too long");
}

static bool write_facts(int folder, const char *facts, struct pin_error *err) {
    PIN_CLOSE int file = openat(folder, "facts", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return pin_fail_errno(err, "write what was installed");
    return pin_write_all(file, facts, strlen(facts), err);
}

bool pin_deps_publish(const struct pin_deps_store *store, const char *key, const char *facts,
                      struct pin_error *err) {
    PIN_CLOSE int folder = openat(store->tmp, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return pin_fail_errno(err, "open what was installed");
    if (!write_facts(folder, facts, err))
        return false;
    if (syncfs(folder) != 0) /* a layer that is there after a power cut is whole */
        return pin_fail_errno(err, "keep what was installed");
    if (!pin_tree_remove(store->dir, key, err))
        return false;
    return renameat(store->tmp, key, store->dir, key) == 0 || pin_fail_errno(err, "keep what was installed");
}

void pin_deps_abandon(const struct pin_deps_store *store, const char *key) {
    struct pin_error ignored = {0}; /* gc, and the next installation, will try again */
    (void)pin_tree_remove(store->tmp, key, &ignored);
}

/* --- reading one --- */

bool pin_deps_lock_digest(int parent, const char *folder, char digest[PIN_DIGEST_TEXT],
                          struct pin_error *err) {
    char path[128];
    size_t size;
    uint8_t bytes[PIN_SHA256_SIZE];
    (void)snprintf(path, sizeof(path), "%s/layer/" PIN_DEPS_LOCK_FILE, folder);
    PIN_CLOSE int file = pin_open_beneath(parent, path, O_RDONLY | O_NONBLOCK, 0, err);
    PIN_FREE char *text = file < 0 ? NULL : pin_read_all(file, LOCK_FILE_MAX, &size, err);
    if (text == NULL)
        return pin_wrap(err, "read what was installed");
    pin_sha256(text, size, bytes);
    (void)pin_digest_print(digest, bytes);
    return true;
}

static char *read_facts(const struct pin_deps_store *store, const char *key, struct pin_error *err) {
    char path[80];
    size_t size;
    (void)snprintf(path, sizeof(path), "%s/facts", key);
    PIN_CLOSE int file = pin_open_beneath(store->dir, path, O_RDONLY, 0, err);
    return file < 0 ? NULL : pin_read_all(file, PIN_DEPS_FACTS_MAX, &size, err);
}

bool pin_deps_read_lock(const struct pin_deps_store *store, const char *key, char digest[PIN_DIGEST_TEXT],
                        struct pin_error *err) {
    PIN_FREE char *facts = read_facts(store, key, err);
    if (facts == NULL)
        return false;
    json_t *object = json_loads(facts, 0, NULL);
    const char *text = json_string_value(json_object_get(object, "lock"));
    bool good = text != NULL && strlen(text) == PIN_DIGEST_TEXT - 1;
    if (good)
        memcpy(digest, text, PIN_DIGEST_TEXT);
    json_decref(object);
    return good || pin_fail(err, PIN_ERROR_SYNTAX, "the facts of the layer '%.12s' are damaged", key);
}

/* --- all of them --- */

typedef bool each_key(void *self, const struct pin_deps_store *store, const char *key, struct pin_error *err);

/* Calls `each` for every key whose name, with `ending` behind it, stands in the folder. */
static bool for_each(const struct pin_deps_store *store, int folder, const char *ending, each_key *each,
                     void *self, struct pin_error *err) {
    PIN_CLOSE int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *item;
    bool good = true;
    if (list == NULL)
        return pin_fail_errno(err, "list the layers");
    (void)pin_steal_fd(&fd);
    while (good && (item = pin_next_entry(list, err)) != NULL) {
        char key[PIN_DEPS_KEY_TEXT];
        size_t length = strlen(item->d_name), end = strlen(ending);
        if (length < end || strcmp(item->d_name + length - end, ending) != 0 ||
            !is_key(item->d_name, length - end))
            continue;
        memcpy(key, item->d_name, length - end);
        key[length - end] = '\0';
        good = each(self, store, key, err);
    }
    (void)closedir(list);
    return good && !pin_is_set(err);
}

static int64_t last_used(const struct pin_deps_store *store, const char *key) {
    struct stat facts;
    char name[80];
    name_lock(name, key);
    return fstatat(store->dir, name, &facts, AT_SYMLINK_NOFOLLOW) == 0 ? facts.st_mtime : 0;
}

struct listing {
    pin_deps_see *see;
    void *self;
};

static bool list_one(void *self, const struct pin_deps_store *store, const char *key, struct pin_error *err) {
    const struct listing *listing = self;
    struct pin_error unread = {0};
    PIN_FREE char *facts = read_facts(store, key, &unread);
    struct pin_deps_row row = {.key = key, .facts = facts, .used_s = last_used(store, key)};
    PIN_CLOSE int lock = pin_deps_lock(store, key, PIN_DEPS_ALONE_AT_ONCE, &unread);
    (void)err;
    row.in_use = lock < 0;
    listing->see(listing->self, &row);
    return true;
}

bool pin_deps_list(const struct pin_deps_store *store, pin_deps_see *see, void *self, struct pin_error *err) {
    struct listing listing = {see, self};
    return for_each(store, store->dir, "", list_one, &listing, err);
}

/* With the lock held alone. The lock file goes last: whoever waits for it sees that it is another's. */
static bool remove_locked(const struct pin_deps_store *store, const char *key, struct pin_error *err) {
    char name[80];
    name_lock(name, key);
    /* out of sight first: a removal that is killed half way leaves no half layer */
    if (renameat(store->dir, key, store->tmp, key) != 0 && errno != ENOENT) {
        if (errno != ENOTEMPTY && errno != EEXIST)
            return pin_fail_errno(err, "remove the layer '%.12s'", key);
        if (!pin_tree_remove(store->dir, key, err))
            return false;
    }
    if (!pin_tree_remove(store->tmp, key, err))
        return false;
    return unlinkat(store->dir, name, 0) == 0 || errno == ENOENT ||
           pin_fail_errno(err, "remove the layer '%.12s'", key);
}

bool pin_deps_remove(const struct pin_deps_store *store, const char *key, struct pin_error *err) {
    if (!is_key(key, strlen(key)) || !pin_deps_exists(store, key))
        return pin_fail(err, PIN_ERROR_NOT_FOUND, "there is no layer '%.64s'", key);
    PIN_CLOSE int lock = pin_deps_lock(store, key, PIN_DEPS_ALONE_AT_ONCE, err);
    return lock >= 0 && remove_locked(store, key, err);
}

struct collection {
    int64_t before_s;
    struct pin_deps_removed *removed;
};

static bool collect_layer(void *self, const struct pin_deps_store *store, const char *key,
                          struct pin_error *err) {
    struct collection *collection = self;
    struct pin_error busy = {0};
    struct pin_deps_size size;
    if (last_used(store, key) > collection->before_s)
        return true;
    PIN_CLOSE int lock = pin_deps_lock(store, key, PIN_DEPS_ALONE_AT_ONCE, &busy);
    if (lock < 0)
        return true; /* in use */
    pin_deps_measure(store->dir, key, &size);
    if (!remove_locked(store, key, err))
        return false;
    collection->removed->layers++;
    collection->removed->bytes += size.bytes;
    return true;
}

static bool collect_unfinished(void *self, const struct pin_deps_store *store, const char *key,
                               struct pin_error *err) {
    struct collection *collection = self;
    struct pin_error busy = {0};
    PIN_CLOSE int lock = pin_deps_lock(store, key, PIN_DEPS_ALONE_AT_ONCE, &busy);
    if (lock < 0)
        return true; /* somebody is at it */
    collection->removed->unfinished++;
    return pin_tree_remove(store->tmp, key, err);
}

/* Of installations that failed. */
static bool collect_lock(void *self, const struct pin_deps_store *store, const char *key,
                         struct pin_error *err) {
    struct pin_error busy = {0};
    char name[80];
    (void)self;
    if (pin_deps_exists(store, key))
        return true;
    PIN_CLOSE int lock = pin_deps_lock(store, key, PIN_DEPS_ALONE_AT_ONCE, &busy);
    name_lock(name, key);
    return lock < 0 || pin_deps_exists(store, key) || unlinkat(store->dir, name, 0) == 0 ||
           pin_fail_errno(err, "remove a lock");
}

bool pin_deps_gc(const struct pin_deps_store *store, int64_t before_s, struct pin_deps_removed *removed,
                 struct pin_error *err) {
    struct collection collection = {before_s, removed};
    return for_each(store, store->dir, "", collect_layer, &collection, err) &&
           for_each(store, store->tmp, "", collect_unfinished, &collection, err) &&
           for_each(store, store->dir, ".lock", collect_lock, &collection, err);
}
