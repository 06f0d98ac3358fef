/* supervise_fixture.h: one run of pin_supervise() over a bare sandbox, for tests on both backends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "init_harness.h"
#include "runtime/supervise/supervise.h"

struct fixture {
    struct bare_sandbox sandbox;
    struct pin_supervision given;
    struct pin_result result;
    struct pin_error err;
    const char *argv[4];
    bool lived;
};

/* A new sandbox, and what is to be run in it: `state` is where an enum pin_io stands. */
void prepare_sandbox(void **state, struct fixture *fixture, const char *script);
/* The same for a sandbox that is there already. */
void prepare(struct fixture *fixture, enum pin_io io, const char *script);
void pass_to(struct fixture *fixture, int out, int err);
/* Runs it; init is gone afterwards. */
void supervise(struct fixture *fixture);
void finish(struct fixture *fixture);

void expect_end(const struct fixture *fixture, enum pin_status status, int exit_code);
void expect_text(const struct pin_text *text, const char *expected);

/* A file of zeros, and what a file holds. */
int file_of(size_t size);
char *content(int fd, size_t *size);
int open_descriptors(void);

#define ON_BOTH(test)                                                                                        \
    {#test " (uring)", test, NULL, NULL, &on_uring}, {                                                       \
#test " (epoll)", test, NULL, NULL, &on_epoll                                                        \
    }
extern enum pin_io on_uring, on_epoll;
