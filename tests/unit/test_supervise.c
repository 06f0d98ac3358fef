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
#include "base/names.h"
#include "base/units.h"
#include "init_harness.h"
#include "runtime/init/protocol.h"
#include "runtime/supervise/supervise.h"

/* Each test runs on both backends: the state says which. */
struct fixture {
    struct bare_sandbox sandbox;
    struct pin_supervision given;
    struct pin_result result;
    struct pin_error err;
    const char *argv[4];
    bool lived;
};

static const char *const plain_env[] = {"PATH=/usr/bin:/bin", "KEPT=yes", "PINFOLD_FRAME_FD=77", NULL};

static void prepare(struct fixture *fixture, enum pin_io io, const char *script) {
    fixture->argv[0] = "sh";
    fixture->argv[1] = "-c";
    fixture->argv[2] = script;
    fixture->given = (struct pin_supervision){
        .init_pid = fixture->sandbox.init,
        .init_pidfd = fixture->sandbox.pidfd,
        .control = fixture->sandbox.control,
        .cgroup = {.oom_event_fd = -1    },
        .argv = fixture->argv,
        .envp = plain_env,
        .cwd = "/",
        .stdin_fd = -1,
        .terminal_fd = -1,
        .output = PIN_OUTPUT_CAPTURE,
        .has_owner = geteuid() == 0,
        .owner_uid = BARE_SANDBOX_ID,
        .owner_gid = BARE_SANDBOX_ID,
        .limits = { .wall_time_ns = 20 * PIN_NS_PER_S,
                   .cpu_time_ns = PIN_UNLIMITED,
                   .grace_ns = 100 * PIN_NS_PER_MS,
                   .stdout_bytes = PIN_MIB,
                   .stderr_bytes = PIN_MIB,
                   .frame_bytes = PIN_MIB},
        .io = io,
    };
}

static void prepare_sandbox(void **state, struct fixture *fixture, const char *script) {
    *fixture = (struct fixture){0};
    bare_sandbox_start(&fixture->sandbox);
    prepare(fixture, *(const enum pin_io *)*state, script);
}

static void supervise(struct fixture *fixture) {
    fixture->lived = pin_supervise(&fixture->given, &fixture->result, &fixture->err);
    assert_true(is_gone(fixture->sandbox.init));
}

static void finish(struct fixture *fixture) {
    pin_result_free(&fixture->result);
    pin_close_fd(&fixture->sandbox.pidfd);
    pin_close_fd(&fixture->sandbox.control);
}

static void must_live(const struct fixture *fixture) {
    if (!fixture->lived)
        fail_msg("%s", fixture->err.message);
}

static void expect_text(const struct pin_text *text, const char *expected) {
    assert_int_equal(text->size, strlen(expected));
    assert_memory_equal(text->data, expected, text->size);
}

static void expect_end(const struct fixture *fixture, enum pin_status status, int exit_code) {
    must_live(fixture);
    assert_string_equal(pin_status_name(fixture->result.status), pin_status_name(status));
    assert_int_equal(fixture->result.exit_code, exit_code);
}

/* ---- the plain run --------------------------------------------------------------------------------------
 */

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

/* ---- the end is the death of the tree -------------------------------------------------------------------
 */

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
    assert_true(pin_now_ns() - start < 5 * PIN_NS_PER_S);
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
    fixture.given.limits.wall_time_ns = 200 * PIN_NS_PER_MS;
    fixture.given.limits.grace_ns = 10 * PIN_NS_PER_S;
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_TIMEOUT, PIN_EXIT_TIMEOUT);
    expect_text(&fixture.result.out, "bye\n");
    assert_true(fixture.result.usage.wall_ns < 5 * PIN_NS_PER_S);
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
        assert_true(fixture.result.usage.wall_ns < 3 * PIN_NS_PER_S);
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

static void kill_init_soon(const struct fixture *fixture) {
    (void)poll(NULL, 0, 150);
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
    (void)fixture;
    (void)poll(NULL, 0, 150);
    (void)kill(getppid(), SIGTERM);
}

static void a_signal_to_the_supervisor_is_passed_on(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, "trap 'echo got it; exit 7' TERM; sleep 1000 & wait");
    fixture.given.limits.grace_ns = 10 * PIN_NS_PER_S;
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

/* ---- limits ---------------------------------------------------------------------------------------------
 */

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
    fixture.given.cgroup = (struct pin_cgroup_ops){&cgroup, fake_kill, fake_usage, event, POLLIN, fake_oom};
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
    fixture.given.cgroup = (struct pin_cgroup_ops){&cgroup, fake_kill, fake_usage, -1, 0, NULL};
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_MEMORY, PIN_EXIT_MEMORY);
    finish(&fixture);
}

