#include "tools/pinfold-image/packages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "images/store/hash.h"
#include "tools/pinfold-image/program.h"

#define OUTPUT_MAX ((size_t)8 * 1024 * 1024)
#define ARGUMENTS_FIXED 16

/* apt itself counts as essential to apt, and nobody in a sandbox can use it; without usr-is-merged the host's
 * usrmerge would be chosen, which wants to convert what is made right from the start. */
static const char *const base_packages[] = {
    "?and(?essential, ?not(?exact-name(apt)))",
    "usr-is-merged",
};

struct apt {
    struct pin_arena *arena;
    const char *folder; /* absolute */
    const char *config; /* its file */
    const char *architecture;
    bool show;
};

static const char *cache_base(struct pin_arena *arena) {
    const char *given = secure_getenv("PINFOLD_CACHE"), *cache = secure_getenv("XDG_CACHE_HOME"),
               *home = secure_getenv("HOME");
    if (given != NULL && given[0] == '/')
        return given;
    if (geteuid() == 0)
        return "/var/cache/pinfold";
    if (cache != NULL && cache[0] == '/')
        return pin_arena_printf(arena, "%s/pinfold", cache);
    return pin_arena_printf(arena, "%s/.cache/pinfold", home == NULL ? "" : home);
}

/* Open to all for reading: apt's own methods run as its user "_apt". */
static bool make_folder(const char *path, struct pin_error *err) {
    struct stat st;
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return pin_fail_errno(err, "make '%s'", path);
    if (lstat(path, &st) < 0)
        return pin_fail_errno(err, "look at '%s'", path);
    return (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0) ||
           pin_fail(err, PIN_ERROR_REFUSED,
                    "'%s' isn't a directory that only its owner, who runs this, can write", path);
}

/* The host's own; packages for another machine may be installed beside its own there, and not in the image.
 */
static bool find_architecture(struct apt *apt, struct pin_error *err) {
    static const char *const argv[] = {"dpkg", "--print-architecture", NULL};
    const struct program program = {.argv = argv, .output_max = 64};
    PROGRAM_OUTPUT struct program_output output = {0};
    if (!program_run(&program, &output, err))
        return pin_hint(err, "packages are Debian's: the host must have dpkg and apt");
    char *name = output.out == NULL ? NULL : strtok(output.out, "\n");
    if (output.code != 0 || name == NULL || !pin_package_is_name(name))
        return pin_fail(err, PIN_ERROR_SYSTEM, "dpkg doesn't say which machine this is");
    apt->architecture = pin_arena_strdup(apt->arena, name);
    return true;
}

static bool write_config(const struct apt *apt, struct pin_error *err) {
    /* hooks of the host's are for the host; of what is configured only sources, keys, proxies count */
    const char *text = pin_arena_printf(
        apt->arena,
        "#clear APT::Update::Pre-Invoke;\n#clear APT::Update::Post-Invoke;\n"
        "#clear APT::Update::Post-Invoke-Success;\n#clear DPkg::Pre-Invoke;\n"
        "#clear DPkg::Pre-Install-Pkgs;\n#clear DPkg::Post-Invoke;\n#clear APT::Architectures;\n"
        "Dir::State \"%s/state\";\nDir::State::status \"%s/status\";\nDir::Cache \"%s/cache\";\n"
        "Dir::Log \"%s/log\";\nAPT::Architectures { \"%s\"; };\nAPT::Install-Recommends \"false\";\n"
        "APT::Install-Suggests \"false\";\nAPT::Get::Assume-Yes \"true\";\n"
        "APT::Keep-Downloaded-Packages \"true\";\n",
        apt->folder, apt->folder, apt->folder, apt->folder, apt->architecture);
    PIN_CLOSE int file = open(apt->config, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file < 0)
        return pin_fail_errno(err, "write '%s'", apt->config);
    const char *status = pin_arena_printf(apt->arena, "%s/status", apt->folder);
    PIN_CLOSE int none = open(status, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    return pin_write_all(file, text, strlen(text), err) &&
           (none >= 0 || pin_fail_errno(err, "write '%s'", status));
}

/* The descriptor holds the lock: apt doesn't wait for itself. */
static int apt_open(struct apt *apt, struct pin_error *err) {
    static const char *const folders[] = {"",
                                          "/state",
                                          "/state/lists",
                                          "/cache",
                                          "/cache/archives",
                                          "/cache/archives/partial",
                                          "/state/lists/partial",
                                          "/log"};
    const char *base = cache_base(apt->arena);
    apt->folder = pin_arena_printf(apt->arena, "%s/apt", base);
    apt->config = pin_arena_printf(apt->arena, "%s/apt.conf", apt->folder);
    (void)mkdir(base, 0755);
    if (!make_folder(apt->folder, err))
        return -1;
    for (size_t i = 1; i < PIN_COUNT(folders); i++)
        if (mkdir(pin_arena_printf(apt->arena, "%s%s", apt->folder, folders[i]), 0755) < 0 &&
            errno != EEXIST) {
            (void)pin_fail_errno(err, "make '%s%s'", apt->folder, folders[i]);
            return -1;
        }
    PIN_CLOSE int lock = open(apt->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX) < 0) {
        (void)pin_fail_errno(err, "lock '%s'", apt->folder);
        return -1;
    }
    return find_architecture(apt, err) && write_config(apt, err) ? pin_steal_fd(&lock) : -1;
}

