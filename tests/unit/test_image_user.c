/* An image's user: numbers, names, and files that mean harm. */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "images/image_user.h"
#include "images/remove.h"

struct layers {
    char folder[64], low[80], high[80];
    const char *list[2];
    struct pin_rootfs rootfs;
};

static void put(const char *root, const char *name, const char *text) {
    char path[200];
    (void)snprintf(path, sizeof(path), "%s/etc", root);
    (void)mkdir(path, 0755);
    (void)snprintf(path, sizeof(path), "%s/etc/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

static int make(void **state) {
    struct layers *layers = calloc(1, sizeof(*layers));
    (void)strcpy(layers->folder, "/tmp/pinfold-user-XXXXXX");
    assert_non_null(mkdtemp(layers->folder));
    (void)snprintf(layers->low, sizeof(layers->low), "%s/low", layers->folder);
    (void)snprintf(layers->high, sizeof(layers->high), "%s/high", layers->folder);
    (void)mkdir(layers->low, 0755);
    (void)mkdir(layers->high, 0755);
    layers->list[0] = layers->low;
    layers->list[1] = layers->high;
    layers->rootfs = (struct pin_rootfs){.kind = PIN_ROOTFS_LAYERS, .layers = layers->list, .layer_count = 2};
    put(layers->low, "passwd", "root:x:0:0:::\nweb:x:33:44::/:/bin/sh\nbad:x:4294967296:0::\nlast:x:7:8");
    put(layers->low, "group", "root:x:0:\ndata:x:55:web\n");
    *state = layers;
    return 0;
}

static int clear(void **state) {
    struct layers *layers = *state;
    struct pin_error err = {0};
    bool done = pin_remove_tree(AT_FDCWD, layers->folder, &err);
    free(layers);
    return done ? 0 : -1;
}

static void users_are_found_by_number_and_by_name(void **state) {
    struct layers *layers = *state;
    static const struct {
        const char *user;
        uint32_t uid, gid;
    } rows[] = {
        {"",           0,          0 },
        {"0",          0,          0 },
        {"33",         33,         44},
        {"1000",       1000,       0 },
        {"1000:7",     1000,       7 },
        {"web",        33,         44},
        {"web:data",   33,         55},
        {"web:9",      33,         9 },
        {"5:data",     5,          55},
        {"last",       7,          8 },
        {"4294967294", 4294967294, 0 },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_error err = {0};
        uint32_t uid = 99, gid = 99;
        assert_true(pin_image_user(&layers->rootfs, rows[i].user, &uid, &gid, &err));
        assert_int_equal(uid, rows[i].uid);
        assert_int_equal(gid, rows[i].gid);
    }
}

static void nobody_becomes_root_by_accident(void **state) {
    struct layers *layers = *state;
    static const char *const rows[] = {
        "nobody", "bad",      "4294967295", "4294967296", "-1",
        "0x0",    "web:none", "web:",       ":data",      "a:b:c",
        "web\n",  " 0",       "0 ",         "web:-1",     "18446744073709551616"};
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_error err = {0};
        uint32_t uid = 99, gid = 99;
        if (pin_image_user(&layers->rootfs, rows[i], &uid, &gid, &err))
            fail_msg("'%s' became %u:%u", rows[i], uid, gid);
        assert_int_equal(uid, 99);
    }
}

static void the_topmost_file_counts(void **state) {
    struct layers *layers = *state;
    struct pin_error err = {0};
    uint32_t uid, gid;
    put(layers->high, "passwd", "web:x:1:2:::\n");
    assert_true(pin_image_user(&layers->rootfs, "web:data", &uid, &gid, &err));
    assert_int_equal(uid, 1);
    assert_int_equal(gid, 55);
    assert_false(pin_image_user(&layers->rootfs, "last", &uid, &gid, &err));
}

static void a_link_in_place_of_the_file_is_not_followed(void **state) {
    struct layers *layers = *state;
    struct pin_error err = {0};
    uint32_t uid, gid;
    char path[200];
    put(layers->high, "other", "");
    (void)snprintf(path, sizeof(path), "%s/etc/passwd", layers->high);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_false(pin_image_user(&layers->rootfs, "web", &uid, &gid, &err));
}

static void an_opaque_folder_hides_the_files_below(void **state) {
    struct layers *layers = *state;
    struct pin_error err = {0};
    uint32_t uid, gid;
    char path[200];
    put(layers->high, "other", "");
    (void)snprintf(path, sizeof(path), "%s/etc", layers->high);
    assert_true(pin_image_user(&layers->rootfs, "web", &uid, &gid, &err));
    if (setxattr(path, "user.overlay.opaque", "y", 1, 0) < 0)
        skip();
    assert_false(pin_image_user(&layers->rootfs, "web", &uid, &gid, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(users_are_found_by_number_and_by_name, make, clear),
        cmocka_unit_test_setup_teardown(nobody_becomes_root_by_accident, make, clear),
        cmocka_unit_test_setup_teardown(the_topmost_file_counts, make, clear),
        cmocka_unit_test_setup_teardown(a_link_in_place_of_the_file_is_not_followed, make, clear),
        cmocka_unit_test_setup_teardown(an_opaque_folder_hides_the_files_below, make, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