static void the_cpu_time_of_the_cgroup_is_a_limit(void **state) {
    struct fixture fixture;
    struct fake_cgroup cgroup = {.cpu_ns = PIN_NS_PER_S};
    prepare_sandbox(state, &fixture, "sleep 1000");
    fixture.given.cgroup = (struct pin_cgroup_ops){&cgroup, fake_kill, fake_usage, -1, 0, NULL};
    fixture.given.limits.cpu_time_ns = 500 * PIN_NS_PER_MS;
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_TIMEOUT, PIN_EXIT_TIMEOUT);
    finish(&fixture);
}

static void a_run_that_ends_by_itself_needs_no_killing(void **state) {
    struct fixture fixture;
    struct fake_cgroup cgroup = {0};
    prepare_sandbox(state, &fixture, "true");
    fixture.given.cgroup = (struct pin_cgroup_ops){&cgroup, fake_kill, fake_usage, -1, 0, NULL};
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    assert_int_equal(cgroup.killed, 0);
    finish(&fixture);
}

/* ---- input ----------------------------------------------------------------------------------------------
 */

static int file_of(size_t size) {
    int fd = memfd_create("input", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    return fd;
}

static void input_arrives_whole(void **state) {
    struct fixture fixture;
    PIN_CLOSE int input = file_of(5000000);
    prepare_sandbox(state, &fixture, "wc -c");
    fixture.given.stdin_fd = input;
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    expect_text(&fixture.result.out, "5000000\n");
    finish(&fixture);
}

static void input_that_nobody_reads_holds_nothing_up(void **state) {
    static const char *const scripts[] = {"echo done", "exec <&-; echo done",
                                          "head -c 10 >/dev/null; echo done",
                                          "head -c 400000 /dev/zero >&2; echo done"};
    for (size_t i = 0; i < PIN_COUNT(scripts); i++) {
        struct fixture fixture;
        PIN_CLOSE int input = file_of(5000000);
        prepare_sandbox(state, &fixture, scripts[i]);
        fixture.given.stdin_fd = input;
        supervise(&fixture);
        expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
        expect_text(&fixture.result.out, "done\n");
        finish(&fixture);
    }
}

static void a_flood_both_ways_does_not_lock(void **state) {
    struct fixture fixture;
    PIN_CLOSE int input = file_of(20000000);
    prepare_sandbox(state, &fixture, "cat; cat >&2 </dev/null");
    fixture.given.stdin_fd = input;
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    assert_int_equal(fixture.result.out.total_bytes, 20000000);
    finish(&fixture);
}

/* ---- pass-through ---------------------------------------------------------------------------------------
 */

static void pass_to(struct fixture *fixture, int out, int err) {
    fixture->given.output = PIN_OUTPUT_PASS;
    fixture->given.stdout_fd = out;
    fixture->given.stderr_fd = err;
    fixture->given.limits.stdout_bytes = PIN_UNLIMITED;
}

static char *content(int fd, size_t *size) {
    *size = (size_t)lseek(fd, 0, SEEK_END);
    char *text = calloc(1, *size + 1);
    assert_int_equal(pread(fd, text, *size, 0), *size);
    return text;
}

static void bytes_pass_as_they_are_and_the_cut_is_marked(void **state) {
    struct fixture fixture;
    size_t size;
    PIN_CLOSE int out = file_of(0);
    PIN_CLOSE int err = file_of(0);
    prepare_sandbox(state, &fixture, "printf 'a\\000\\377b'; printf 12345678");
    pass_to(&fixture, out, err);
    fixture.given.limits.stdout_bytes = 6;
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    PIN_FREE char *text = content(out, &size);
    assert_int_equal(size, 6);
    assert_memory_equal(text, "a\0\377b12", 6);
    PIN_FREE char *errors = content(err, &size);
    assert_string_equal(errors, "\npinfold: stdout is cut here, after 6 bytes\n");
    finish(&fixture);
}

static void a_reader_that_has_gone_ends_the_writer_as_in_a_pipeline(void **state) {
    struct fixture fixture;
    int ends[2];
    PIN_CLOSE int err = file_of(0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    (void)close(ends[0]);
    prepare_sandbox(state, &fixture, "exec yes");
    pass_to(&fixture, ends[1], err);
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_KILLED, 128 + SIGPIPE);
    (void)close(ends[1]);
    finish(&fixture);
}

static void a_full_disk_is_said(void **state) {
    struct fixture fixture;
    PIN_CLOSE int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    prepare_sandbox(state, &fixture, "echo lost; true");
    pass_to(&fixture, full, full);
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_ERROR, PIN_EXIT_REFUSED);
    assert_int_equal(fixture.result.error.os_errno, ENOSPC);
    finish(&fixture);
}

