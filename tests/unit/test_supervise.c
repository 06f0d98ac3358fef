/* The life of a run: its end, its causes, its limits. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/init/protocol.h"
#include "supervise_fixture.h"

static void output_is_captured_and_the_exit_code_kept(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "echo out; echo err >&2; exit 3");
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_ERROR, 3);
    expect_text(&fixture.result.out, "out\n");
    expect_text(&fixture.result.err, "err\n");
    assert_true(fixture.result.usage.wall_ns > 0);
    assert_true(fixture.result.usage.memory_peak_bytes > 0);
    finish(&fixture);
}

static void success_is_exit_code_0(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "exit 0");
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    finish(&fixture);
}

static void a_signal_is_128_and_its_number(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "kill -USR1 $$");
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_KILLED, 128 + SIGUSR1);
    assert_int_equal(fixture.result.signal, SIGUSR1);
    finish(&fixture);
}

static void exit_code_137_is_no_memory_limit(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "exit 137");
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_ERROR, 137);
    finish(&fixture);
}

static void what_is_not_found_is_127_and_what_is_not_executable_126(void **state) {
    static const struct {
        const char *program;
        int exit_code;
        enum pin_error_kind kind;
    } rows[] = {
        {"no-such-program", PIN_EXIT_NOT_FOUND,      PIN_ERROR_NOT_FOUND     },
        {"/etc/passwd",     PIN_EXIT_NOT_EXECUTABLE, PIN_ERROR_NOT_EXECUTABLE},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct fixture fixture;
        prepare_sandbox(state, &fixture, "");
        fixture.argv[0] = rows[i].program;
        supervise(&fixture);
        expect_end(&fixture, PIN_STATUS_ERROR, rows[i].exit_code);
        assert_int_equal(fixture.result.error.kind, rows[i].kind);
        assert_string_equal(fixture.result.error.pointer, "/process/args/0");
        assert_non_null(strstr(fixture.result.error.message, rows[i].program));
        assert_string_not_equal(fixture.result.error.hint, "");
        finish(&fixture);
    }
}

static void a_working_directory_that_is_not_there_is_a_failure(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "true");
    fixture.given.cwd = "/not/there";
    supervise(&fixture);
    assert_false(fixture.lived);
    assert_string_equal(fixture.err.pointer, "/process/cwd");
    finish(&fixture);
}

static void standard_streams_can_be_opened_by_path(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "echo x >/dev/stdout && echo y >/proc/self/fd/2");
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    expect_text(&fixture.result.out, "x\n");
    finish(&fixture);
}

static void a_grandchild_that_holds_the_output_neither_outlives_nor_delays_the_run(void **state) {
    struct fixture fixture;
    prepare_sandbox(
        state, &fixture,
        "(trap '' HUP TERM INT; exec setsid sleep 1000) & setsid sh -c 'sleep 1000 & sleep 999' & "
        "echo done");
    uint64_t start = pin_now_ns();
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    expect_text(&fixture.result.out, "done\n");
    assert_true(pin_now_ns() - start < 60 * PIN_NS_PER_S);
    finish(&fixture);
}

static void what_was_written_before_the_end_is_not_lost(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2; kill -9 $$");
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_KILLED, 137);
    assert_int_equal(fixture.result.out.size, 60000);
    assert_int_equal(fixture.result.err.size, 60000);
    finish(&fixture);
}

static void a_timeout_ends_who_listens_by_term(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "trap 'echo bye; exit 0' TERM; sleep 1000 & wait");
    fixture.given.limits.wall_time_ns = PIN_NS_PER_S; /* by then the trap is set, on a busy machine too */
    fixture.given.limits.grace_ns = 60 * PIN_NS_PER_S;
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_TIMEOUT, PIN_EXIT_TIMEOUT);
    expect_text(&fixture.result.out, "bye\n");
    assert_true(fixture.result.usage.wall_ns < 30 * PIN_NS_PER_S);
    finish(&fixture);
}

static void a_timeout_ends_who_ignores_term_or_is_stopped_by_kill(void **state) {
    static const char *const scripts[] = {
        "trap '' TERM HUP INT; while :; do sleep 0.05; done",
        "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 1000' &); sleep 1000",
        "kill -STOP $$",
    };
    for (size_t i = 0; i < PIN_COUNT(scripts); i++) {
        struct fixture fixture;
        prepare_sandbox(state, &fixture, scripts[i]);
        fixture.given.limits.wall_time_ns = 150 * PIN_NS_PER_MS;
        supervise(&fixture);
        expect_end(&fixture, PIN_STATUS_TIMEOUT, PIN_EXIT_TIMEOUT);
        assert_true(fixture.result.usage.wall_ns < 30 * PIN_NS_PER_S);
        finish(&fixture);
    }
}

