/* The cache of compiled filters: what is taken from it, and what never is. */
#include "seccomp_make.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/seccomp.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/build/seccomp/cache.h"
#include "runtime/build/seccomp/cache_file.h"
#include "runtime/build/seccomp/spec.h"

#define ENTRY_MAX PIN_CACHE_FILE_MAX

struct cache {
    char base[64];
    int dir;
    char name[2 * PIN_SHA256_SIZE + 1]; /* of the entry of `made` */
    struct made made;
};

static struct pin_program get(struct cache *cache) {
    struct pin_program program = {0};
    struct pin_error err = {0};
    if (!pin_program_get(&cache->made.filter, cache->dir, &program, &err))
        fail_msg("%s", err.message);
    return program;
}

/* Gets the program and holds it against the one that was compiled first. */
static void assert_get_is_right(struct cache *cache) {
    struct pin_program program = get(cache);
    assert_int_equal(program.length, cache->made.program.length);
    assert_memory_equal(program.code, cache->made.program.code, program.length * sizeof(struct sock_filter));
    assert_memory_equal(program.spec_digest, cache->made.program.spec_digest, PIN_SHA256_SIZE);
    pin_program_free(&program);
}

static size_t read_entry(const struct cache *cache, uint8_t data[ENTRY_MAX]) {
    PIN_CLOSE int file = openat(cache->dir, cache->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    assert_true(file >= 0);
    ssize_t size = read(file, data, ENTRY_MAX);
    assert_true(size > 0);
    return (size_t)size;
}

static void write_entry(const struct cache *cache, const void *data, size_t size) {
    struct pin_error err = {0};
    PIN_CLOSE int file = openat(cache->dir, cache->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(file >= 0 && pin_write_all(file, data, size, &err));
}

/* The entry is a file of ours that has exactly what was stored at first. */
static bool entry_is_whole(const struct cache *cache, const uint8_t *expected, size_t size) {
    struct stat status;
    uint8_t data[ENTRY_MAX];
    return fstatat(cache->dir, cache->name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
           (status.st_mode & 07777) == 0600 && status.st_uid == geteuid() && status.st_nlink == 1 &&
           read_entry(cache, data) == size && memcmp(data, expected, size) == 0;
}

static int set_up(void **state) {
    struct cache *cache = test_calloc(1, sizeof(*cache));
    struct pin_error err = {0};
    (void)snprintf(cache->base, sizeof(cache->base), "/tmp/pin-cache-XXXXXX");
    if (mkdtemp(cache->base) == NULL || setenv("PINFOLD_CACHE", cache->base, 1) != 0)
        return -1;
    cache->dir = pin_cache_open(&err);
    if (cache->dir < 0) {
        print_error("%s\n", err.message);
        return -1;
    }
    make_filter(&cache->made, "tool", pin_arch_native(), PIN_ON_DENY_ERRNO);
    cache->made.program = get(cache);
    for (size_t i = 0; i < PIN_SHA256_SIZE; i++)
        (void)snprintf(cache->name + 2 * i, 3, "%02x", cache->made.program.spec_digest[i]);
    *state = cache;
    return 0;
}

static int tear_down(void **state) {
    struct cache *cache = *state;
    char command[128];
    (void)close(cache->dir);
    release(&cache->made);
    (void)snprintf(command, sizeof(command), "rm -rf -- '%s'", cache->base);
    int result = system(command); /* NOLINT(cert-env33-c): a path of our own making */
    test_free(cache);
    return result;
}

static void the_first_get_stores_and_the_next_takes(void **state) {
    struct cache *cache = *state;
    uint8_t before[ENTRY_MAX];
    size_t size = read_entry(cache, before);
    struct stat first, second;
    assert_true(entry_is_whole(cache, before, size));
    assert_int_equal(fstatat(cache->dir, cache->name, &first, 0), 0);
    assert_get_is_right(cache);
    assert_int_equal(fstatat(cache->dir, cache->name, &second, 0), 0);
    assert_int_equal(first.st_ino, second.st_ino); /* it was not made anew */
}

static void another_filter_has_another_entry(void **state) {
    struct cache *cache = *state;
    struct made other;
    uint8_t digest[PIN_SHA256_SIZE];
    make_filter(&other, "strict", pin_arch_native(), PIN_ON_DENY_ERRNO);
    assert_true(pin_filter_spec(&other.filter, digest));
    assert_memory_not_equal(digest, cache->made.program.spec_digest, sizeof(digest));
    other.filter = cache->made.filter;
    assert_true(pin_filter_spec(&other.filter, digest));
    assert_memory_equal(digest, cache->made.program.spec_digest, sizeof(digest));
    other.filter.default_error = ENOSYS;
    assert_true(pin_filter_spec(&other.filter, digest));
    assert_memory_not_equal(digest, cache->made.program.spec_digest, sizeof(digest));
    release(&other);
}

static void flipped_bytes_are_never_loaded(void **state) {
    struct cache *cache = *state;
    uint8_t good[ENTRY_MAX], bad[ENTRY_MAX];
    size_t size = read_entry(cache, good);
    for (size_t i = 0; i < size; i += i < 80 ? 1 : 97) {
        memcpy(bad, good, size);
        bad[i] = (uint8_t)(bad[i] ^ 1U << i % 8);
        write_entry(cache, bad, size);
        assert_get_is_right(cache);
        assert_true(entry_is_whole(cache, good, size)); /* and the bad one is replaced */
    }
}

static void cut_and_lengthened_entries_are_never_loaded(void **state) {
    struct cache *cache = *state;
    uint8_t good[ENTRY_MAX + 8] = {0};
    size_t size = read_entry(cache, good);
    const size_t sizes[] = {0, 1, 71, 72, 73, 80, size - 8, size - 1, size + 1, size + 8};
    for (size_t i = 0; i < PIN_COUNT(sizes); i++) {
        write_entry(cache, good, sizes[i]);
        assert_get_is_right(cache);
        assert_true(entry_is_whole(cache, good, size));
    }
}

/* Stores `code` in the entry's place with a header that is right in every field. */
static void plant(const struct cache *cache, struct sock_filter *code, size_t length) {
    struct pin_program planted = {.code = code, .length = (uint16_t)length};
    size_t size;
    memcpy(planted.spec_digest, cache->made.program.spec_digest, PIN_SHA256_SIZE);
    PIN_FREE void *data = pin_cache_file_write(&planted, &size);
    assert_non_null(data);
    write_entry(cache, data, size);
    struct pin_program read = {0};
    assert_true(pin_cache_file_read(data, size, planted.spec_digest, &read)); /* the header is in order */
    pin_program_free(&read);
}

static void a_program_that_allows_everything_is_never_loaded_even_with_a_right_checksum(void **state) {
    struct cache *cache = *state;
    struct sock_filter all = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
    plant(cache, &all, 1);
    assert_get_is_right(cache);
}

static void a_program_with_one_wrong_verdict_is_never_loaded_even_with_a_right_checksum(void **state) {
    struct cache *cache = *state;
    size_t length = cache->made.program.length;
    struct sock_filter *code = calloc(length, sizeof(*code));
    assert_non_null(code);
    for (size_t i = 0; i + 1 < length; i++) { /* nothing reaches the return that libseccomp puts last */
        memcpy(code, cache->made.program.code, length * sizeof(*code));
        if (code[i].code != (BPF_RET | BPF_K) || code[i].k == SECCOMP_RET_ALLOW)
            continue;
        code[i].k = SECCOMP_RET_ALLOW;
        plant(cache, code, length);
        assert_get_is_right(cache);
    }
    free(code);
}

static void what_is_not_a_private_file_of_ours_is_never_loaded(void **state) {
    struct cache *cache = *state;
    uint8_t good[ENTRY_MAX];
    size_t size = read_entry(cache, good);

    assert_int_equal(linkat(cache->dir, cache->name, cache->dir, "second", 0), 0);
    assert_get_is_right(cache);
    assert_true(entry_is_whole(cache, good, size));
    assert_int_equal(unlinkat(cache->dir, "second", 0), 0);

    assert_int_equal(fchmodat(cache->dir, cache->name, 0620, 0), 0);
    assert_get_is_right(cache);
    assert_true(entry_is_whole(cache, good, size));

    assert_int_equal(renameat(cache->dir, cache->name, cache->dir, "moved"), 0);
    assert_int_equal(symlinkat("moved", cache->dir, cache->name), 0);
    assert_get_is_right(cache);
    assert_true(entry_is_whole(cache, good, size));

    assert_int_equal(unlinkat(cache->dir, cache->name, 0), 0);
    assert_int_equal(mkfifoat(cache->dir, cache->name, 0600), 0);
    assert_get_is_right(cache); /* and it doesn't hang */
    assert_true(entry_is_whole(cache, good, size));

    assert_int_equal(unlinkat(cache->dir, cache->name, 0), 0);
    assert_int_equal(mkdirat(cache->dir, cache->name, 0700), 0);
    assert_get_is_right(cache); /* can't be replaced, and is no harm */
    assert_int_equal(unlinkat(cache->dir, cache->name, AT_REMOVEDIR), 0);
}

static void an_entry_of_somebody_else_is_never_loaded(void **state) {
    struct cache *cache = *state;
    if (geteuid() != 0)
        skip(); /* only root can give a file away */
    uint8_t good[ENTRY_MAX];
    size_t size = read_entry(cache, good);
    assert_int_equal(fchownat(cache->dir, cache->name, 65534, 65534, 0), 0);
    assert_get_is_right(cache);
    assert_true(entry_is_whole(cache, good, size));
}

static void a_cache_that_cannot_be_written_is_no_error(void **state) {
    struct cache *cache = *state;
    int kept = cache->dir;
    cache->dir = -1;
    assert_get_is_right(cache);
    cache->dir = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_get_is_right(cache);
    (void)close(cache->dir);
    cache->dir = kept;
}

/* --- the directory --- */

static bool open_fails(const char *path, const char *message) {
    struct pin_error err = {0};
    assert_int_equal(setenv("PINFOLD_CACHE", path, 1), 0);
    PIN_CLOSE int dir = pin_cache_open(&err);
    if (dir < 0 && strstr(err.message, message) == NULL)
        print_error("'%s'\n", err.message);
    return dir < 0 && strstr(err.message, message) != NULL;
}

static void directories_that_others_can_write_are_refused(void **state) {
    struct cache *cache = *state;
    char below[96];
    (void)snprintf(below, sizeof(below), "%s/below", cache->base);
    assert_int_equal(mkdir(below, 0700), 0);
    assert_int_equal(chmod(cache->base, 0777), 0);
    assert_true(open_fails(below, "can be written by others"));
    assert_int_equal(chmod(cache->base, 0770), 0);
    assert_true(open_fails(below, "can be written by others"));
    assert_int_equal(chmod(cache->base, 01777), 0); /* as /tmp is */
    assert_false(open_fails(below, ""));
    assert_int_equal(chmod(cache->base, 0700), 0);
    (void)snprintf(below, sizeof(below), "%s/below/seccomp", cache->base);
    assert_int_equal(chmod(below, 01777), 0); /* but not the last one */
    (void)snprintf(below, sizeof(below), "%s/below", cache->base);
    assert_true(open_fails(below, "can be written by others"));
}

static void links_and_files_in_place_of_the_directory_are_refused(void **state) {
    struct cache *cache = *state;
    assert_int_equal(mkdirat(cache->dir, "a", 0700), 0);
    assert_int_equal(mkdirat(cache->dir, "b", 0700), 0);
    assert_int_equal(symlinkat("/tmp", cache->dir, "a/seccomp"), 0);
    assert_int_equal(mkfifoat(cache->dir, "b/seccomp", 0600), 0);
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/seccomp/a", cache->base);
    assert_true(open_fails(path, "'seccomp'"));
    (void)snprintf(path, sizeof(path), "%s/seccomp/b", cache->base);
    assert_true(open_fails(path, "'seccomp'"));
    assert_true(open_fails("/nonexistent", "'/nonexistent'"));
}

static void a_directory_of_somebody_else_is_refused(void **state) {
    struct cache *cache = *state;
    if (geteuid() != 0)
        skip(); /* only root can give a directory away */
    assert_int_equal(fchown(cache->dir, 65534, 65534), 0);
    assert_true(open_fails(cache->base, "belongs to user 65534"));
}

int main(void) {
#define WITH_CACHE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_CACHE(the_first_get_stores_and_the_next_takes),
        WITH_CACHE(another_filter_has_another_entry),
        WITH_CACHE(flipped_bytes_are_never_loaded),
        WITH_CACHE(cut_and_lengthened_entries_are_never_loaded),
        WITH_CACHE(a_program_that_allows_everything_is_never_loaded_even_with_a_right_checksum),
        WITH_CACHE(a_program_with_one_wrong_verdict_is_never_loaded_even_with_a_right_checksum),
        WITH_CACHE(what_is_not_a_private_file_of_ours_is_never_loaded),
        WITH_CACHE(an_entry_of_somebody_else_is_never_loaded),
        WITH_CACHE(a_cache_that_cannot_be_written_is_no_error),
        WITH_CACHE(directories_that_others_can_write_are_refused),
        WITH_CACHE(links_and_files_in_place_of_the_directory_are_refused),
        WITH_CACHE(a_directory_of_somebody_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
