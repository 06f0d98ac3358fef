#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <linux/capability.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/users.h"
#include "runtime/kept/parts.h"

#define DATABASE_MAX ((size_t)1024 * 1024) /* bytes */

static bool refuse(const struct pin_kept_given *given, const char *text, const char *pointer,
                   const char *hint, struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_REFUSED, "the policy grants the user %u:%u, and not '%.40s'",
                   (unsigned)given->uid, (unsigned)given->gid, text);
    (void)pin_point(err, "%s", pointer);
    return pin_hint(err, "%s", hint);
}

static bool is_nobody(const char *text, const char *hint, struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_INVALID, "'%.40s' is no user", text);
    (void)pin_point(err, "/user");
    return pin_hint(err, "%s", hint);
}

/* A file of the sandbox's own, which its commands may have made: no link is followed, nothing is waited for
 * (a fifo, a lease of somebody's), and only a regular file of a bounded size is read. NULL: it has no such.
 */
static char *read_database(const struct pin_kept_given *given, const char *path) {
    char root_path[64];
    struct stat facts;
    size_t size;
    struct pin_error unread = {0};
    (void)snprintf(root_path, sizeof(root_path), "/proc/%d/root", (int)given->sandbox->init);
    PIN_CLOSE int root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    PIN_CLOSE int file =
        root < 0 ? -1 : pin_open_beneath(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, &unread);
    if (file < 0 || fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode))
        return NULL;
    return pin_read_all(file, DATABASE_MAX, &size, &unread);
}

/* A name is root's alone, whatever the sandbox's files say: nobody is 0 by accident. */
static bool is_root_by_accident(const char *name, uint32_t id) {
    uint32_t number;
    return id == 0 && !pin_user_id(name, &number) && strcmp(name, "root") != 0;
}

/* A number without a group has the policy's, a name that of its entry. */
static bool find_names(const struct pin_kept_given *given, const struct pin_user_name *name,
                       struct pin_exec_user *found) {
    uint32_t number, gid;
    bool is_number = pin_user_id(name->user, &number), has_gid = false;
    PIN_FREE char *passwd = is_number ? NULL : read_database(given, "etc/passwd");
    if (!pin_user_find(passwd, name->user, &found->uid, &gid, &has_gid))
        return false;
    found->gid = has_gid ? gid : given->gid;
    if (name->group[0] == '\0')
        return true;
    PIN_FREE char *groups = pin_user_id(name->group, &number) ? NULL : read_database(given, "etc/group");
    return pin_group_find(groups, name->group, &found->gid);
}

/* Init has the capabilities that every command has: what a command could become by itself can be asked for.
 */
bool pin_exec_choose_user(const struct pin_kept_given *given, const char *text, struct pin_exec_user *user,
                          struct pin_error *err) {
    struct pin_user_name name;
    struct pin_exec_user found = {.gid = given->gid};
    if (!pin_user_split(text, &name))
        return is_nobody(text, "write USER or USER:GROUP, each a name or a number", err);
    if (!find_names(given, &name, &found))
        return is_nobody(text, "names are looked up in the sandbox's own /etc/passwd and /etc/group", err);
    if (is_root_by_accident(name.user, found.uid))
        return is_nobody(text, "the sandbox's /etc/passwd says 0, which is root's alone", err);
    found.other = found.uid != given->uid || found.gid != given->gid;
    uint64_t needed = UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID;
    if (found.other && (found.uid >= given->ids || found.gid >= given->ids))
        return refuse(given, text, "/identity/ids",
                      "\"ids\" of the policy's identity says how many there are inside", err);
    if (found.other && (given->capabilities & needed) != needed)
        return refuse(given, text, "/capabilities",
                      "another user takes the capabilities CAP_SETUID and CAP_SETGID", err);
    *user = found;
    return true;
}

const char *pin_exec_user_name(const struct exec *exec, char text[32]) {
    (void)snprintf(text, 32, "%u:%u", exec->user.uid, exec->user.gid);
    return exec->user.other ? text : NULL;
}