static void read_slowly(int fd) {
    static char room[200000];
    size_t total = 0;
    (void)poll(NULL, 0, 300); /* the pipe fills, and the writer inside has to wait */
    for (ssize_t got; (got = read(fd, room, sizeof(room))) > 0;)
        total += (size_t)got;
    _exit(total == 8000000 ? 0 : 1);
}

static void a_slow_reader_gets_every_byte(void **state) {
    struct fixture fixture;
    int ends[2], status;
    PIN_CLOSE int err = file_of(0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    prepare_sandbox(state, &fixture, "head -c 8000000 /dev/zero");
    pid_t reader = fork();
    if (reader == 0) {
        (void)close(ends[1]);
        read_slowly(ends[0]);
    }
    (void)close(ends[0]);
    pass_to(&fixture, ends[1], err);
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0); /* the caller's descriptor is as it was */
    (void)close(ends[1]);
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    finish(&fixture);
}

static void a_reader_that_never_reads_does_not_stop_the_clock(void **state) {
    struct fixture fixture;
    int ends[2];
    PIN_CLOSE int err = file_of(0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    prepare_sandbox(state, &fixture, "yes");
    pass_to(&fixture, ends[1], err);
    fixture.given.limits.wall_time_ns = 200 * PIN_NS_PER_MS;
    pid_t sender = fork();
    if (sender == 0) { /* when all is dead, the rest still waits for a reader: a signal says not to */
        (void)poll(NULL, 0, 1500);
        (void)kill(getppid(), SIGTERM);
        _exit(0);
    }
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_TIMEOUT, PIN_EXIT_TIMEOUT);
    assert_true(fixture.result.usage.wall_ns < PIN_NS_PER_S);
    assert_int_equal(waitpid(sender, NULL, 0), sender);
    (void)close(ends[0]), (void)close(ends[1]);
    finish(&fixture);
}

/* ---- frames ---------------------------------------------------------------------------------------------
 */

static const char letta_script[] =
    "printf before; printf "
    "'\\222\\310\\344\\230\\103\\323\\137\\263\\221\\235\\246\\236\\263\\345\\305\\306'; "
    "printf '\\000\\000\\000\\005'; printf 5d41402abc4b2a76b9719d911017c592; printf hello; printf after";

static void letta_frames_are_taken_out_of_stdout(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, letta_script);
    fixture.given.frames = PIN_FRAMES_STDOUT_LETTA;
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    expect_text(&fixture.result.out, "beforeafter");
    const struct pin_frame_record *frame = pin_result_frame(&fixture.result);
    assert_non_null(frame);
    assert_memory_equal(frame->payload, "hello", 5);
    finish(&fixture);
}

static void frames_nobody_asked_for_stay_in_stdout(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, letta_script);
    supervise(&fixture);
    assert_int_equal(fixture.result.out.size, 6 + 16 + 4 + 32 + 5 + 5);
    assert_int_equal(fixture.result.frame_count, 0);
    finish(&fixture);
}

/* The nonce is 0 to 15, so that the shell can print it. */
static const char fd_script[] =
    "echo \"$PINFOLD_FRAME_FD $PINFOLD_FRAME_NONCE $KEPT\"; "
    "printf 'stray\\001\\002\\003\\004\\005\\006\\007\\010\\011\\012\\013\\014\\015\\016\\017\\020' >&3; "
    "printf '\\001\\001\\000\\000\\000\\000\\000\\011\\343\\006\\222\\203123456789' >&3";

static void frames_on_their_own_descriptor_are_read(void **state) {
    struct fixture fixture;
    prepare_sandbox(state, &fixture, fd_script);
    fixture.given.frames = PIN_FRAMES_FD;
    fixture.given.has_nonce = true;
    for (uint8_t i = 0; i < PIN_FRAME_MARKER_SIZE; i++)
        fixture.given.nonce[i] = (uint8_t)(i + 1);
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    expect_text(&fixture.result.out, "3 0102030405060708090a0b0c0d0e0f10 yes\n");
    const struct pin_frame_record *frame = pin_result_frame(&fixture.result);
    assert_non_null(frame);
    assert_true(frame->from_fd);
    assert_memory_equal(frame->payload, "123456789", 9);
    assert_int_equal(fixture.result.stray_bytes, 5);
    finish(&fixture);
}

/* ---- lines ----------------------------------------------------------------------------------------------
 */

