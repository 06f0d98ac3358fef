#include "runtime/changes/changes.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/text.h"
#include "runtime/changes/walk.h"

static const char *const kind_names[] = {
    [PIN_CHANGE_ADDED] = "added",
    [PIN_CHANGE_MODIFIED] = "modified",
    [PIN_CHANGE_REMOVED] = "removed",
};
_Static_assert(PIN_COUNT(kind_names) == PIN_CHANGE_COUNT, "every kind has a name");

static const char *const type_names[] = {
    [PIN_CHANGE_FILE] = "file",
    [PIN_CHANGE_FOLDER] = "directory",
    [PIN_CHANGE_LINK] = "symlink",
    [PIN_CHANGE_OTHER] = "other",
};
_Static_assert(PIN_COUNT(type_names) == PIN_CHANGE_TYPE_COUNT, "every type has a name");

struct walk {
    struct pin_changes *changes;
    char path[PATH_MAX * 2];
    size_t length; /* of the path */
    int depth;
    bool replaced; /* a directory above hides all that was there before */
};

typedef bool visit_fn(struct walk *walk, int upper, int lower, const char *name, struct pin_error *err);

static enum pin_change_type type_of(mode_t mode) {
    return S_ISREG(mode)   ? PIN_CHANGE_FILE
           : S_ISDIR(mode) ? PIN_CHANGE_FOLDER
           : S_ISLNK(mode) ? PIN_CHANGE_LINK
                           : PIN_CHANGE_OTHER;
}

static void note(struct walk *walk, enum pin_change_kind kind, const struct stat *st) {
    struct pin_changes *changes = walk->changes;
    if (changes->count == PIN_CHANGES_LISTED_MAX) {
        changes->dropped++;
        return;
    }
    struct pin_change *change =
        pin_arena_grow(&changes->arena, &changes->items, &changes->count, sizeof(*change));
    change->kind = kind;
    change->type = type_of(st->st_mode);
    change->path = pin_arena_strndup(&changes->arena, walk->path, walk->length);
    change->size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
}

static bool walk_folder(struct walk *walk, int upper, int lower, struct pin_error *err);

/* What was in a directory that has been replaced, and isn't in the new one. */
static bool visit_hidden(struct walk *walk, int upper, int lower, const char *name, struct pin_error *err) {
    struct stat now, before;
    (void)err;
    if (fstatat(upper, name, &now, AT_SYMLINK_NOFOLLOW) != 0 &&
        fstatat(lower, name, &before, AT_SYMLINK_NOFOLLOW) == 0)
        note(walk, PIN_CHANGE_REMOVED, &before);
    return true;
}

/* Calls `visitor` for the entries of `folder`, which is one of the other two. */
static bool each_entry(struct walk *walk, int folder, int upper, int lower, visit_fn *visitor,
                       struct pin_error *err) {
    int copy = fcntl(folder, F_DUPFD_CLOEXEC, 3);
    DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;
    if (stream == NULL) {
        pin_close_fd(&copy);
        return pin_fail_errno(err, "read a changed directory");
    }
    rewinddir(stream); /* the copy shares the place with the original */
    bool ok = true;
    size_t length = walk->length;
    const struct dirent *entry;
    while (ok && (entry = pin_next_entry(stream, err)) != NULL) {
        int wide = snprintf(walk->path + length, sizeof(walk->path) - length, "%s%s", length > 0 ? "/" : "",
                            entry->d_name);
        if ((size_t)wide >= sizeof(walk->path) - length)
            ok = pin_fail(err, PIN_ERROR_INVALID, "a changed path is too long");
        walk->length = length + (size_t)wide;
        ok = ok && visitor(walk, upper, lower, entry->d_name, err);
        walk->length = length;
    }
    (void)closedir(stream);
    return ok && !pin_is_set(err);
}