static bool apt_run(const struct apt *apt, const char *const *words, size_t count,
                    struct program_output *output, struct pin_error *err) {
    static const char *const environment[] = {"LC_ALL=C", "DEBIAN_FRONTEND=noninteractive", NULL};
    const char **argv = pin_arena_array(apt->arena, count + 4, sizeof(*argv));
    argv[0] = "apt-get";
    argv[1] = "--config-file";
    argv[2] = apt->config;
    memcpy(argv + 3, words, count * sizeof(*argv));
    const struct program program = {.argv = argv, .environment = environment, .output_max = OUTPUT_MAX};
    if (apt->show)
        (void)fprintf(stderr, "apt-get %s\n", words[0]);
    if (!program_run(&program, output, err)) {
        if (err->kind != PIN_ERROR_NOT_FOUND)
            return false;
        pin_error_clear(err);
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "apt isn't installed, and packages are fetched by it");
    }
    if (output->code == 0)
        return true;
    char said[200];
    (void)pin_fail(err, PIN_ERROR_SYSTEM, "apt-get can't fetch the packages: %s",
                   program_last_words(output, said, sizeof(said)));
    return pin_hint(err, "the sources are those of the host's own apt: 'apt-get update' must work");
}

static bool apt_update(const struct apt *apt, struct pin_error *err) {
    PROGRAM_OUTPUT struct program_output output = {0};
    /* a source that can't be reached must not turn into older packages in silence */
    static const char *const words[] = {"update", "--error-on=any"};
    return apt_run(apt, words, PIN_COUNT(words), &output, err);
}

/* "Inst NAME (VERSION ORIGINS [ARCHITECTURE]) …" */
static bool read_line(struct pin_arena *arena, char *line, struct pin_lock_package *package,
                      struct pin_error *err) {
    char *rest = NULL;
    const char *name = strtok_r(line, " ", &rest), *version = strtok_r(NULL, " ", &rest);
    char *architecture = rest == NULL ? NULL : strchr(rest, '[');
    char *end = architecture == NULL ? NULL : strchr(architecture, ']');
    if (name == NULL || version == NULL || version[0] != '(' || end == NULL)
        return pin_fail(err, PIN_ERROR_SYSTEM, "apt-get says what nobody understands: '%.100s'", line);
    *end = '\0';
    *package = (struct pin_lock_package){.name = pin_arena_strdup(arena, name),
                                         .version = pin_arena_strdup(arena, version + 1),
                                         .architecture = pin_arena_strdup(arena, architecture + 1)};
    return (pin_package_is_name(package->name) && pin_package_is_version(package->version) &&
            pin_package_is_name(package->architecture)) ||
           pin_fail(err, PIN_ERROR_SYSTEM, "apt-get names the package '%.60s' that can't be", name);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct pin_lock_package *)a)->name, ((const struct pin_lock_package *)b)->name);
}

static bool read_simulation(struct pin_arena *arena, char *text, struct pin_lock *lock,
                            struct pin_error *err) {
    static const char mark[] = "Inst ";
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, mark, strlen(mark)) != 0)
            continue;
        if (lock->count == PIN_LOCK_PACKAGES_MAX)
            return pin_fail(err, PIN_ERROR_EXHAUSTED, "the recipe needs more than %d packages",
                            PIN_LOCK_PACKAGES_MAX);
        struct pin_lock_package *package =
            pin_arena_grow(arena, &lock->packages, &lock->count, sizeof(*lock->packages));
        if (!read_line(arena, line + strlen(mark), package, err))
            return false;
    }
    if (lock->count == 0)
        return pin_fail(err, PIN_ERROR_SYSTEM, "apt-get names no packages");
    qsort(lock->packages, lock->count, sizeof(*lock->packages), by_name);
    return true;
}

static bool install(const struct apt *apt, const char *how, const char *const *packages, size_t count,
                    struct program_output *output, struct pin_error *err) {
    const char **words = pin_arena_array(apt->arena, count + 3, sizeof(*words));
    words[0] = "install";
    words[1] = how;
    words[2] = "--";
    memcpy(words + 3, packages, count * sizeof(*words));
    return apt_run(apt, words, count + 3, output, err);
}

static int open_package(const struct apt *apt, const struct pin_lock_package *package,
                        struct pin_error *err) {
    const char *path = pin_arena_printf(apt->arena, "%s/cache/archives/%s", apt->folder,
                                        pin_package_file(apt->arena, package));
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        (void)pin_fail_errno(err, "open '%s'", path);
    return file;
}