static void events_come_as_numbered_lines_that_parse(void **state) {
    struct fixture fixture;
    size_t size, events = 0;
    PIN_CLOSE int out = file_of(0);
    struct pin_stream stream = {.fd = out};
    prepare_sandbox(state, &fixture,
                    "echo hello; sleep 0.1; printf '\\342\\202'; sleep 0.1; printf '\\254\\377'; "
                    "head -c 100000 /dev/zero");
    fixture.given.output = PIN_OUTPUT_STREAM;
    fixture.given.stream = &stream;
    fixture.given.limits.stdout_bytes = 50000;
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_SUCCESS, 0);
    assert_true(pin_stream_exit(&stream, &fixture.result, &fixture.err));
    PIN_FREE char *text = content(out, &size);
    char types[256] = "";
    bool saw_euro = false;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_t *event = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(event);
        assert_int_equal(json_integer_value(json_object_get(event, "seq")), ++events);
        const char *data = json_string_value(json_object_get(event, "data"));
        saw_euro = saw_euro || (data != NULL && strcmp(data, "\xe2\x82\xac") == 0);
        if (strcmp(types, "") == 0 ||
            strcmp(strrchr(types, ' ') + 1, json_string_value(json_object_get(event, "type"))) != 0) {
            strcat(types, " ");
            strcat(types, json_string_value(json_object_get(event, "type")));
        }
        json_decref(event);
    }
    assert_string_equal(types, " stdout limit exit");
    assert_true(saw_euro);
    finish(&fixture);
}

/* ---- terminals ------------------------------------------------------------------------------------------
 */

static void a_terminal_inside_is_fed_from_the_callers_and_the_callers_is_restored(void **state) {
    struct fixture fixture;
    int master, slave;
    struct winsize size = {.ws_row = 31, .ws_col = 61};
    struct termios before, during, after;
    PIN_CLOSE int out = file_of(0);
    assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
    assert_int_equal(tcgetattr(slave, &before), 0);
    prepare_sandbox(state, &fixture, "stty size; read -r line; echo \"[$line]\"; exit 9");
    pass_to(&fixture, out, out);
    fixture.given.tty = true;
    fixture.given.terminal_fd = slave;
    assert_int_equal(write(master, "typed\n", 6), 6);
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_ERROR, 9);
    assert_int_equal(tcgetattr(slave, &after), 0);
    during = before;
    cfmakeraw(&during);
    assert_int_not_equal(during.c_lflag, before.c_lflag);
    assert_int_equal(after.c_lflag, before.c_lflag);
    assert_int_equal(after.c_iflag, before.c_iflag);
    size_t length;
    PIN_FREE char *text = content(out, &length);
    assert_non_null(strstr(text, "31 61\r\n"));
    assert_non_null(strstr(text, "[typed]\r\n"));
    (void)close(master), (void)close(slave);
    finish(&fixture);
}

/* ---- an init that isn't ours ----------------------------------------------------------------------------
 */

static void say(uint32_t type, uint32_t id, int32_t value, uint32_t length) {
    struct pin_init_message message = {type, id, value, length};
    (void)!write(3, &message, sizeof(message));
}

static void die_at_once(void) {
    _exit(1);
}

static void fail_to_build(void) {
    struct pin_error error = {.kind = PIN_ERROR_UNSUPPORTED, .message = "mount: no", .hint = "mend it"};
    say(PIN_INIT_BUILD_FAILED, 0, 0, sizeof(error));
    (void)!write(3, &error, sizeof(error));
}

static void wait_for_the_end(void) {
    for (;;)
        (void)pause();
}

static void send_nonsense(void) {
    say(0x41414141, 1, 2, 3);
    wait_for_the_end();
}

static void start_before_ready(void) {
    say(PIN_INIT_STARTED, 1, 1, 0);
    wait_for_the_end();
}

static void exit_twice(void) {
    say(PIN_INIT_READY, 0, 0, 0);
    say(PIN_INIT_STARTED, 1, 1, 0);
    say(PIN_INIT_EXITED, 1, 0, 0);
    say(PIN_INIT_EXITED, 1, 0, 0);
    wait_for_the_end();
}

static void send_a_long_payload(void) {
    say(PIN_INIT_READY, 0, 0, UINT32_MAX);
    wait_for_the_end();
}

static void close_and_stay(void) {
    (void)close(3);
    wait_for_the_end();
}

static void say_nothing(void) {
    wait_for_the_end();
}