static pid_t in_the_background(void (*act)(const struct fixture *), const struct fixture *fixture) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    act(fixture);
    _exit(0);
}

/* Whether a process or one that it has started, they too, has this name. */
static bool is_below(pid_t pid, const char *name) {
    char path[64], comm[32] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    FILE *file = fopen(path, "re");
    bool found =
        file != NULL && fgets(comm, sizeof(comm), file) != NULL && strncmp(comm, name, strlen(name)) == 0;
    if (file != NULL)
        (void)fclose(file);
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    file = fopen(path, "re");
    for (int child; !found && file != NULL && fscanf(file, "%d", &child) == 1;)
        found = is_below(child, name);
    if (file != NULL)
        (void)fclose(file);
    return found;
}

/* What a script does before it starts `sleep` is done then. */
static void await_sleep(const struct fixture *fixture) {
    for (int tries = 0; tries < 60000 && !is_below(fixture->sandbox.init, "sleep"); tries++)
        (void)poll(NULL, 0, 1);
}

static void kill_init_soon(const struct fixture *fixture) {
    await_sleep(fixture);
    (void)kill(fixture->sandbox.init, SIGKILL);
}

static void an_init_that_is_killed_from_outside_is_said_to_be(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "echo started; sleep 1000");
    pid_t killer = in_the_background(kill_init_soon, &fixture);
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_KILLED, 137);
    expect_text(&fixture.result.out, "started\n");
    assert_non_null(strstr(fixture.result.error.message, "killed from outside"));
    assert_int_equal(waitpid(killer, NULL, 0), killer);
    finish(&fixture);
}

static void signal_us_soon(const struct fixture *fixture) {
    await_sleep(fixture);
    (void)kill(getppid(), SIGTERM);
}

static void a_signal_to_the_supervisor_is_passed_on(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "trap 'echo got it; exit 7' TERM; sleep 1000 & wait");
    fixture.given.limits.grace_ns = 60 * PIN_NS_PER_S;
    pid_t sender = in_the_background(signal_us_soon, &fixture);
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_ERROR, 7);
    expect_text(&fixture.result.out, "got it\n");
    assert_int_equal(waitpid(sender, NULL, 0), sender);
    finish(&fixture);
}

static void who_ignores_a_signal_that_is_passed_on_is_killed_after_the_grace(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "trap '' TERM; while :; do sleep 0.05; done");
    pid_t sender = in_the_background(signal_us_soon, &fixture);
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_KILLED, 128 + SIGTERM);
    assert_int_equal(waitpid(sender, NULL, 0), sender);
    finish(&fixture);
}

static void the_callers_signal_mask_is_as_before(void **state) {
    struct fixture fixture;
    sigset_t before, after;
    assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &before), 0);
    prepare_sandbox(state, &fixture, "true");
    supervise(&fixture);
    assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &after), 0);
    assert_memory_equal(&before, &after, 8);
    finish(&fixture);
}

static void output_over_its_limit_is_cut_and_the_run_goes_on(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2; exit 4");
    fixture.given.limits.stdout_bytes = 1000;
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_ERROR, 4);
    assert_int_equal(fixture.result.out.size, 1000);
    assert_true(fixture.result.out.truncated);
    assert_false(fixture.result.err.truncated);
    assert_int_equal(fixture.result.out.total_bytes, 3000000);
    expect_text(&fixture.result.err, "end\n");
    finish(&fixture);
}

static void a_cut_does_not_go_through_a_character(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "printf 'ab\\342\\202\\254'");
    fixture.given.limits.stdout_bytes = 4;
    supervise(&fixture);
    expect_text(&fixture.result.out, "ab");
    finish(&fixture);
}

static void output_over_its_limit_kills_where_the_policy_says_so(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "trap '' TERM PIPE; while :; do echo xxxxxxxxxxxxxxxx; done");
    fixture.given.limits.stdout_bytes = 1000;
    fixture.given.limits.on_output_cap = PIN_ON_CAP_KILL;
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_OUTPUT, 137);
    assert_int_equal(fixture.result.out.size, 1000);
    finish(&fixture);
}

static long resident_peak_kib(void) {
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;
}

static void memory_stays_flat_through_a_flood(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "head -c 1000000000 /dev/zero; head -c 300000000 /dev/zero >&2");
    long before = resident_peak_kib();
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    assert_int_equal(fixture.result.out.total_bytes, 1000000000);
    assert_int_equal(fixture.result.err.total_bytes, 300000000);
    assert_true(resident_peak_kib() - before < 16 * 1024);
    finish(&fixture);
}

