/* The directory of a kept sandbox, while others clear away what is dead. */
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_directory_that_is_being_made_is_its_makers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
