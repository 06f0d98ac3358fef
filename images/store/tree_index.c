#include "images/store/tree_index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "images/store/hash.h"

#define CHUNK ((size_t)128 * 1024)
#define DEPTH_MAX 600
#define CROWD 8 /* entries of a directory: of fewer, one thread is done before another is made */
#define HELPERS_MAX 3

struct walk {
    struct pin_hasher *hasher;
    unsigned depth;
    char buffer[CHUNK];
    char path[PATH_MAX];
    char record[PATH_MAX + 256];
    size_t record_path; /* where the path begins in `record` */
    bool (*found)(struct walk *walk, struct pin_error *err);
    void *context;
};

static bool failed(struct walk *walk, const char *what, struct pin_error *err) {
    return pin_fail_errno(err, "%s '%.200s'", what, walk->path);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool add_attributes(struct walk *walk, int fd, struct pin_error *err) {
    char names[4096];
    const char *sorted[256];
    size_t count = 0;
    ssize_t size = flistxattr(fd, names, sizeof(names));
    if (size < 0)
        return errno == ENOTSUP || failed(walk, "list the attributes of", err);
    for (ssize_t at = 0; at < size && count < 256; at += (ssize_t)strlen(names + at) + 1)
        if (strncmp(names + at, "user.", 5) == 0)
            sorted[count++] = names + at;
    qsort(sorted, count, sizeof(*sorted), by_name);
    for (size_t i = 0; i < count; i++) {
        ssize_t got = fgetxattr(fd, sorted[i], walk->buffer, CHUNK);
        if (got < 0)
            return failed(walk, "read an attribute of", err);
        pin_hasher_add(walk->hasher, sorted[i], strlen(sorted[i]) + 1);
        pin_hasher_add(walk->hasher, walk->buffer, (size_t)got);
    }
    return true;
}

static bool add_content(struct walk *walk, int fd, struct pin_error *err) {
    for (;;) {
        ssize_t got = read(fd, walk->buffer, CHUNK);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return failed(walk, "read", err);
        if (got == 0)
            return true;
        pin_hasher_add(walk->hasher, walk->buffer, (size_t)got);
    }
}

static bool add_target(struct walk *walk, int dir, const char *name, struct pin_error *err) {
    ssize_t got = readlinkat(dir, name, walk->buffer, CHUNK);
    if (got < 0)
        return failed(walk, "read the link", err);
    pin_hasher_add(walk->hasher, walk->buffer, (size_t)got);
    return true;
}

static bool tell_digest(struct walk *walk, char kind, const struct stat *st,
                        const uint8_t digest[PIN_SHA256_SIZE], struct pin_error *err) {
    char hex[PIN_DIGEST_TEXT];
    int size = snprintf(walk->record, sizeof(walk->record), "%c %04o %u %u %lld.%09ld %lld %s ", kind,
                        st->st_mode & 07777, st->st_uid, st->st_gid, (long long)st->st_mtim.tv_sec,
                        st->st_mtim.tv_nsec, S_ISREG(st->st_mode) ? (long long)st->st_size : 0LL,
                        pin_digest_print(hex, digest) + strlen("sha256:"));
    walk->record_path = (size_t)size;
    memcpy(walk->record + size, walk->path, strlen(walk->path) + 1);
    return walk->found(walk, err);
}

static bool tell(struct walk *walk, char kind, const struct stat *st, struct pin_error *err) {
    uint8_t digest[PIN_SHA256_SIZE];
    pin_hasher_finish(walk->hasher, digest);
    return tell_digest(walk, kind, st, digest, err);
}

static bool walk_directory(struct walk *walk, int dir, struct pin_error *err);

static bool walk_directory_entry(struct walk *walk, int dir, const char *name, struct pin_error *err) {
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return failed(walk, "open", err);
    return walk_directory(walk, fd, err);
}

static bool add_file(struct walk *walk, int dir, const char *name, struct stat *st, struct pin_error *err) {
    PIN_CLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, st) < 0)
        return failed(walk, "open", err);
    pin_hasher_start(walk->hasher);
    return add_content(walk, fd, err) && add_attributes(walk, fd, err);
}

