#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "images/rootfs.h"

static struct pin_arena arena;
static struct pin_rootfs root;

static int make_root(void **state) {
    (void)state;
    struct pin_error err = {0};
    const struct pin_rootfs_identity identity = {1234, 5678, "box"};
    return pin_rootfs_host(&arena, &identity, &root, &err) ? 0 : -1;
}

static int free_root(void **state) {
    (void)state;
    pin_arena_free(&arena);
    return 0;
}

static const struct pin_rootfs_entry *entry_at(const char *path) {
    for (size_t i = 0; i < root.entry_count; i++)
        if (strcmp(root.entries[i].path, path) == 0)
            return &root.entries[i];
    return NULL;
}

static void parents_come_before_their_children_and_nothing_twice(void **state) {
    (void)state;
    for (size_t i = 0; i < root.entry_count; i++) {
        const char *path = root.entries[i].path, *slash = strrchr(path, '/');
        assert_true(path[0] != '/');
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(root.entries[j].path, path);
        if (slash == NULL)
            continue;
        char *parent = strndup(path, (size_t)(slash - path));
        const struct pin_rootfs_entry *above = entry_at(parent);
        assert_non_null(above);
        assert_true(above < &root.entries[i] && above->kind == PIN_ENTRY_DIRECTORY);
        free(parent);
    }
}

static void users_are_the_sandboxes_own(void **state) {
    (void)state;
    const struct pin_rootfs_entry *passwd = entry_at("etc/passwd"), *group = entry_at("etc/group");
    assert_non_null(strstr(passwd->content, "tool:x:1234:5678:"));
    assert_non_null(strstr(passwd->content, "nobody:x:65534:"));
    assert_non_null(strstr(group->content, "tool:x:5678:"));
    assert_non_null(strstr(entry_at("etc/hosts")->content, "127.0.0.1 localhost box"));
    assert_string_equal(entry_at("etc/hostname")->content, "box\n");
}

static void root_and_nobody_have_one_line_each(void **state) {
    (void)state;
    static const uint32_t ids[] = {0, 65534};
    for (size_t i = 0; i < PIN_COUNT(ids); i++) {
        struct pin_arena own = {0};
        struct pin_rootfs rootfs;
        struct pin_error err = {0};
        const struct pin_rootfs_identity identity = {ids[i], ids[i], NULL};
        assert_true(pin_rootfs_host(&own, &identity, &rootfs, &err));
        for (size_t j = 0; j < rootfs.entry_count; j++)
            if (strcmp(rootfs.entries[j].path, "etc/passwd") == 0)
                assert_null(strstr(rootfs.entries[j].content, "tool"));
        pin_arena_free(&own);
    }
}

static void binds_are_of_usr_and_etc_alone_and_no_links(void **state) {
    (void)state;
    for (size_t i = 0; i < root.bind_count; i++) {
        const struct pin_rootfs_bind *bind = &root.binds[i];
        struct stat status;
        assert_true(strcmp(bind->source, "/usr") == 0 || strncmp(bind->source, "/etc/", 5) == 0);
        assert_int_equal(lstat(bind->source, &status), 0);
        assert_false(S_ISLNK(status.st_mode));
        const struct pin_rootfs_entry *entry = entry_at(bind->target);
        assert_non_null(entry);
        assert_int_equal(entry->kind, S_ISDIR(status.st_mode) ? PIN_ENTRY_DIRECTORY : PIN_ENTRY_FILE);
    }
}

/* What would name the host, or open it to somebody. */
static void nothing_secret_is_shown(void **state) {
    (void)state;
    static const char *const never[] = {
        "etc/shadow",   "etc/gshadow", "etc/machine-id", "etc/ssh",    "etc/ssl/private", "etc/ssl",
        "etc/pip.conf", "etc/npmrc",   "etc/gitconfig",  "etc/wgetrc", "etc/environment", "etc/krb5.keytab",
        "etc/sudoers",  "etc/fstab",   "etc/crypttab",   "etc/docker", "etc/kubernetes",  "etc",
        "home",         "root"};
    for (size_t i = 0; i < root.bind_count; i++)
        for (size_t j = 0; j < PIN_COUNT(never); j++)
            assert_string_not_equal(root.binds[i].target, never[j]);
    char name[256] = "";
    assert_int_equal(gethostname(name, sizeof(name) - 1), 0);
    assert_null(strstr(entry_at("etc/hostname")->content, name));
    assert_null(strstr(entry_at("etc/hosts")->content, name));
}

static void mount_points_and_merged_usr_links_are_there(void **state) {
    (void)state;
    static const char *const points[] = {"dev", "proc", "tmp", "run", "var", "home", "workspace", "usr"};
    for (size_t i = 0; i < PIN_COUNT(points); i++)
        assert_int_equal(entry_at(points[i])->kind, PIN_ENTRY_DIRECTORY);
    assert_string_equal(entry_at("bin")->content, "usr/bin");
    assert_int_equal(entry_at("bin")->kind, PIN_ENTRY_SYMLINK);
    assert_string_equal(entry_at("lib")->content, "usr/lib");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parents_come_before_their_children_and_nothing_twice),
        cmocka_unit_test(users_are_the_sandboxes_own),
        cmocka_unit_test(root_and_nobody_have_one_line_each),
        cmocka_unit_test(binds_are_of_usr_and_etc_alone_and_no_links),
        cmocka_unit_test(nothing_secret_is_shown),
        cmocka_unit_test(mount_points_and_merged_usr_links_are_there),
    };
    return cmocka_run_group_tests(tests, make_root, free_root);
}