struct fake_cgroup {
    int killed;
    uint64_t cpu_ns, oom_kills;
    pid_t init;
};

static bool fake_kill(void *self) {
    ((struct fake_cgroup *)self)->killed++;
    return true;
}

static bool fake_usage(void *self, struct pin_usage *usage) {
    const struct fake_cgroup *cgroup = self;
    usage->cpu_ns = cgroup->cpu_ns;
    usage->memory_peak_bytes = 12345;
    usage->pids_peak = 7;
    usage->oom_kills = cgroup->oom_kills;
    return true;
}

static bool fake_oom(void *self) {
    return ((struct fake_cgroup *)self)->oom_kills > 0;
}

static void the_kernels_word_of_an_oom_kill_ends_the_tree(void **state) {
    struct fixture fixture;
    struct fake_cgroup cgroup = {.oom_kills = 1};
    PIN_CLOSE int event = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    prepare_sandbox(state, &fixture, "sleep 1000");
    fixture.given.cgroup =
        (struct pin_cgroup_ops){&cgroup, fake_kill, fake_usage, event, POLLIN, fake_oom, NULL};
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_MEMORY, PIN_EXIT_MEMORY);
    assert_true(cgroup.killed > 0);
    assert_int_equal(fixture.result.usage.memory_peak_bytes, 12345);
    finish(&fixture);
}

static void an_oom_kill_that_was_noticed_last_counts_as_well(void **state) {
    struct fixture fixture;
    struct fake_cgroup cgroup = {.oom_kills = 1};
    prepare_sandbox(state, &fixture, "kill -9 $$");
    fixture.given.cgroup = (struct pin_cgroup_ops){&cgroup, fake_kill, fake_usage, -1, 0, NULL, NULL};
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_MEMORY, PIN_EXIT_MEMORY);
    finish(&fixture);
}

static void the_cpu_time_of_the_cgroup_is_a_limit(void **state) {
    struct fixture fixture;
    struct fake_cgroup cgroup = {.cpu_ns = PIN_NS_PER_S};
    prepare_sandbox(state, &fixture, "sleep 1000");
    fixture.given.cgroup = (struct pin_cgroup_ops){&cgroup, fake_kill, fake_usage, -1, 0, NULL, NULL};
    fixture.given.limits.cpu_time_ns = 500 * PIN_NS_PER_MS;
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_TIMEOUT, PIN_EXIT_TIMEOUT);
    finish(&fixture);
}

static void a_run_that_ends_by_itself_needs_no_killing(void **state) {
    struct fixture fixture;
    struct fake_cgroup cgroup = {0};
    prepare_sandbox(state, &fixture, "true");
    fixture.given.cgroup = (struct pin_cgroup_ops){&cgroup, fake_kill, fake_usage, -1, 0, NULL, NULL};
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    assert_int_equal(cgroup.killed, 0);
    finish(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(output_is_captured_and_the_exit_code_kept),
        ON_BOTH(success_is_exit_code_0),
        ON_BOTH(a_signal_is_128_and_its_number),
        ON_BOTH(exit_code_137_is_no_memory_limit),
        ON_BOTH(what_is_not_found_is_127_and_what_is_not_executable_126),
        ON_BOTH(a_working_directory_that_is_not_there_is_a_failure),
        ON_BOTH(standard_streams_can_be_opened_by_path),
        ON_BOTH(a_grandchild_that_holds_the_output_neither_outlives_nor_delays_the_run),
        ON_BOTH(what_was_written_before_the_end_is_not_lost),
        ON_BOTH(a_timeout_ends_who_listens_by_term),
        ON_BOTH(a_timeout_ends_who_ignores_term_or_is_stopped_by_kill),
        ON_BOTH(an_init_that_is_killed_from_outside_is_said_to_be),
        ON_BOTH(a_signal_to_the_supervisor_is_passed_on),
        ON_BOTH(who_ignores_a_signal_that_is_passed_on_is_killed_after_the_grace),
        ON_BOTH(the_callers_signal_mask_is_as_before),
        ON_BOTH(output_over_its_limit_is_cut_and_the_run_goes_on),
        ON_BOTH(a_cut_does_not_go_through_a_character),
        ON_BOTH(output_over_its_limit_kills_where_the_policy_says_so),
        ON_BOTH(memory_stays_flat_through_a_flood),
        ON_BOTH(the_kernels_word_of_an_oom_kill_ends_the_tree),
        ON_BOTH(an_oom_kill_that_was_noticed_last_counts_as_well),
        ON_BOTH(the_cpu_time_of_the_cgroup_is_a_limit),
        ON_BOTH(a_run_that_ends_by_itself_needs_no_killing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
