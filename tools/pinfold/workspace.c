#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "runtime/changes/changes.h"
#include "runtime/state/state_dir.h"
#include "tools/pinfold/workspace.h"

static const char *const on_exit_names[] = {
    [PIN_ON_EXIT_DISCARD] = "discard",
    [PIN_ON_EXIT_KEEP] = "keep",
    [PIN_ON_EXIT_MERGE] = "merge",
};

/* A directory of its own in the state directory; *path is where a person finds it. */
static int make_kept(int state_dir, const char *name, char path[PATH_MAX], struct pin_error *err) {
    char link[64];
    PIN_CLOSE int kept = pin_state_folder(state_dir, "kept", true, err);
    if (kept < 0)
        return -1;
    PIN_CLOSE int fd = mkdirat(kept, name, 0700) != 0
                           ? -1
                           : openat(kept, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        (void)pin_fail_errno(err, "make the directory for the kept changes");
        return -1;
    }
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return pin_steal_fd(&fd);
}

static bool merge(const struct pin_sandbox *sandbox, int workspace, size_t *skipped, struct pin_error *err) {
    struct stat st;
    if (fstat(workspace, &st) != 0)
        return pin_fail_errno(err, "look at the workspace");
    struct pin_changes_owner owner = {geteuid() == 0, st.st_uid, st.st_gid};
    return pin_changes_merge(sandbox->changes, workspace, &owner, skipped, err);
}

json_t *pin_workspace_finish(const struct pin_bundle *bundle, const struct pin_sandbox *sandbox,
                             int state_dir, const char *name, struct pin_error *err) {
    enum pin_on_exit on_exit = bundle->ext.workspace.on_exit;
    char kept_path[PATH_MAX] = "";
    size_t skipped = 0;
    struct pin_changes changes;
    struct pin_changes_owner ours = {0};
    PIN_CLOSE int workspace = openat(sandbox->workspace, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (workspace < 0) {
        (void)pin_fail_errno(err, "open the workspace");
        return NULL;
    }
    if (!pin_changes_list(sandbox->changes, workspace, &changes, err))
        return NULL;
    bool ok = true;
    if (on_exit == PIN_ON_EXIT_MERGE) {
        ok = merge(sandbox, workspace, &skipped, err);
    } else if (on_exit == PIN_ON_EXIT_KEEP) {
        PIN_CLOSE int kept = make_kept(state_dir, name, kept_path, err);
        ok = kept >= 0 && pin_changes_merge(sandbox->changes, kept, &ours, &skipped, err);
    }
    json_t *object = ok ? pin_changes_json(&changes) : NULL;
    pin_changes_free(&changes);
    if (object == NULL)
        return NULL;
    json_object_set_new(object, "on_exit", json_string(on_exit_names[on_exit]));
    json_object_set_new(object, "skipped", json_integer((json_int_t)skipped));
    json_object_set_new(object, "kept", kept_path[0] != '\0' ? json_string(kept_path) : json_null());
    return object;
}

void pin_workspace_print(const json_t *changes) {
    size_t i;
    const json_t *change;
    json_array_foreach(json_object_get(changes, "list"), i, change) {
        char path[1024];
        const char *raw = json_string_value(json_object_get(change, "path"));
        const char *kind = json_string_value(json_object_get(change, "change"));
        (void)fprintf(stderr, "%c %s\n",
                      kind[0] == 'a'   ? 'A'
                      : kind[0] == 'm' ? 'M'
                                       : 'D',
                      pin_escape(path, sizeof(path), raw, strlen(raw)));
    }
    const char *kept = json_string_value(json_object_get(changes, "kept"));
    json_int_t dropped = json_integer_value(json_object_get(changes, "dropped"));
    json_int_t skipped = json_integer_value(json_object_get(changes, "skipped"));
    if (dropped > 0)
        (void)fprintf(stderr, "and %lld more\n", (long long)dropped);
    if (kept != NULL)
        (void)fprintf(stderr, "kept in %s\n", kept);
    if (skipped > 0)
        (void)fprintf(stderr, "left out: %lld (sockets, pipes and devices)\n", (long long)skipped);
}