static void an_init_that_breaks_the_protocol_is_killed_with_a_clear_error(void **state) {
    static const struct {
        void (*inside)(void);
        const char *message;
    } rows[] = {
        {die_at_once,         "ended before its command"},
        {fail_to_build,       "mount: no"               },
        {send_nonsense,       "init sent"               },
        {start_before_ready,  "out of its order"        },
        {exit_twice,          "out of its order"        },
        {send_a_long_payload, "init sent"               },
        {close_and_stay,      "ended before its command"},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct fixture fixture = {0};
        bare_sandbox_start_fake(&fixture.sandbox, rows[i].inside);
        prepare(&fixture, *(const enum pin_io *)*state, "true");
        supervise(&fixture);
        if (fixture.lived || strstr(fixture.err.message, rows[i].message) == NULL)
            fail_msg("row %zu: %s", i, fixture.err.message);
        finish(&fixture);
    }
}

static void an_init_that_says_nothing_meets_the_time_limit(void **state) {
    struct fixture fixture = {0};
    bare_sandbox_start_fake(&fixture.sandbox, say_nothing);
    prepare(&fixture, *(const enum pin_io *)*state, "true");
    fixture.given.limits.wall_time_ns = 100 * PIN_NS_PER_MS;
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_TIMEOUT, PIN_EXIT_TIMEOUT);
    finish(&fixture);
}

/* ---- what is left ---------------------------------------------------------------------------------------
 */

static int open_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void no_descriptor_is_left_behind(void **state) {
    int before = open_descriptors();
    static const char *const scripts[] = {"echo x", "no-such-program"};
    for (size_t i = 0; i < PIN_COUNT(scripts); i++) {
        struct fixture fixture;
        PIN_CLOSE int input = file_of(100);
        prepare_sandbox(state, &fixture, scripts[i]);
        fixture.given.stdin_fd = input;
        fixture.given.frames = PIN_FRAMES_FD | PIN_FRAMES_STDOUT_LETTA;
        supervise(&fixture);
        finish(&fixture);
    }
    assert_int_equal(open_descriptors(), before);
}

/* Fewer and fewer descriptors are to be had: the run works, or it is refused with nothing left. */
static void every_want_of_descriptors_is_a_clean_refusal(void **state) {
    struct rlimit before;
    int refused = 0, lived = 0;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (rlim_t room = 0; room < 20; room++) {
        struct fixture fixture;
        PIN_CLOSE int input = file_of(100);
        prepare_sandbox(state, &fixture, "cat");
        fixture.given.stdin_fd = input;
        fixture.given.frames = PIN_FRAMES_FD;
        int open_before = open_descriptors();
        PIN_CLOSE int next = fcntl(0, F_DUPFD_CLOEXEC, 0);
        const struct rlimit few = {(rlim_t)next + room, before.rlim_max};
        pin_close_fd(&next);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        supervise(&fixture);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(open_descriptors(), open_before);
        assert_true(fixture.lived || fixture.err.kind == PIN_ERROR_EXHAUSTED);
        refused += !fixture.lived;
        lived += fixture.lived;
        finish(&fixture);
    }
    assert_true(refused >= 5 && lived >= 5);
}

static enum pin_io uring = PIN_IO_URING, epoll = PIN_IO_EPOLL;

#define ON_BOTH(test)                                                                                        \
    {#test " (uring)", test, NULL, NULL, &uring}, {                                                          \
#test " (epoll)", test, NULL, NULL, &epoll                                                           \
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
        ON_BOTH(input_arrives_whole),
        ON_BOTH(input_that_nobody_reads_holds_nothing_up),
        ON_BOTH(a_flood_both_ways_does_not_lock),
        ON_BOTH(bytes_pass_as_they_are_and_the_cut_is_marked),
        ON_BOTH(a_reader_that_has_gone_ends_the_writer_as_in_a_pipeline),
        ON_BOTH(a_full_disk_is_said),
        ON_BOTH(a_slow_reader_gets_every_byte),
        ON_BOTH(a_reader_that_never_reads_does_not_stop_the_clock),
        ON_BOTH(letta_frames_are_taken_out_of_stdout),
        ON_BOTH(frames_nobody_asked_for_stay_in_stdout),
        ON_BOTH(frames_on_their_own_descriptor_are_read),
        ON_BOTH(events_come_as_numbered_lines_that_parse),
        ON_BOTH(a_terminal_inside_is_fed_from_the_callers_and_the_callers_is_restored),
        ON_BOTH(an_init_that_breaks_the_protocol_is_killed_with_a_clear_error),
        ON_BOTH(an_init_that_says_nothing_meets_the_time_limit),
        ON_BOTH(no_descriptor_is_left_behind),
        ON_BOTH(every_want_of_descriptors_is_a_clean_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