static bool walk_file(struct walk *walk, int dir, const char *name, struct pin_error *err) {
    struct stat st = {0};
    return add_file(walk, dir, name, &st, err) && tell(walk, 'f', &st, err);
}

static bool walk_entry(struct walk *walk, int dir, const char *name, struct pin_error *err) {
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(walk, "look at", err);
    pin_hasher_start(walk->hasher);
    switch (st.st_mode & S_IFMT) {
    case S_IFDIR: return walk_directory_entry(walk, dir, name, err);
    case S_IFREG: return walk_file(walk, dir, name, err);
    case S_IFLNK: return add_target(walk, dir, name, err) && tell(walk, 'l', &st, err);
    case S_IFIFO: return tell(walk, 'p', &st, err);
    case S_IFCHR: return tell(walk, st.st_rdev == 0 ? 'w' : '?', &st, err);
    default: return tell(walk, '?', &st, err);
    }
}

/* The files of a directory, hashed by several threads; who comes first takes the next one. */
struct file {
    struct stat st;
    uint8_t digest[PIN_SHA256_SIZE];
    bool hashed; /* not: the walk looks at it itself, and tells what is the matter */
};

struct crew {
    int dir;
    char *const *names;
    struct file *files;
    size_t count;
    atomic_size_t next;
};

static void hash_files(struct crew *crew, struct walk *walk) {
    for (size_t i; (i = atomic_fetch_add(&crew->next, 1)) < crew->count;) {
        struct file *file = &crew->files[i];
        struct pin_error untold = {0};
        if (fstatat(crew->dir, crew->names[i], &file->st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(file->st.st_mode))
            continue;
        file->hashed = add_file(walk, crew->dir, crew->names[i], &file->st, &untold);
        if (file->hashed)
            pin_hasher_finish(walk->hasher, file->digest);
    }
}

static void *help(void *context) {
    struct walk *walk = calloc(1, sizeof(*walk));
    if (walk == NULL)
        abort();
    walk->hasher = pin_hasher_new();
    hash_files(context, walk);
    pin_hasher_free(walk->hasher);
    free(walk);
    return NULL;
}

static struct file *hash_together(struct walk *walk, int dir, char *const *names, size_t count) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t helpers = 0, wanted = processors > HELPERS_MAX ? HELPERS_MAX
                                 : processors > 1         ? (size_t)processors - 1
                                                          : 0;
    pthread_t threads[HELPERS_MAX];
    if (count < CROWD || wanted == 0)
        return NULL;
    struct crew crew = {
        .dir = dir, .names = names, .files = calloc(count, sizeof(*crew.files)), .count = count};
    if (crew.files == NULL)
        abort();
    while (helpers < wanted && pthread_create(&threads[helpers], NULL, help, &crew) == 0)
        helpers++; /* with none it is the same, and slower */
    hash_files(&crew, walk);
    while (helpers > 0)
        (void)pthread_join(threads[--helpers], NULL);
    return crew.files;
}

static void free_names(char **names, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

static char **list_names(struct walk *walk, DIR *list, size_t *count, struct pin_error *err) {
    char **names = NULL;
    size_t room = 0;
    *count = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(list);
        if (entry == NULL && errno != 0) {
            (void)failed(walk, "list", err);
            free_names(names, *count);
            return NULL;
        }
        if (*count == room) {
            room = room == 0 ? 16 : room * 2;
            names = reallocarray(names, room, sizeof(*names));
            if (names == NULL)
                abort();
        }
        if (entry == NULL)
            break;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            names[(*count)++] = strdup(entry->d_name);
    }
    qsort(names, *count, sizeof(*names), by_name);
    return names;
}

static bool walk_names(struct walk *walk, int dir, char *const *names, size_t count, struct pin_error *err) {
    size_t size = strlen(walk->path);
    bool done = true;
    PIN_FREE struct file *files = hash_together(walk, dir, names, count);
    for (size_t i = 0; done && i < count; i++) {
        size_t name = strlen(names[i]);
        if (size + name + 2 > sizeof(walk->path))
            return pin_fail(err, PIN_ERROR_INVALID, "the path of '%.100s' is too long", names[i]);
        if (size > 0)
            walk->path[size] = '/';
        memcpy(walk->path + size + (size > 0), names[i], name + 1);
        done = files != NULL && files[i].hashed ? tell_digest(walk, 'f', &files[i].st, files[i].digest, err)
                                                : walk_entry(walk, dir, names[i], err);
        walk->path[size] = '\0';
    }
    return done;
}