/* The first member of a .deb has the time of its build: "debian-binary   1690000000  …", ar(5). */
static int64_t build_time(int file) {
    char text[8 + 16 + 12 + 1] = "";
    if (pread(file, text, sizeof(text) - 1, 0) != (ssize_t)sizeof(text) - 1 ||
        memcmp(text, "!<arch>\n", 8) != 0)
        return 0;
    return strtoll(text + 24, NULL, 10);
}

static bool measure(const struct apt *apt, struct pin_lock *lock, struct pin_error *err) {
    for (size_t i = 0; i < lock->count; i++) {
        struct pin_lock_package *package = &lock->packages[i];
        PIN_CLOSE int file = open_package(apt, package, err);
        if (file < 0 || !pin_hash_file(file, package->digest, &package->size, err))
            return false;
        int64_t built = build_time(file);
        lock->epoch_s = built > lock->epoch_s ? built : lock->epoch_s;
    }
    return true;
}

bool packages_resolve(struct pin_arena *arena, const struct pin_recipe *recipe, bool show,
                      struct pin_lock *lock, struct pin_error *err) {
    struct apt apt = {.arena = arena, .show = show};
    struct pin_lock made = {0};
    PROGRAM_OUTPUT struct program_output fetched = {0};
    PROGRAM_OUTPUT struct program_output listed = {0};
    size_t count = PIN_COUNT(base_packages) + recipe->package_count;
    const char **packages = pin_arena_array(arena, count, sizeof(*packages));
    memcpy(packages, base_packages, sizeof(base_packages));
    memcpy(packages + PIN_COUNT(base_packages), recipe->packages, recipe->package_count * sizeof(*packages));
    PIN_CLOSE int held = apt_open(&apt, err);
    if (held < 0 || !apt_update(&apt, err) ||
        !install(&apt, "--download-only", packages, count, &fetched, err) ||
        !install(&apt, "--simulate", packages, count, &listed, err) ||
        !read_simulation(arena, listed.out, &made, err) || !measure(&apt, &made, err))
        return false;
    *lock = made;
    return true;
}

static bool have_all(const struct apt *apt, const struct pin_lock *lock) {
    for (size_t i = 0; i < lock->count; i++) {
        struct pin_error absent = {0};
        struct stat st;
        PIN_CLOSE int file = open_package(apt, &lock->packages[i], &absent);
        if (file < 0 || fstat(file, &st) < 0 || (uint64_t)st.st_size != lock->packages[i].size)
            return false;
    }
    return true;
}

bool packages_fetch(struct pin_arena *arena, const struct pin_lock *lock, bool show, struct pin_error *err) {
    struct apt apt = {.arena = arena, .show = show};
    PROGRAM_OUTPUT struct program_output fetched = {0};
    PIN_CLOSE int held = apt_open(&apt, err);
    if (held < 0)
        return false;
    if (have_all(&apt, lock))
        return true;
    const char **packages = pin_arena_array(arena, lock->count, sizeof(*packages));
    for (size_t i = 0; i < lock->count; i++)
        packages[i] = pin_arena_printf(arena, "%s=%s", lock->packages[i].name, lock->packages[i].version);
    if (apt_update(&apt, err) && install(&apt, "--download-only", packages, lock->count, &fetched, err))
        return true;
    return pin_hint(
        err,
        "a version that the sources no longer have is found at a mirror with snapshots; or make a new lock");
}

static bool copy_package(const struct apt *apt, const struct pin_lock_package *package, int folder,
                         struct pin_error *err) {
    char digest[PIN_DIGEST_TEXT];
    uint64_t size;
    const char *name = pin_package_file(apt->arena, package);
    PIN_CLOSE int from = open_package(apt, package, err);
    PIN_CLOSE int to =
        from < 0 ? -1 : openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (to < 0)
        return from < 0 ? false : pin_fail_errno(err, "make '%s'", name);
    for (ssize_t got = 1; got > 0;)
        if ((got = copy_file_range(from, NULL, to, NULL, (size_t)1 << 30, 0)) < 0)
            return pin_fail_errno(err, "copy '%s'", name);
    if (!pin_hash_file(to, digest, &size, err)) /* the copy: nobody but us can write to it */
        return false;
    if (strcmp(digest, package->digest) == 0)
        return true;
    (void)pin_fail(err, PIN_ERROR_INVALID, "the package '%s' has the digest %s, the lock says %s", name,
                   digest, package->digest);
    return pin_hint(err, "the sources have another build of this version; make a new lock");
}

bool packages_copy(struct pin_arena *arena, const struct pin_lock *lock, int folder, struct pin_error *err) {
    struct apt apt = {.arena = arena};
    PIN_CLOSE int held = apt_open(&apt, err);
    if (held < 0)
        return false;
    for (size_t i = 0; i < lock->count; i++)
        if (!copy_package(&apt, &lock->packages[i], folder, err))
            return false;
    return true;
}
