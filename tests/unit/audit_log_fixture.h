/* audit_log_fixture.h: an audit log of the test's own; include after test.h. */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/audit/log.h"
#include "runtime/audit/verify.h"

struct fixture {
    char folder[64], path[128];
    struct pin_audit audit;
};

static inline int make_log(void **state) {
    struct fixture *made = calloc(1, sizeof(*made));
    struct pin_error err = {0};
    assert_non_null(made);
    (void)snprintf(made->folder, sizeof(made->folder), "/tmp/pin-audit-XXXXXX");
    assert_non_null(mkdtemp(made->folder));
    (void)snprintf(made->path, sizeof(made->path), "%s/audit.jsonl", made->folder);
    made->audit = PIN_AUDIT_NONE;
    assert_true(pin_audit_open_path(&made->audit, made->path, true, &err));
    *state = made;
    return 0;
}

static inline int drop_log(void **state) {
    struct fixture *made = *state;
    char command[128];
    pin_audit_close(&made->audit);
    (void)snprintf(command, sizeof(command), "rm -r %s", made->folder);
    assert_int_equal(system(command), 0);
    free(made);
    return 0;
}

static inline bool write_event(struct fixture *made, const char *name, struct pin_error *err) {
    json_t *data = json_pack("{s:[s,s]}", "argv", "echo", "line\nbreak");
    const struct pin_audit_event event = {name, "run-1", NULL, data};
    bool ok = pin_audit_write(&made->audit, &event, NULL, err);
    json_decref(data);
    return ok;
}

static inline void write_events(struct fixture *made, int count) {
    struct pin_error err = {0};
    for (int i = 0; i < count; i++)
        assert_true(write_event(made, "start", &err));
}

static inline char *read_log(const struct fixture *made, size_t *size) {
    struct pin_error err = {0};
    char *text = pin_read_file_at(AT_FDCWD, made->path, (size_t)1 << 24, size, &err);
    assert_non_null(text);
    return text;
}

static inline void put_log(const struct fixture *made, const char *text, size_t size) {
    PIN_CLOSE int fd = open(made->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    struct pin_error err = {0};
    assert_true(fd >= 0 && pin_write_all(fd, text, size, &err));
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, make_log, drop_log)
