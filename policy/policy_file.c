#include "policy/policy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/text.h"
#include "base/user_namespace.h"
#include "pin_policy_profiles.h"

static const char *const profiles[] = {"strict", "tool", "build", "oci"};

static char *must(char *text) {
    if (text == NULL)
        abort(); /* out of memory, as in arena.h */
    return text;
}

static char *join(const char *folder, size_t size, const char *name, const char *suffix) {
    char *path = NULL;
    if (asprintf(&path, "%.*s%s%s", (int)size, folder, name, suffix) < 0)
        abort();
    return path;
}

static bool refuse(struct pin_findings *found, const char *path, const char *why, const char *hint) {
    (void)pin_find(found, PIN_ERROR_INVALID, path, hint, "%s", why);
    return false;
}

/* Beneath an ordinary user's engine we are in a user namespace of its own, where root's files show the
 * overflow id, as everybody else's do. In the operator's folder nobody but root can have put them. */
static bool is_operators(const char *path, const struct stat *info) {
    enum { OVERFLOW_ID = 65534 };
    static const char folder[] = "/etc/pinfold/";
    return info->st_uid == OVERFLOW_ID && strncmp(path, folder, sizeof(folder) - 1) == 0 &&
           strstr(path, "/../") == NULL && pin_in_user_namespace();
}

/* Whoever can write the file decides what a sandbox may do. */
static bool check_file(int fd, const char *path, struct stat *info, struct pin_findings *found) {
    if (fstat(fd, info) != 0)
        return refuse(found, path, "the file can't be examined", "look at it with stat(1)");
    if (!S_ISREG(info->st_mode))
        return refuse(found, path, "a policy is a regular file, and this is none",
                      "name a file; neither pipes nor folders are read");
    if (info->st_uid != 0 && info->st_uid != geteuid() && !is_operators(path, info))
        return refuse(found, path, "the file belongs to somebody else", "a policy belongs to root or to you");
    if ((info->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return refuse(found, path, "others can write the file", "chmod go-w");
    if (info->st_size < 0 || (size_t)info->st_size > PIN_POLICY_FILE_MAX)
        return refuse(found, path, "the file has more than 4 MiB", PIN_HINT_LARGE);
    return true;
}

static int open_policy(const char *path, bool *missing, struct pin_findings *found) {
    /* O_NONBLOCK: a FIFO would wait for its writer */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0)
        return fd;
    if (missing != NULL && errno == ENOENT) {
        *missing = true;
        return -1;
    }
    if (errno == ELOOP) {
        (void)refuse(found, path, "a policy can't be a symbolic link", "name the file itself");
        return -1;
    }
    struct pin_error err = {0};
    char shown[128];
    (void)pin_fail_errno(&err, "open the policy '%s'", pin_escape(shown, sizeof(shown), path, strlen(path)));
    (void)pin_point(&err, "%s", shown);
    if (err.os_errno == EACCES)
        (void)pin_hint(&err, "you must be able to read it");
    if (err.os_errno == ENOENT)
        (void)pin_hint(&err, "name a file that is there");
    pin_find_error(found, &err);
    return -1;
}

bool pin_policy_file_read(struct pin_policy_file *file, const char *path, bool *missing,
                          struct pin_findings *found) {
    struct stat info;
    struct pin_error err = {0};
    PIN_CLOSE int fd = open_policy(path, missing, found);
    if (fd < 0 || !check_file(fd, path, &info, found))
        return false;
    char *text = pin_read_all(fd, PIN_POLICY_FILE_MAX, &file->size, &err);
    if (text == NULL) {
        (void)pin_point(&err, "%s", path);
        pin_find_error(found, &err);
        return false;
    }
    file->text = file->owned = text;
    file->device = info.st_dev;
    file->inode = info.st_ino;
    file->name = must(strdup(path));
    const char *slash = strrchr(path, '/');
    file->folder = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    return true;
}

static bool open_profile(struct pin_policy_file *file, const char *name) {
    size_t length = strlen(name);
    for (size_t i = 0; i < pin_policy_profiles_count; i++) {
        const struct pin_embedded *profile = &pin_policy_profiles[i];
        if (strncmp(profile->name, name, length) != 0 || strcmp(profile->name + length, ".json") != 0)
            continue;
        file->text = (const char *)profile->data;
        file->size = profile->size;
        file->name = join("built-in:", 9, name, "");
        return true;
    }
    return false;
}

static bool try_folder(struct pin_policy_file *file, const char *folder, size_t size, const char *name,
                       struct pin_findings *found) {
    bool missing = false;
    size_t before = found->count + found->dropped;
    PIN_FREE char *front = join(folder, size, size > 0 && folder[size - 1] != '/' ? "/" : "", name);
    PIN_FREE char *path = join(front, strlen(front), ".json", "");
    return pin_policy_file_read(file, path, &missing, found) || found->count + found->dropped > before;
}

/* True when the search is over: found, or there but refused. */
static bool search(struct pin_policy_file *file, const char *name, struct pin_findings *found) {
    const char *path = secure_getenv("PINFOLD_POLICY_PATH");
    while (path != NULL && *path != '\0') {
        size_t size = strcspn(path, ":");
        if (size > 0 && try_folder(file, path, size, name, found))
            return true;
        path += size + (path[size] == ':');
    }
    const char *home = geteuid() != 0 ? secure_getenv("HOME") : NULL;
    if (home != NULL && home[0] == '/') {
        PIN_FREE char *folder = join(home, strlen(home), "/.config/pinfold/policies", "");
        if (try_folder(file, folder, strlen(folder), name, found))
            return true;
    }
    return try_folder(file, "/etc/pinfold/policies", 21, name, found);
}

static bool is_path(const char *text) {
    size_t length = strlen(text);
    return strchr(text, '/') != NULL || (length >= 5 && strcmp(text + length - 5, ".json") == 0);
}

bool pin_policy_file_open(struct pin_policy_file *file, const char *name_or_path, const char *from,
                          size_t from_size, struct pin_findings *found) {
    char shown[96], hint[128];
    if (is_path(name_or_path)) {
        PIN_FREE char *path = join(from, name_or_path[0] == '/' ? 0 : from_size, name_or_path, "");
        return pin_policy_file_read(file, path, NULL, found);
    }
    (void)pin_escape(shown, sizeof(shown), name_or_path, strlen(name_or_path));
    if (!pin_is_name(name_or_path)) {
        (void)pin_find(found, PIN_ERROR_INVALID, NULL, "a path to a policy has a '/' or ends in '.json'",
                       "'%s' is not the name of a policy", shown);
        return false;
    }
    if (open_profile(file, name_or_path))
        return true;
    if (search(file, name_or_path, found))
        return file->text != NULL;
    const char *near = pin_name_suggest(profiles, PIN_COUNT(profiles), name_or_path);
    (void)snprintf(hint, sizeof(hint), "did you mean '%s'?", near != NULL ? near : "");
    (void)pin_find(found, PIN_ERROR_NOT_FOUND, NULL,
                   near != NULL ? hint : "put it into /etc/pinfold/policies, or name the file",
                   "there is no policy '%s'", shown);
    return false;
}

void pin_policy_file_close(struct pin_policy_file *file) {
    free(file->name);
    free(file->owned);
    memset(file, 0, sizeof(*file));
}
