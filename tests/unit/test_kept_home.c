/* The directory of a kept sandbox, while others clear away what is dead. */
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/kept/home.h"
#include "test.h"

#define ROUNDS 60

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static pid_t clear_away(int state) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    for (struct pin_error err = {0};; pin_error_clear(&err)) /* until it is killed */
        (void)pin_home_remove(state, "work", &err);
}

static void a_directory_that_is_being_made_is_its_makers(void **unused) {
    (void)unused;
    char path[] = "/tmp/pinfold-home-XXXXXX";
    assert_non_null(mkdtemp(path));
    PIN_CLOSE int state = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t others[] = {clear_away(state), clear_away(state)};
    int failed = 0;
    struct pin_error first = {0};
    for (int made = 0; made + failed < ROUNDS;) {
        struct pin_error err = {0};
        struct pin_home place = PIN_HOME_NONE;
        if (pin_home_make(state, "work", &place, &err))
            made++;
        else if (err.kind != PIN_ERROR_EXISTS && failed++ == 0) /* the one before isn't cleared away yet */
            first = err;
        pin_home_close(&place);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kill(others[i], SIGKILL), 0);
        assert_int_equal(waitpid(others[i], NULL, 0), others[i]);
    }
    (void)nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    if (failed > 0)
        fail_msg("%d of %d: %s", failed, ROUNDS, first.message);
}

/* Somebody has put one there: it must be possible to remove what is left of a sandbox, and nothing else. */
static void what_stands_in_the_place_of_a_lock_holds_up_no_removal(void **unused) {
    (void)unused;
    char path[] = "/tmp/pinfold-home-XXXXXX";
    assert_non_null(mkdtemp(path));
    PIN_CLOSE int state = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    PIN_CLOSE int other = openat(state, "other", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(other >= 0);
    for (int kind = 0; kind < 3; kind++) {
        struct pin_error err = {0};
        struct pin_home place = PIN_HOME_NONE;
        assert_true(pin_home_make(state, "work", &place, &err));
        assert_false(pin_home_remove(state, "work", &err));
        assert_int_equal(err.kind, PIN_ERROR_BUSY);
        assert_int_equal(unlinkat(place.folder, "lock", 0), 0);
        assert_int_equal(kind == 0   ? symlinkat("../../other", place.folder, "lock")
                         : kind == 1 ? mkfifoat(place.folder, "lock", 0600)
                                     : mkdirat(place.folder, "lock", 0700),
                         0);
        pin_home_close(&place);
        pin_error_clear(&err);
        assert_true(pin_home_remove(state, "work", &err));
        assert_int_equal(pin_home_open(state, "work", &err), -1);
    }
    assert_int_equal(faccessat(state, "other", F_OK, 0), 0);
    (void)nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_that_is_being_made_is_its_makers),
        cmocka_unit_test(what_stands_in_the_place_of_a_lock_holds_up_no_removal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
