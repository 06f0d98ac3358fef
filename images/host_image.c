#include "images/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"

struct build {
    struct pin_arena *arena;
    struct pin_rootfs *rootfs;
};

static void add_entry(struct build *build, const struct pin_rootfs_entry *entry) {
    struct pin_rootfs *rootfs = build->rootfs;
    struct pin_rootfs_entry *place =
        pin_arena_grow(build->arena, &rootfs->entries, &rootfs->entry_count, sizeof(*place));
    *place = *entry;
}

static void add_directory(struct build *build, const char *path, uint32_t mode) {
    add_entry(build, &(struct pin_rootfs_entry){.kind = PIN_ENTRY_DIRECTORY, .path = path, .mode = mode});
}

static void add_link(struct build *build, const char *path, const char *target) {
    add_entry(build, &(struct pin_rootfs_entry){
                         .kind = PIN_ENTRY_SYMLINK, .path = path, .content = target, .mode = 0777});
}

static void add_file(struct build *build, const char *path, const char *content) {
    add_entry(
        build,
        &(struct pin_rootfs_entry){
            .kind = PIN_ENTRY_FILE, .path = path, .content = content, .size = strlen(content), .mode = 0444});
}

static void add_bind(struct build *build, const char *source, const char *target) {
    struct pin_rootfs *rootfs = build->rootfs;
    struct pin_rootfs_bind *place =
        pin_arena_grow(build->arena, &rootfs->binds, &rootfs->bind_count, sizeof(*place));
    *place = (struct pin_rootfs_bind){.source = source, .target = target};
}

/* bin, sbin, lib…: what is a link into /usr on the host is the same link inside. */
static bool add_usr_links(struct build *build, struct pin_error *err) {
    static const char *const names[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    for (size_t i = 0; i < PIN_COUNT(names); i++) {
        char *host = pin_arena_printf(build->arena, "/%s", names[i]);
        char target[64];
        ssize_t length = readlink(host, target, sizeof(target) - 1);
        if (length < 0 && errno == ENOENT)
            continue;
        target[length < 0 ? 0 : length] = '\0';
        const char *relative = target[0] == '/' ? target + 1 : target;
        if (strncmp(relative, "usr/", 4) != 0 || strstr(relative, "..") != NULL) {
            (void)pin_fail(err, PIN_ERROR_UNSUPPORTED,
                           "the host image needs a merged /usr, and '%s' is no link into it", host);
            (void)pin_point(err, "%s", host);
            return pin_hint(err, "merge /usr (Debian: package usrmerge), or use another image");
        }
        add_link(build, names[i], pin_arena_strdup(build->arena, relative));
    }
    return true;
}

/* What of the host's /etc is shown, and why. Everything else stays outside: names, keys, tokens of package
 * managers, mail and network settings. What the sandbox's ids can't read on the host, they can't read here.
 */
static const struct {
    const char *path; /* below /etc */
    const char *why;
} shown[] = {
    {"alternatives",              "/usr/bin/awk, cc, java and hundreds more are links through it"},
    {"ca-certificates/extracted", "TLS roots: Arch"                                              },
    {"crypto-policies",           "OpenSSL and GnuTLS of Fedora don't start without it"          },
    {"fonts",                     "fontconfig: plots, PDF, headless browsers"                    },
    {"java-11-openjdk",           "the JDK's own configuration"                                  },
    {"java-17-openjdk",           "the JDK's own configuration"                                  },
    {"java-21-openjdk",           "the JDK's own configuration"                                  },
    {"java-25-openjdk",           "the JDK's own configuration"                                  },
    {"ld.so.cache",               "the loader: libraries outside its default folders"            },
    {"localtime",                 "the host's time zone"                                         },
    {"mime.types",                "types of files: Python's mimetypes, web tools"                },
    {"os-release",                "which distribution /usr is"                                   },
    {"pki/ca-trust/extracted",    "TLS roots: Fedora"                                            },
    {"pki/tls/certs",             "TLS roots: Fedora"                                            },
    {"protocols",                 "getprotobyname(3)"                                            },
    {"services",                  "getservbyname(3)"                                             },
    {"ssl/certs",                 "TLS roots: Debian; never ssl/private"                         },
    {"ssl/openssl.cnf",           "OpenSSL's defaults"                                           },
};

static void add_parents(struct build *build, const char *path) {
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        char *parent = pin_arena_strndup(build->arena, path, (size_t)(slash - path));
        bool known = false;
        for (size_t i = 0; i < build->rootfs->entry_count && !known; i++)
            known = strcmp(build->rootfs->entries[i].path, parent) == 0;
        if (!known)
            add_directory(build, parent, 0755);
    }
}

#define COPIED_BYTES ((size_t)16 * 1024) /* below this a copy costs less than a mount */

/* True: the file was small and is in the skeleton now. */
static bool add_copy(struct build *build, const char *source, const char *target, const struct stat *status) {
    struct pin_error ignored = {0}; /* a file that can't be copied is bound instead */
    size_t size;
    if ((size_t)status->st_size > COPIED_BYTES)
        return false;
    PIN_FREE char *text = pin_read_file_at(AT_FDCWD, source, COPIED_BYTES, &size, &ignored);
    if (text == NULL)
        return false;
    add_entry(build, &(struct pin_rootfs_entry){.kind = PIN_ENTRY_FILE,
                                                .path = target,
                                                .content = pin_arena_memdup(build->arena, text, size),
                                                .size = size,
                                                .mode = 0444});
    return true;
}

