/* What goes in and comes out of a run, and inits that are not ours. */
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
#include "runtime/init/protocol.h"
#include "supervise_fixture.h"
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

/* Whoever waits for it may not have heard of that yet. */
static bool is_dead(pid_t pid) {
    char path[64], state = 'X';
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'X';
    if (file != NULL)
        (void)fclose(file);
    return state == 'X' || state == 'Z';
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
        for (int tries = 0; tries < 60000 && !is_dead(fixture.sandbox.init); tries++)
            (void)poll(NULL, 0, 1);
        (void)poll(NULL, 0, 300);
        (void)kill(getppid(), SIGTERM);
        _exit(0);
    }
    supervise(&fixture);
    expect_end(&fixture, PIN_STATUS_TIMEOUT, PIN_EXIT_TIMEOUT);
    assert_true(fixture.result.usage.wall_ns < 30 * PIN_NS_PER_S);
    assert_int_equal(waitpid(sender, NULL, 0), sender);
    (void)close(ends[0]), (void)close(ends[1]);
    finish(&fixture);
}

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

int main(void) {
    const struct CMUnitTest tests[] = {
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
