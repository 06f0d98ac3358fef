#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/names.h"
#include "state_fixture.h"

static void remove_tree(const struct fixture *fixture, const char *name) {
    struct pin_error err = {0};
    if (!pin_tree_remove(fixture->dir, name, &err))
        fail_msg("%s", err.message);
    assert_int_equal(faccessat(fixture->dir, name, F_OK, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(errno, ENOENT);
}

static void make_file(int dir, const char *name) {
    int file = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0);
    assert_true(file >= 0);
    (void)close(file);
}

static int make_dir(int dir, const char *name) {
    assert_int_equal(mkdirat(dir, name, 0700), 0);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void nothing_there_is_removed_already(void **state) {
    remove_tree(*state, "nothing");
}

static void every_kind_of_entry_is_removed(void **state) {
    struct fixture *fixture = *state;
    int top = make_dir(fixture->dir, "tree");
    make_file(top, "file");
    make_file(top, "-rf \n\xff");
    assert_int_equal(mkfifoat(top, "fifo", 0), 0);
    assert_int_equal(symlinkat("/", top, "link"), 0);
    (void)close(make_dir(top, "empty"));
    (void)close(top);
    remove_tree(fixture, "tree");
}

static void links_are_removed_and_not_followed(void **state) {
    struct fixture *fixture = *state;
    int precious = make_dir(fixture->dir, "precious");
    make_file(precious, "file");
    int top = make_dir(fixture->dir, "tree");
    assert_int_equal(symlinkat("../precious", top, "link"), 0);
    (void)close(top);
    assert_int_equal(symlinkat("precious", fixture->dir, "top-link"), 0);
    remove_tree(fixture, "tree");
    remove_tree(fixture, "top-link");
    assert_int_equal(faccessat(precious, "file", F_OK, 0), 0);
    (void)close(precious);
}

/* Far deeper than a path can name, and than descriptors are left. */
static void depth_does_not_matter(void **state) {
    struct fixture *fixture = *state;
    int level = make_dir(fixture->dir, "tree");
    (void)close(make_dir(level, "pinfold-lifted-0")); /* the names that the walk would choose are taken */
    make_file(level, "pinfold-lifted-1");
    for (int i = 0; i < 5000; i++) {
        int next = make_dir(level, "d");
        if (i % 10 == 0)
            make_file(level, "f");
        (void)close(level);
        level = next;
    }
    (void)close(level);
    remove_tree(fixture, "tree");
}

static void number_does_not_matter(void **state) {
    struct fixture *fixture = *state;
    int top = make_dir(fixture->dir, "tree");
    char name[32];
    for (int i = 0; i < 20000; i++) {
        (void)snprintf(name, sizeof(name), "%d", i);
        if (i % 10 == 0)
            assert_int_equal(mkdirat(top, name, 0), 0);
        else
            make_file(top, name);
    }
    (void)close(top);
    remove_tree(fixture, "tree");
}

static void make_forbidden(int dir) {
    static const mode_t modes[] = {0, 0100, 0200, 0400, 0500};
    for (size_t i = 0; i < PIN_COUNT(modes); i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "m%zu", i);
        int level = make_dir(dir, name);
        make_file(level, "file");
        (void)close(make_dir(level, "sub"));
        assert_int_equal(fchmod(level, modes[i]), 0);
        (void)close(level);
    }
}

/* As an ordinary user: root isn't stopped by modes. */
static void directories_without_permissions_are_removed_by_their_owner(void **state) {
    struct fixture *fixture = *state;
    assert_int_equal(mkdirat(fixture->dir, "user", 0700), 0);
    if (geteuid() == 0)
        assert_int_equal(fchownat(fixture->dir, "user", 65534, 65534, 0), 0);
    int user = openat(fixture->dir, "user", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(user >= 0);
    pid_t child = fork();
    if (child == 0) {
        struct pin_error err = {0};
        if (geteuid() == 0 && (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0))
            _exit(2);
        int top = make_dir(user, "tree");
        make_forbidden(top);
        assert_int_equal(fchmod(top, 0), 0);
        _exit(pin_tree_remove(user, "tree", &err) ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)close(user);
}

static void a_mount_in_the_tree_is_an_error_and_stays_whole(void **state) {
    struct fixture *fixture = *state;
    if (geteuid() != 0)
        skip(); /* only root can mount */
    (void)close(make_dir(make_dir(fixture->dir, "tree"), "mnt"));
    pid_t child = fork();
    if (child == 0) {
        struct pin_error err = {0};
        char path[128];
        (void)snprintf(path, sizeof(path), "%s/tree/mnt", fixture->path);
        if (unshare(CLONE_NEWNS) != 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", path, "tmpfs", 0, NULL) != 0)
            _exit(2);
        int mounted = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        make_file(mounted, "file");
        int top = openat(AT_FDCWD, fixture->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (pin_tree_remove(top, "tree", &err) || faccessat(mounted, "file", F_OK, 0) != 0)
            _exit(1);
        _exit(err.kind == PIN_ERROR_BUSY ? 0 : 3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    remove_tree(fixture, "tree");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STATE_TEST(nothing_there_is_removed_already),
        STATE_TEST(every_kind_of_entry_is_removed),
        STATE_TEST(links_are_removed_and_not_followed),
        STATE_TEST(depth_does_not_matter),
        STATE_TEST(number_does_not_matter),
        STATE_TEST(directories_without_permissions_are_removed_by_their_owner),
        STATE_TEST(a_mount_in_the_tree_is_an_error_and_stays_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
