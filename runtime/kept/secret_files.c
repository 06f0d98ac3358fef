#include "runtime/kept/secret_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/magic.h>
#include <linux/mount.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "runtime/secrets/secret_spec.h"

static bool is_file(const struct pin_secret *secret) {
    return secret->spec.form == PIN_SECRET_FILE;
}

/* Over the files alone; false: there are none. */
static bool digest_files(const struct pin_secrets *secrets, uint8_t digest[PIN_SHA256_SIZE]) {
    bool any = false;
    memset(digest, 0, PIN_SHA256_SIZE);
    for (size_t i = 0; i < secrets->count; i++) {
        const struct pin_secrets one = {&secrets->list[i], 1};
        uint8_t part[PIN_SHA256_SIZE];
        if (!is_file(&secrets->list[i]))
            continue;
        pin_secrets_digest(&one, part);
        pin_sha256_pair(digest, PIN_SHA256_SIZE, part, sizeof(part), digest);
        any = true;
    }
    return any;
}

/* From here to the end: the child. It says what went wrong by its exit status. */

/* Whoever is root inside can move /run away and lead its name elsewhere, also to a read-only folder of the
 * host: no other file system in the sandbox is a ramfs. */
static int open_folder(void) {
    struct statfs fs;
    PIN_CLOSE int folder = open("/" PIN_SECRETS_FOLDER, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || fstatfs(folder, &fs) != 0)
        return -1;
    if ((uint32_t)fs.f_type == RAMFS_MAGIC)
        return pin_steal_fd(&folder);
    errno = ESTALE;
    return -1;
}

static int copy_mount(void) {
    struct mount_attr attributes = {.attr_clr = MOUNT_ATTR_RDONLY};
    PIN_CLOSE int folder = open_folder();
    PIN_CLOSE int tree = folder < 0 ? -1
                                    : (int)syscall(SYS_open_tree, folder, "",
                                                   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (tree >= 0 &&
        syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) == 0)
        return pin_steal_fd(&tree);
    return -1;
}

static int write_file(int folder, uid_t uid, gid_t gid, const struct pin_secret *secret) {
    static const char fresh[] = ".new";
    size_t size;
    const char *value = pin_secret_value(secret, &size);
    if (unlinkat(folder, fresh, 0) != 0 && errno != ENOENT)
        return errno;
    int fd = openat(folder, fresh, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (fd < 0)
        return errno;
    for (size_t done = 0; done < size;) {
        ssize_t part = write(fd, value + done, size - done);
        if (part <= 0)
            return part < 0 ? errno : EIO;
        done += (size_t)part;
    }
    bool ok = fchown(fd, uid, gid) == 0 && fchmod(fd, 0400) == 0 &&
              renameat(folder, fresh, folder, secret->spec.target) == 0;
    return ok && close(fd) == 0 ? 0 : errno;
}

struct job {
    pid_t init;
    uid_t uid;
    gid_t gid;
    const struct pin_secrets *secrets; /* to be written */
    const char *name;                  /* to be removed; NULL: none */
};

static int open_inside(const struct job *job, int *folder) {
    int cause = pin_process_enter(job->init, "mnt", CLONE_NEWNS);
    (void)setfsgid(job->gid); /* ids of ours that aren't mapped inside can own no file there */
    (void)setfsuid(job->uid);
    *folder = cause == 0 ? copy_mount() : -1;
    return cause == 0 && *folder < 0 ? errno : cause;
}

static int work(const struct job *job) {
    const struct pin_secrets *secrets = job->secrets;
    int folder, cause = open_inside(job, &folder);
    if (cause == 0 && job->name != NULL && unlinkat(folder, job->name, 0) != 0 && errno != ENOENT)
        return errno;
    for (size_t i = 0; cause == 0 && i < secrets->count; i++)
        if (is_file(&secrets->list[i]))
            cause = write_file(folder, job->uid, job->gid, &secrets->list[i]);
    return cause;
}

/* By a child: 0, or what went wrong. */
static int do_inside(const struct job *job) {
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(work(job));
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return child < 0 ? errno : WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

bool pin_secret_files_refresh(pid_t init, uid_t uid, gid_t gid, const struct pin_secrets *secrets,
                              struct pin_secret_files *files, struct pin_error *err) {
    uint8_t digest[PIN_SHA256_SIZE];
    const struct job job = {init, uid, gid, secrets, NULL};
    if (!digest_files(secrets, digest) ||
        (files->known && memcmp(digest, files->digest, sizeof(digest)) == 0))
        return true;
    errno = do_inside(&job);
    if (errno != 0)
        return pin_fail_errno(err, "put the secrets' new values into '/" PIN_SECRETS_FOLDER "'");
    memcpy(files->digest, digest, sizeof(digest));
    files->known = true;
    return true;
}

bool pin_secret_files_remove(pid_t init, uid_t uid, gid_t gid, const char *name,
                             struct pin_secret_files *files, struct pin_error *err) {
    static const struct pin_secrets none = {0};
    const struct job job = {init, uid, gid, &none, name};
    files->known = false;
    errno = do_inside(&job);
    return errno == 0 || pin_fail_errno(err, "take '%.60s' out of '/" PIN_SECRETS_FOLDER "'", name);
}
