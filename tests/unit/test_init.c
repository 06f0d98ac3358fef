#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "init_harness.h"
#include "runtime/supervise/link.h"

struct fixture {
    struct bare_sandbox sandbox;
    struct pin_link link;
};

static struct pin_link_message expect(struct fixture *fixture, uint32_t type) {
    struct pin_link_message message;
    for (;;) {
        struct pin_error err = {0};
        struct pollfd control = {.fd = fixture->sandbox.control, .events = POLLIN};
        assert_int_equal(poll(&control, 1, 60000), 1);
        enum pin_link_event event = pin_link_receive(&fixture->link, &message, &err);
        if (event == PIN_LINK_NOTHING)
            continue;
        if (event != PIN_LINK_MESSAGE)
            fail_msg("event %d: %s", event, err.message);
        assert_int_equal(message.head.type, type);
        return message;
    }
}

static int set_up(void **state) {
    static struct fixture fixture;
    bare_sandbox_start(&fixture.sandbox);
    pin_link_init(&fixture.link, fixture.sandbox.control);
    (void)expect(&fixture, PIN_INIT_READY);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    pin_link_release(&fixture->link);
    bare_sandbox_end(&fixture->sandbox);
    return 0;
}

static const char *const plain_env[] = {"PATH=/nowhere:/usr/bin:/bin", NULL};

static void send_command(struct fixture *fixture, const struct pin_link_command *command) {
    struct pin_error err = {0};
    if (!pin_link_execute(&fixture->link, command, &err))
        fail_msg("%s", err.message);
}

/* Runs a script of the shell with its output in a pipe; what came out is in `text`. Returns its wait status.
 */
static int run_script(struct fixture *fixture, uint32_t id, const char *script, uint32_t flags, char *text,
                      size_t room) {
    int ends[2];
    const char *argv[] = {"sh", "-c", script, NULL};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct pin_link_command command = {.id = id,
                                       .flags = PIN_INIT_STDOUT | flags,
                                       .umask = 027,
                                       .cwd = "/tmp",
                                       .argv = argv,
                                       .envp = plain_env,
                                       .fds = {ends[1]},
                                       .fd_count = 1};
    send_command(fixture, &command);
    assert_int_equal(expect(fixture, PIN_INIT_STARTED).head.id, id);
    size_t size = 0;
    for (ssize_t got; (got = read(ends[0], text + size, room - 1 - size)) > 0;)
        size += (size_t)got;
    text[size] = '\0';
    (void)close(ends[0]);
    struct pin_link_message message = expect(fixture, PIN_INIT_EXITED);
    assert_int_equal(message.head.id, id);
    return message.head.value;
}

static void a_command_runs_with_its_own_environment_cwd_and_umask(void **state) {
    char text[256];
    int status = run_script(*state, 7, "pwd; umask; echo $PATH; exit 3", 0, text, sizeof(text));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_string_equal(text, "/tmp\n0027\n/nowhere:/usr/bin:/bin\n");
}

static void only_the_descriptors_that_were_sent_are_open(void **state) {
    char text[256];
    (void)run_script(*state, 1,
                     "for fd in 0 1 2 3 4 5 6 7 8 9; do "
                     "[ -e /proc/self/fd/$fd ] && echo $fd; done",
                     0, text, sizeof(text));
    assert_string_equal(text, "0\n1\n2\n");
}

static void a_command_leads_its_own_session_and_has_no_signal_blocked_or_ignored(void **state) {
    char text[256];
    (void)run_script(*state, 1,
                     "grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\n\\t'; "
                     "[ $(cut -d' ' -f6 /proc/self/stat) != 0 ] && echo session",
                     0, text, sizeof(text));
    assert_string_equal(text, "SigBlk:0000000000000000SigIgn:0000000000000000session\n");
}

static void init_ignores_every_signal_from_inside(void **state) {
    char text[256];
    int status = run_script(*state, 1,
                            "for s in HUP INT TERM KILL STOP SEGV CHLD USR1 PIPE; do kill -$s 1; done; "
                            "echo alive",
                            0, text, sizeof(text));
    assert_int_equal(status, 0);
    assert_string_equal(text, "alive\n");
    assert_int_equal(run_script(*state, 2, "echo still", 0, text, sizeof(text)), 0);
    assert_string_equal(text, "still\n");
}

static pid_t start_sleeper(struct fixture *fixture, uint32_t id, uint32_t flags) {
    const char *argv[] = {"sleep", "1000", NULL};
    struct pin_link_command command = {.id = id, .flags = flags, .cwd = "/", .argv = argv, .envp = plain_env};
    send_command(fixture, &command);
    return expect(fixture, PIN_INIT_STARTED).head.value;
}