enum place { MISSING, PLAIN, ELSEWHERE };

/* PLAIN, with its status: no link leads there, as with most. realpath(3) asks for each name on the way once
 * more for each file, which took a fifth of the time in which a run is planned. */
static enum place look_at(int etc, const char *name, struct stat *status) {
    char part[PATH_MAX];
    size_t length = strlen(name), end = 0;
    if (length >= sizeof(part))
        return ELSEWHERE;
    memcpy(part, name, length + 1);
    while (end < length) {
        end += 1 + strcspn(name + end + 1, "/");
        part[end] = '\0';
        if (fstatat(etc, part, status, AT_SYMLINK_NOFOLLOW) != 0)
            return errno == ENOENT || errno == ENOTDIR ? MISSING : ELSEWHERE;
        if (S_ISLNK(status->st_mode))
            return ELSEWHERE;
        part[end] = name[end];
    }
    return PLAIN;
}

/* What `name` is in truth; NULL where it isn't there. */
static const char *find_shown(struct build *build, int etc, const char *name, struct stat *status) {
    char resolved[PATH_MAX];
    const char *source = pin_arena_printf(build->arena, "/etc/%s", name);
    switch (look_at(etc, name, status)) {
    case MISSING: return NULL;
    case PLAIN: return source;
    case ELSEWHERE: break;
    }
    return realpath(source, resolved) != NULL && stat(resolved, status) == 0
               ? pin_arena_strdup(build->arena, resolved)
               : NULL;
}

/* A file or folder of /etc that lies in /usr becomes a link, a small file a copy, and all else is bound. What
 * isn't there, or leads out of /etc and /usr, is left out. */
static void add_shown(struct build *build, int etc, const char *name) {
    struct stat status = {0};
    char *target = pin_arena_printf(build->arena, "etc/%s", name);
    const char *source = find_shown(build, etc, name, &status);
    if (source == NULL)
        return;
    if (strncmp(source, "/usr/", 5) == 0) {
        add_parents(build, target);
        add_link(build, target, source);
        return;
    }
    if (strncmp(source, "/etc/", 5) != 0)
        return;
    if (S_ISDIR(status.st_mode)) {
        add_parents(build, target);
        add_directory(build, target, 0755);
    } else if (S_ISREG(status.st_mode) && (status.st_mode & S_IROTH) != 0) {
        add_parents(build, target);
        if (add_copy(build, source, target, &status))
            return;
        add_file(build, target, "");
    } else {
        return;
    }
    add_bind(build, source, target);
}

static void add_users(struct build *build, const struct pin_rootfs_identity *identity) {
    const char *user = "", *group = "";
    if (identity->user != 0 && identity->user != 65534)
        user = pin_arena_printf(build->arena, "tool:x:%" PRIu32 ":%" PRIu32 ":tool:/tmp:/bin/sh\n",
                                identity->user, identity->group);
    if (identity->group != 0 && identity->group != 65534)
        group = pin_arena_printf(build->arena, "tool:x:%" PRIu32 ":\n", identity->group);
    add_file(build, "etc/passwd",
             pin_arena_printf(build->arena,
                              "root:x:0:0:root:/tmp:/bin/sh\n%s"
                              "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
                              user));
    add_file(build, "etc/group", pin_arena_printf(build->arena, "root:x:0:\n%snogroup:x:65534:\n", group));
}

static void add_etc(struct build *build, const struct pin_rootfs_identity *identity) {
    const char *hostname = identity->hostname != NULL ? identity->hostname : "pinfold";
    add_directory(build, "etc", 0755);
    add_users(build, identity);
    add_file(build, "etc/nsswitch.conf",
             "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
             "protocols: files\nservices: files\n");
    add_file(build, "etc/hosts",
             pin_arena_printf(build->arena,
                              "127.0.0.1 localhost %s\n::1 localhost ip6-localhost ip6-loopback\n",
                              hostname));
    add_file(build, "etc/hostname", pin_arena_printf(build->arena, "%s\n", hostname));
    add_file(build, "etc/resolv.conf", "# no name server: the policy allows no destination\n");
    add_link(build, "etc/mtab", "../proc/self/mounts");
    PIN_CLOSE int etc = open("/etc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (size_t i = 0; i < PIN_COUNT(shown); i++)
        add_shown(build, etc, shown[i].path);
}

static void add_mount_points(struct build *build) {
    static const struct {
        const char *path;
        uint32_t mode;
    } points[] = {
        {"dev",       0755 },
        {"proc",      0555 },
        {"tmp",       01777},
        {"run",       0755 },
        {"var",       0755 },
        {"home",      0755 },
        {"workspace", 0755 },
    };
    for (size_t i = 0; i < PIN_COUNT(points); i++)
        add_directory(build, points[i].path, points[i].mode);
    add_link(build, "var/tmp", "../tmp");
    add_link(build, "var/run", "../run");
}

bool pin_rootfs_host(struct pin_arena *arena, const struct pin_rootfs_identity *identity,
                     struct pin_rootfs *rootfs, struct pin_error *err) {
    struct pin_rootfs result = {.kind = PIN_ROOTFS_SKELETON};
    struct build build = {.arena = arena, .rootfs = &result};
    add_directory(&build, "usr", 0755);
    add_bind(&build, "/usr", "usr");
    if (!add_usr_links(&build, err))
        return false;
    add_etc(&build, identity);
    add_mount_points(&build);
    *rootfs = result;
    return true;
}
