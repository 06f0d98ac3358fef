/* state_fixture.h: a state directory of the test's own; include after cmocka. */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/state/slots.h"
#include "runtime/state/tree.h"

struct fixture {
    char path[64];
    int dir;
};

static inline int make_state(void **state) {
    struct fixture *made = calloc(1, sizeof(*made));
    struct pin_error err = {0};
    assert_non_null(made);
    (void)snprintf(made->path, sizeof(made->path), "/tmp/pin-state-XXXXXX");
    assert_non_null(mkdtemp(made->path));
    made->dir = pin_state_open_path(made->path, &err);
    assert_true(made->dir >= 0);
    *state = made;
    return 0;
}

static inline int drop_state(void **state) {
    struct fixture *made = *state;
    struct pin_error err = {0};
    if (made->dir >= 0)
        (void)close(made->dir);
    int parent = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(pin_tree_remove(parent, made->path + strlen("/tmp/"), &err));
    (void)close(parent);
    free(made);
    return 0;
}

#define STATE_TEST(name) cmocka_unit_test_setup_teardown(name, make_state, drop_state)