static uid_t owner_of_environ(pid_t pid) {
    char path[64];
    struct stat info;
    (void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    assert_int_equal(stat(path, &info), 0);
    return info.st_uid;
}

/* The owner of these files is who may read and trace the process: proc(5). */
static void init_belongs_to_nobody_inside_and_what_it_starts_does(void **state) {
    struct fixture *fixture = *state;
    char children[64], text[32] = "";
    (void)start_sleeper(fixture, 1, 0);
    (void)snprintf(children, sizeof(children), "/proc/%d/task/%d/children", (int)fixture->sandbox.init,
                   (int)fixture->sandbox.init);
    PIN_CLOSE int fd = open(children, O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    assert_int_equal(owner_of_environ(fixture->sandbox.init), 0);
    assert_int_equal(owner_of_environ((pid_t)strtol(text, NULL, 10)),
                     geteuid() == 0 ? BARE_SANDBOX_ID : geteuid());
}

static void what_cannot_be_executed_is_told_with_stage_and_errno(void **state) {
    struct fixture *fixture = *state;
    static const struct {
        const char *program, *cwd;
        int error;
        enum pin_init_stage stage;
    } rows[] = {
        {"no-such-program",  "/",          ENOENT,  PIN_INIT_STAGE_EXEC},
        {"/no/such/program", "/",          ENOENT,  PIN_INIT_STAGE_EXEC},
        {"",                 "/",          ENOENT,  PIN_INIT_STAGE_EXEC},
        {"/etc/passwd",      "/",          EACCES,  PIN_INIT_STAGE_EXEC},
        {"/etc/passwd/x",    "/",          ENOTDIR, PIN_INIT_STAGE_EXEC},
        {"/tmp",             "/",          EACCES,  PIN_INIT_STAGE_EXEC},
        {"sh",               "/not/there", ENOENT,  PIN_INIT_STAGE_CWD },
    };
    for (uint32_t i = 0; i < PIN_COUNT(rows); i++) {
        const char *argv[] = {rows[i].program, NULL};
        struct pin_link_command command = {.id = i + 1, .cwd = rows[i].cwd, .argv = argv, .envp = plain_env};
        send_command(fixture, &command);
        struct pin_link_message message = expect(fixture, PIN_INIT_NOT_STARTED);
        assert_int_equal(message.head.id, i + 1);
        assert_int_equal(message.head.value, rows[i].error);
        assert_int_equal(message.stage, rows[i].stage);
    }
}

static void a_file_that_may_not_be_executed_is_remembered_and_the_search_goes_on(void **state) {
    struct fixture *fixture = *state;
    char folder[] = "/tmp/pin-init-XXXXXX", path[64], variable[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/true", folder);
    PIN_CLOSE int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    (void)snprintf(variable, sizeof(variable), "PATH=%s::/usr/bin:/bin", folder);
    const char *argv[] = {"true", NULL}, *found[] = {variable, NULL}, *alone[] = {variable, NULL};
    struct pin_link_command command = {.id = 1, .cwd = "/", .argv = argv, .envp = found};
    send_command(fixture, &command);
    (void)expect(fixture, PIN_INIT_STARTED);
    assert_int_equal(expect(fixture, PIN_INIT_EXITED).head.value, 0);
    variable[strlen("PATH=") + strlen(folder)] = '\0';
    command = (struct pin_link_command){.id = 2, .cwd = "/", .argv = argv, .envp = alone};
    send_command(fixture, &command);
    assert_int_equal(expect(fixture, PIN_INIT_NOT_STARTED).head.value, EACCES);
    (void)unlink(path);
    (void)rmdir(folder);
}

/* How many children of init have ended and wait to be reaped. */
static int zombies_of(pid_t init) {
    int count = 0;
    for (pid_t pid = init + 1; pid < init + 200; pid++) {
        char path[64], name[64], letter;
        int parent;
        (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        if (fscanf(file, "%*d %63s %c %d", name, &letter, &parent) == 3)
            count += letter == 'Z' && parent == init;
        (void)fclose(file);
    }
    return count;
}

static void orphans_are_reaped(void **state) {
    const struct fixture *fixture = *state;
    char text[256];
    (void)run_script(*state, 1, "for i in 1 2 3 4 5 6 7 8 9; do (true & ) ; done; sleep 0.05", 0, text,
                     sizeof(text));
    for (int tries = 0; tries < 2000 && zombies_of(fixture->sandbox.init) > 0; tries++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(zombies_of(fixture->sandbox.init), 0);
}

static void a_signal_reaches_one_process_or_all(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    for (uint32_t id = 1; id <= 3; id++)
        assert_true(start_sleeper(fixture, id, 0) > 1);
    assert_true(pin_link_signal(&fixture->link, 2, SIGUSR1, &err));
    struct pin_link_message message = expect(fixture, PIN_INIT_EXITED);
    assert_int_equal(message.head.id, 2);
    assert_int_equal(message.head.value, SIGUSR1);
    assert_true(pin_link_signal(&fixture->link, 99, SIGTERM, &err)); /* nobody: no matter */
    assert_true(pin_link_signal(&fixture->link, 0, SIGTERM, &err));
    for (int i = 0; i < 2; i++)
        assert_int_equal(expect(fixture, PIN_INIT_EXITED).head.value, SIGTERM);
}

static void end_and_wait(const struct fixture *fixture) {
    struct pollfd end = {.fd = fixture->sandbox.pidfd, .events = POLLIN};
    assert_int_equal(poll(&end, 1, 60000), 1);
}

static void the_end_of_the_last_one_ends_all(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    (void)start_sleeper(fixture, 1, 0);
    (void)start_sleeper(fixture, 2, PIN_INIT_LAST);
    assert_true(pin_link_signal(&fixture->link, 2, SIGINT, &err));
    assert_int_equal(expect(fixture, PIN_INIT_EXITED).head.id, 2);
    end_and_wait(fixture);
}

static void the_end_of_the_control_socket_ends_all(void **state) {
    struct fixture *fixture = *state;
    (void)start_sleeper(fixture, 1, 0);
    pin_close_fd(&fixture->sandbox.control);
    end_and_wait(fixture);
}

static void a_request_that_is_none_of_ours_ends_all(void **state) {
    struct fixture *fixture = *state;
    static const struct pin_init_message rows[] = {
        {PIN_INIT_TYPE_COUNT, 1, 0, 0                       },
        {PIN_INIT_EXEC,       1, 0, 3                       },
        {PIN_INIT_EXEC,       1, 0, PIN_INIT_REQUEST_MAX + 1},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        assert_int_equal(write(fixture->sandbox.control, &rows[i], sizeof(rows[i])), sizeof(rows[i]));
        end_and_wait(fixture);
        (void)tear_down(state);
        (void)set_up(state);
    }
}

static void a_terminal_is_made_controls_its_session_and_has_the_size(void **state) {
    struct fixture *fixture = *state;
    const char *argv[] = {"sh", "-c", "stty size; echo hello >/dev/tty; exit 5", NULL};
    struct pin_link_command command = {.id = 1,
                                       .flags = PIN_INIT_TTY,
                                       .rows = 33,
                                       .columns = 77,
                                       .cwd = "/",
                                       .argv = argv,
                                       .envp = plain_env};
    send_command(fixture, &command);
    struct pin_link_message message = expect(fixture, PIN_INIT_STARTED);
    assert_true(message.fd >= 0);
    char text[256] = "";
    size_t size = 0;
    for (ssize_t got; (got = read(message.fd, text + size, sizeof(text) - 1 - size)) > 0;)
        size += (size_t)got;
    assert_int_equal(errno, EIO); /* nobody holds the other side any more */
    assert_string_equal(text, "33 77\r\nhello\r\n");
    assert_int_equal(WEXITSTATUS(expect(fixture, PIN_INIT_EXITED).head.value), 5);
    (void)close(message.fd);
}

static void a_large_environment_arrives_whole(void **state) {
    struct fixture *fixture = *state;
    static char large[100 * 1024];
    struct pin_error err = {0};
    memset(large, 'x', sizeof(large) - 1);
    memcpy(large, "LARGE=", 6);
    const char *argv[] = {"sh", "-c", "exit $((${#LARGE} == 102393 ? 0 : 1))", NULL};
    const char *envp[] = {"PATH=/bin", large, NULL};
    struct pin_link_command command = {.id = 1, .cwd = "/", .argv = argv, .envp = envp};
    send_command(fixture, &command);
    while (pin_link_wants_to_send(&fixture->link))
        assert_true(pin_link_send(&fixture->link, &err));
    (void)expect(fixture, PIN_INIT_STARTED);
    assert_int_equal(expect(fixture, PIN_INIT_EXITED).head.value, 0);
}

#define WITH_INIT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_INIT(a_command_runs_with_its_own_environment_cwd_and_umask),
        WITH_INIT(only_the_descriptors_that_were_sent_are_open),
        WITH_INIT(a_command_leads_its_own_session_and_has_no_signal_blocked_or_ignored),
        WITH_INIT(init_ignores_every_signal_from_inside),
        WITH_INIT(init_belongs_to_nobody_inside_and_what_it_starts_does),
        WITH_INIT(what_cannot_be_executed_is_told_with_stage_and_errno),
        WITH_INIT(a_file_that_may_not_be_executed_is_remembered_and_the_search_goes_on),
        WITH_INIT(orphans_are_reaped),
        WITH_INIT(a_signal_reaches_one_process_or_all),
        WITH_INIT(the_end_of_the_last_one_ends_all),
        WITH_INIT(the_end_of_the_control_socket_ends_all),
        WITH_INIT(a_request_that_is_none_of_ours_ends_all),
        WITH_INIT(a_terminal_is_made_controls_its_session_and_has_the_size),
        WITH_INIT(a_large_environment_arrives_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
