/* The bounds of a layer: each is met, and nothing beyond it is made. */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "images/remove.h"
#include "images/store/layer_unpack.h"

/* A tar of `count` files with `size` bytes each, compressed or not. */
static int make_tar(int count, size_t size, bool compressed) {
    int fd = memfd_create("tar", MFD_CLOEXEC);
    struct archive *tar = archive_write_new();
    assert_int_equal(archive_write_set_format_ustar(tar), ARCHIVE_OK);
    if (compressed)
        assert_int_equal(archive_write_add_filter_gzip(tar), ARCHIVE_OK);
    assert_int_equal(archive_write_open_fd(tar, fd), ARCHIVE_OK);
    char *data = calloc(1, size + 1);
    for (int i = 0; i < count; i++) {
        char name[32];
        struct archive_entry *entry = archive_entry_new();
        (void)snprintf(name, sizeof(name), "f%d", i);
        archive_entry_set_pathname(entry, name);
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0644);
        archive_entry_set_size(entry, (la_int64_t)size);
        assert_int_equal(archive_write_header(tar, entry), ARCHIVE_OK);
        assert_int_equal(archive_write_data(tar, data, size), size);
        archive_entry_free(entry);
    }
    free(data);
    assert_int_equal(archive_write_free(tar), ARCHIVE_OK);
    return fd;
}

static bool unpack(int blob, const struct pin_layer_limits *limits, struct pin_error *err) {
    char folder[] = "/tmp/pinfold-limits-XXXXXX";
    assert_non_null(mkdtemp(folder));
    int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct pin_layer_unpacked unpacked;
    struct pin_error ignored = {0};
    bool done = pin_layer_unpack(blob, NULL, root, limits, &unpacked, err);
    (void)close(root);
    assert_true(pin_remove_tree(AT_FDCWD, folder, &ignored));
    return done;
}

static void within_its_bounds_a_layer_is_unpacked(void **state) {
    (void)state;
    struct pin_error err = {0};
    struct pin_layer_limits limits = {
        .bytes = 40960, .ratio = 1000, .ratio_after = 0, .entries = 10, .time_ns = 1000000000};
    int blob = make_tar(10, 1000, false);
    assert_true(unpack(blob, &limits, &err));
    (void)close(blob);
}

static void beyond_a_bound_a_layer_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *what;
        struct pin_layer_limits limits;
        bool compressed;
    } rows[] = {
        {"entries",   {.bytes = 1 << 20, .ratio = 1000, .entries = 9, .time_ns = UINT64_C(10000000000)}, false},
        {"bytes",     {.bytes = 15000, .ratio = 1000, .entries = 100, .time_ns = UINT64_C(10000000000)}, false},
        {"its files", {.bytes = 9999, .ratio = 1000, .entries = 100, .time_ns = UINT64_C(10000000000)},  true },
        {"times its",
         {.bytes = 1 << 20, .ratio = 10, .entries = 100, .time_ns = UINT64_C(10000000000)},
         true                                                                                                 },
        {"to unpack", {.bytes = 1 << 20, .ratio = 1000, .entries = 100, .time_ns = 0},                   false},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_error err = {0};
        int blob = make_tar(10, 1000, rows[i].compressed);
        assert_false(unpack(blob, &rows[i].limits, &err));
        assert_int_equal(err.kind, PIN_ERROR_REFUSED);
        (void)close(blob);
    }
}

static void removing_stays_below_and_follows_nothing(void **state) {
    (void)state;
    char folder[] = "/tmp/pinfold-remove-XXXXXX";
    struct pin_error err = {0};
    assert_non_null(mkdtemp(folder));
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(dir, "kept", 0700), 0);
    assert_int_equal(mkdirat(dir, "kept/inner", 0700), 0);
    assert_int_equal(mkdirat(dir, "gone", 0700), 0);
    assert_int_equal(symlinkat("../kept", dir, "gone/link"), 0);
    assert_int_equal(mkdirat(dir, "gone/closed", 0000), 0);
    assert_true(pin_remove_tree(dir, "gone", &err));
    assert_true(pin_remove_tree(dir, "never", &err));
    assert_int_equal(faccessat(dir, "gone", F_OK, 0), -1);
    assert_int_equal(faccessat(dir, "kept/inner", F_OK, 0), 0);
    (void)close(dir);
    assert_true(pin_remove_tree(AT_FDCWD, folder, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(within_its_bounds_a_layer_is_unpacked),
        cmocka_unit_test(beyond_a_bound_a_layer_is_refused),
        cmocka_unit_test(removing_stays_below_and_follows_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
