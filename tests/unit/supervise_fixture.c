#include "supervise_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/units.h"

enum pin_io on_uring = PIN_IO_URING, on_epoll = PIN_IO_EPOLL;

static const char *const plain_env[] = {"PATH=/usr/bin:/bin", "KEPT=yes", "PINFOLD_FRAME_FD=77", NULL};

void prepare(struct fixture *fixture, enum pin_io io, const char *script) {
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

void prepare_sandbox(void **state, struct fixture *fixture, const char *script) {
    *fixture = (struct fixture){0};
    bare_sandbox_start(&fixture->sandbox);
    prepare(fixture, *(const enum pin_io *)*state, script);
}

void supervise(struct fixture *fixture) {
    fixture->lived = pin_supervise(&fixture->given, &fixture->result, &fixture->err);
    assert_true(is_gone(fixture->sandbox.init));
}

void finish(struct fixture *fixture) {
    pin_result_free(&fixture->result);
    pin_close_fd(&fixture->sandbox.pidfd);
    pin_close_fd(&fixture->sandbox.control);
}

static void must_live(const struct fixture *fixture) {
    if (!fixture->lived)
        fail_msg("%s", fixture->err.message);
}

void expect_text(const struct pin_text *text, const char *expected) {
    assert_int_equal(text->size, strlen(expected));
    assert_memory_equal(text->data, expected, text->size);
}

void expect_end(const struct fixture *fixture, enum pin_status status, int exit_code) {
    must_live(fixture);
    assert_string_equal(pin_status_name(fixture->result.status), pin_status_name(status));
    assert_int_equal(fixture->result.exit_code, exit_code);
}

int file_of(size_t size) {
    int fd = memfd_create("input", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    return fd;
}

char *content(int fd, size_t *size) {
    *size = (size_t)lseek(fd, 0, SEEK_END);
    char *text = calloc(1, *size + 1);
    assert_int_equal(pread(fd, text, *size, 0), *size);
    return text;
}

void pass_to(struct fixture *fixture, int out, int err) {
    fixture->given.output = PIN_OUTPUT_PASS;
    fixture->given.stdout_fd = out;
    fixture->given.stderr_fd = err;
    fixture->given.limits.stdout_bytes = PIN_UNLIMITED;
}

int open_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}
