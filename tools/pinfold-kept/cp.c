/* cp: files into and out of a kept sandbox, which stands still meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/kept/copy.h"
#include "tools/pinfold-kept/client.h"
#include "tools/pinfold-kept/verbs.h"
#include "tools/pinfold/report.h"

#define LIMIT_BYTES (4 * PIN_GIB)

struct cp_options {
    bool json;
    struct pin_number limit;
};

static const struct pin_option options[] = {
    {"limit", 0, PIN_OPTION_SIZE, offsetof(struct cp_options, limit), "N",
     "copy at most so many bytes (4GiB)",                                                                       NULL},
    {"json",  0, PIN_OPTION_FLAG, offsetof(struct cp_options, json),  NULL, "print a refusal as a JSON object",
     NULL                                                                                                           },
};

struct side {
    char name[64]; /* of the sandbox; "": the host */
    char folder[PATH_MAX], last[NAME_MAX + 1];
    int fd; /* of the folder */
};

/* "NAME:PATH" where what is before the colon is a name; else a path of the host's. */
static const char *split_name(const char *text, struct side *side) {
    const char *colon = strchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    if (length == 0 || length >= sizeof(side->name))
        return text;
    memcpy(side->name, text, length);
    side->name[length] = '\0';
    if (pin_is_name(side->name))
        return colon + 1;
    side->name[0] = '\0';
    return text;
}

static bool split_path(const char *path, const char *text, struct side *side, struct pin_error *err) {
    char resolved[PATH_MAX];
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    const char *slash = memrchr(path, '/', length);
    const char *last = slash != NULL ? slash + 1 : path;
    size_t size = length - (size_t)(last - path), folder = slash == NULL ? 0 : (size_t)(slash - path);
    bool plain = size > 0 && size < sizeof(side->last) && !(size == 1 && last[0] == '.') &&
                 !(size == 2 && memcmp(last, "..", 2) == 0);
    if (size > 0 && !plain && side->name[0] == '\0' && realpath(path, resolved) != NULL &&
        strcmp(resolved, "/") != 0)
        return split_path(resolved, text, side, err); /* "." has a name */
    if (!plain || folder + 2 > sizeof(side->folder) || (side->name[0] != '\0' && path[0] != '/')) {
        (void)pin_fail(err, PIN_ERROR_USAGE, "'%.80s' names no file that could be copied", text);
        return pin_hint(err, "a path in a sandbox is absolute, and neither '/' nor ends in '..'");
    }
    memcpy(side->last, last, size);
    side->last[size] = '\0';
    if (slash == NULL)
        memcpy(side->folder, ".", 2);
    else
        (void)snprintf(side->folder, sizeof(side->folder), "%.*s", folder == 0 ? 1 : (int)folder, path);
    return true;
}

static bool split(const char *text, struct side *side, struct pin_error *err) {
    return split_path(split_name(text, side), text, side, err);
}

/* On the host a path is the caller's own; in the sandbox it is walked below the root, and through no link. */
static bool open_folder(struct side *side, int root, struct pin_error *err) {
    const char *inside = side->folder + strspn(side->folder, "/");
    if (side->name[0] == '\0')
        side->fd = open(side->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    else
        side->fd = pin_open_beneath(root, inside[0] != '\0' ? inside : ".",
                                    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, err);
    if (side->fd >= 0)
        return true;
    if (side->name[0] == '\0')
        (void)pin_fail_errno(err, "open '%s'", side->folder);
    else if (err->os_errno == ELOOP)
        (void)pin_hint(err, "a link is on the way: name the path that it leads to");
    return false;
}

/* As with cp(1): into a directory that is there, under the name that it had. */
static bool enter_target(const struct side *from, struct side *to, struct pin_error *err) {
    struct stat info;
    if (fstatat(to->fd, to->last, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(info.st_mode))
        return true;
    int folder = openat(to->fd, to->last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return pin_fail_errno(err, "open '%s'", to->last);
    pin_close_fd(&to->fd);
    to->fd = folder;
    memcpy(to->last, from->last, sizeof(to->last));
    return true;
}

static bool copy_between(struct side *from, struct side *to, int root, const json_t *ok, uint64_t limit_bytes,
                         struct pin_error *err) {
    struct pin_copy copy = {
        .has_owner = to->name[0] != '\0', /* what is made inside belongs to the sandbox's user */
        .uid = (uid_t)json_integer_value(json_object_get(ok, "uid")),
        .gid = (gid_t)json_integer_value(json_object_get(ok, "gid")),
        .limit_bytes = limit_bytes,
    };
    if (!open_folder(from, root, err) || !open_folder(to, root, err) || !enter_target(from, to, err))
        return false;
    bool done = pin_copy_entry(&copy, from->fd, from->last, to->fd, to->last, err);
    if (copy.left_out > 0)
        (void)fprintf(stderr, "pinfold: %llu links and special files were left out\n",
                      (unsigned long long)copy.left_out);
    return done;
}

/* A host whose sandboxes can't be frozen copies all the same: no link is followed there either. */
static bool copy_frozen(struct side *from, struct side *to, uint64_t limit_bytes, struct pin_error *err) {
    PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
    struct pin_error unfrozen = {0};
    PIN_CLOSE int root = -1;
    if (!pin_client_open(&client, from->name[0] != '\0' ? from->name : to->name, err))
        return false;
    json_t *ok = pin_client_ask_fd(&client, "root", &root, err);
    if (ok == NULL)
        return false;
    bool held_still = pin_client_hold(&client, &unfrozen) || unfrozen.kind == PIN_ERROR_UNSUPPORTED;
    if (!held_still)
        *err = unfrozen;
    bool done = held_still && copy_between(from, to, root, ok, limit_bytes, err);
    json_decref(ok);
    return done;
}

static int run_cp(const struct pin_invocation *invocation) {
    const struct cp_options *values = invocation->values;
    struct side from = {.fd = -1}, to = {.fd = -1};
    struct pin_error err = {0};
    bool ok = split(invocation->arguments[0], &from, &err) && split(invocation->arguments[1], &to, &err);
    if (ok && (from.name[0] == '\0') == (to.name[0] == '\0')) {
        ok = pin_fail(&err, PIN_ERROR_USAGE, "one of the two must be in a sandbox, and one on the host");
        (void)pin_hint(&err, "write NAME:/PATH for the one in the sandbox");
    }
    ok = ok && copy_frozen(&from, &to, values->limit.given ? values->limit.value : LIMIT_BYTES, &err);
    pin_close_fd(&from.fd);
    pin_close_fd(&to.fd);
    return ok ? 0 : pin_report(&err, values->json);
}

const struct pin_verb pin_kept_verb_cp = {
    .name = "cp",
    .synopsis = "SRC NAME:DST | NAME:SRC DST",
    .summary = "copy files into or out of a kept sandbox",
    .description =
        "The sandbox is frozen meanwhile. No link is followed; links and special files are left out.",
    .example = "  pinfold cp data.csv work:/tmp/\n  pinfold cp work:/tmp/out ./out",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct cp_options),
    .least_arguments = 2,
    .most_arguments = 2,
    .run = run_cp,
};