static bool walk_list(struct walk *walk, DIR *list, struct pin_error *err) {
    struct stat st;
    if (fstat(dirfd(list), &st) < 0)
        return failed(walk, "look at", err);
    pin_hasher_start(walk->hasher);
    if (!add_attributes(walk, dirfd(list), err) || !tell(walk, 'd', &st, err))
        return false;
    size_t count;
    char **names = list_names(walk, list, &count, err);
    if (names == NULL)
        return false;
    bool done = walk_names(walk, dirfd(list), names, count, err);
    free_names(names, count);
    return done;
}

/* Takes the descriptor over. */
static bool walk_directory(struct walk *walk, int dir, struct pin_error *err) {
    DIR *list = fdopendir(dir);
    if (list == NULL) {
        (void)failed(walk, "list", err);
        pin_close_slot(&dir);
        return false;
    }
    bool done = walk->depth < DEPTH_MAX || pin_fail(err, PIN_ERROR_INVALID, "the tree is nested too deep");
    walk->depth++;
    done = done && walk_list(walk, list, err);
    walk->depth--;
    (void)closedir(list);
    return done;
}

static bool walk_root(int root, bool (*found)(struct walk *walk, struct pin_error *err), void *context,
                      struct pin_error *err) {
    PIN_HASHER struct pin_hasher *hasher = pin_hasher_new();
    struct walk walk = {.hasher = hasher, .found = found, .context = context};
    int again = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (again < 0)
        return failed(&walk, "open", err);
    return walk_directory(&walk, again, err);
}

static bool write_record(struct walk *walk, struct pin_error *err) {
    size_t size = walk->record_path + strlen(walk->record + walk->record_path) + 1;
    return fwrite(walk->record, 1, size, walk->context) == size ||
           pin_fail_errno(err, "write the layer's index");
}

bool pin_tree_index_write(int root, FILE *to, struct pin_error *err) {
    return walk_root(root, write_record, to, err);
}

struct comparison {
    FILE *index;
    char *line;
    size_t room;
    bool have; /* a record of the index waits for its path to come by */
    void (*differs)(void *context, const char *path, const char *what);
    void *context;
};

/* The path is what follows the seventh space. */
static const char *path_of(const char *record) {
    for (int spaces = 0; spaces < 7; spaces++) {
        const char *space = strchr(record, ' ');
        if (space == NULL)
            return "";
        record = space + 1;
    }
    return record;
}

/* Part by part: "/" comes before every other byte. */
static int compare_paths(const char *a, const char *b) {
    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    int left = *a == '/' ? 1 : (unsigned char)*a + (*a != '\0'),
        right = *b == '/' ? 1 : (unsigned char)*b + (*b != '\0');
    return left - right;
}

static bool next_record(struct comparison *comparison) {
    if (!comparison->have)
        comparison->have = getdelim(&comparison->line, &comparison->room, '\0', comparison->index) > 0;
    return comparison->have;
}

static bool compare_record(struct walk *walk, struct pin_error *err) {
    struct comparison *comparison = walk->context;
    (void)err;
    while (next_record(comparison)) {
        const char *expected = path_of(comparison->line);
        int order = compare_paths(expected, walk->path);
        if (order > 0)
            break;
        comparison->have = false;
        if (order == 0 && strcmp(comparison->line, walk->record) != 0)
            comparison->differs(comparison->context, walk->path, "changed");
        if (order == 0)
            return true;
        comparison->differs(comparison->context, expected, "missing");
    }
    comparison->differs(comparison->context, walk->path, "extra");
    return true;
}

bool pin_tree_index_check(int root, FILE *index,
                          void (*differs)(void *context, const char *path, const char *what), void *context,
                          struct pin_error *err) {
    struct comparison comparison = {.index = index, .differs = differs, .context = context};
    bool done = walk_root(root, compare_record, &comparison, err);
    while (done && next_record(&comparison)) {
        differs(context, path_of(comparison.line), "missing");
        comparison.have = false;
    }
    free(comparison.line);
    return done;
}