static bool visit_folder(struct walk *walk, int folder, int below, struct pin_error *err) {
    bool above = walk->replaced;
    walk->replaced = above || pin_is_opaque(folder);
    bool ok = walk_folder(walk, folder, below, err) &&
              (!walk->replaced || below < 0 || each_entry(walk, below, folder, below, visit_hidden, err));
    walk->replaced = above;
    return ok;
}

static bool visit(struct walk *walk, int upper, int lower, const char *name, struct pin_error *err) {
    struct stat now, before;
    if (fstatat(upper, name, &now, AT_SYMLINK_NOFOLLOW) != 0)
        return pin_fail_errno(err, "look at a change");
    bool existed = lower >= 0 && fstatat(lower, name, &before, AT_SYMLINK_NOFOLLOW) == 0;
    if (pin_is_whiteout(&now)) {
        if (existed)
            note(walk, PIN_CHANGE_REMOVED, &before);
        return true;
    }
    bool both_folders = existed && S_ISDIR(before.st_mode) && S_ISDIR(now.st_mode);
    if (!both_folders)
        note(walk, existed ? PIN_CHANGE_MODIFIED : PIN_CHANGE_ADDED, &now);
    if (!S_ISDIR(now.st_mode))
        return true;
    PIN_CLOSE int folder = pin_open_changed(upper, name, now.st_mode);
    if (folder < 0)
        return pin_fail_errno(err, "open a changed directory");
    PIN_CLOSE int below = both_folders ? pin_open_folder(lower, name) : -1;
    if (both_folders &&
        (below < 0 || pin_is_opaque(folder) || ((now.st_mode ^ before.st_mode) & PIN_PERMISSIONS) != 0))
        note(walk, PIN_CHANGE_MODIFIED, &now);
    bool ok = visit_folder(walk, folder, below, err);
    (void)fchmod(folder, now.st_mode & 07777);
    return ok;
}

static bool visit_counted(struct walk *walk, int upper, int lower, const char *name, struct pin_error *err) {
    if (++walk->changes->entries > PIN_CHANGES_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "there are more than %d changes", PIN_CHANGES_MAX);
    return visit(walk, upper, lower, name, err);
}

static bool walk_folder(struct walk *walk, int upper, int lower, struct pin_error *err) {
    if (++walk->depth > PIN_CHANGES_DEPTH)
        return pin_fail(err, PIN_ERROR_INVALID, "the changes are more than %d directories deep",
                        PIN_CHANGES_DEPTH);
    bool ok = each_entry(walk, upper, upper, lower, visit_counted, err);
    walk->depth--;
    return ok;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct pin_change *)a)->path, ((const struct pin_change *)b)->path);
}

bool pin_changes_list(int upper, int lower, struct pin_changes *changes, struct pin_error *err) {
    struct walk walk = {.changes = changes};
    *changes = (struct pin_changes){0};
    if (!walk_folder(&walk, upper, lower, err)) {
        pin_changes_free(changes);
        return pin_wrap(err, "list the changes of the workspace");
    }
    if (changes->count > 0)
        qsort(changes->items, changes->count, sizeof(*changes->items), by_path);
    return true;
}

void pin_changes_free(struct pin_changes *changes) {
    pin_arena_free(&changes->arena);
    *changes = (struct pin_changes){0};
}

json_t *pin_changes_json(const struct pin_changes *changes) {
    json_t *list = json_array();
    for (size_t i = 0; i < changes->count; i++) {
        const struct pin_change *change = &changes->items[i];
        char escaped[PATH_MAX];
        json_t *path = json_string(change->path);
        if (path == NULL)
            path = json_string(pin_escape(escaped, sizeof(escaped), change->path, strlen(change->path)));
        json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:I}", "path", path, "change",
                                              kind_names[change->kind], "type", type_names[change->type],
                                              "size", (json_int_t)change->size));
    }
    return json_pack("{s:o, s:I}", "list", list, "dropped", (json_int_t)changes->dropped);
}
