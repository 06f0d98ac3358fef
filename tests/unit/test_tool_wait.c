/* What a warm call waits for, at supervisors that the test plays. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/units.h"
#include "runtime/kept/home.h"
#include "runtime/kept/wire.h"
#include "tests/unit/test.h"
#include "tools/pinfold-tool/warm_wait.h"

#define SHORT_NS (5 * PIN_NS_PER_MS)

static const char started[] = "\0\0\0\x1a{\"id\":1,\"event\":\"started\"}";

struct played {
    char path[32];
    int folder, listener, called; /* `called`: its end of the call's connection */
    struct pin_client client;
    const char *looks; /* what it is when it is asked: 'f'rozen or 'r'unning, as often as there are letters */
    bool then_starts;
    unsigned looked;
};

static void begin(struct played *played, uint64_t answer_ns) {
    struct pin_error err = {0};
    int ends[2];
    (void)strcpy(played->path, "/tmp/pinfold-wait-XXXXXX");
    assert_non_null(mkdtemp(played->path));
    played->folder = open(played->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    played->listener = pin_home_listen(played->folder, &err);
    assert_true(played->listener >= 0 && fcntl(played->listener, F_SETFL, 0) == 0); /* accept() waits */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    played->client = PIN_CLIENT_NONE;
    played->client.name = "warm";
    played->client.in.limit = PIN_WIRE_REPLY_MAX;
    played->client.folder = played->folder;
    played->client.socket = ends[0];
    played->client.answer_ns = answer_ns;
    played->called = ends[1];
}

static void end(struct played *played) {
    pin_client_close(&played->client);
    (void)close(played->called);
    (void)close(played->listener);
    char control[64];
    (void)snprintf(control, sizeof(control), "%s/control", played->path);
    assert_int_equal(unlink(control), 0);
    assert_int_equal(rmdir(played->path), 0);
}

static void *play(void *self) {
    struct played *played = self;
    for (const char *look = played->looks; *look != '\0'; look++) {
        static const char frozen[] = "\0\0\0\x1d{\"id\":1,\"ok\":{\"frozen\":true}}";
        static const char runs[] = "\0\0\0\x1e{\"id\":1,\"ok\":{\"frozen\":false}}";
        char question[256];
        int fd = accept4(played->listener, NULL, NULL, SOCK_CLOEXEC);
        ssize_t got = recv(fd, question, sizeof(question), 0);
        played->looked += got > 0 && memmem(question, (size_t)got, "\"stats\"", 7) != NULL;
        if (look[1] == '\0' &&
            played->then_starts) /* before the last answer: who has that doesn't ask again */
            (void)send(played->called, started, sizeof(started) - 1, MSG_NOSIGNAL);
        if (*look == 'f')
            (void)send(fd, frozen, sizeof(frozen) - 1, MSG_NOSIGNAL);
        else
            (void)send(fd, runs, sizeof(runs) - 1, MSG_NOSIGNAL);
        (void)close(fd);
    }
    return NULL;
}

/* What comes for the call, while its supervisor is asked as often as it says. */
static json_t *await(struct played *played, struct pin_error *err) {
    pthread_t thread;
    begin(played, 0);
    assert_int_equal(pthread_create(&thread, NULL, play, played), 0);
    json_t *message = pin_warm_await(&played->client, SHORT_NS, err);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(played->looked, strlen(played->looks));
    return message;
}

static void a_supervisor_that_stands_still_is_given_up(void **state) {
    (void)state;
    struct played played = {0};
    struct pin_error err = {0};
    begin(&played, SHORT_NS);
    assert_null(pin_warm_await(&played.client, SHORT_NS, &err));
    assert_int_equal(err.kind, PIN_ERROR_EXHAUSTED);
    assert_non_null(strstr(err.message, "doesn't answer"));
    assert_true(played.client.is_silent);
    end(&played);
}

static void a_frozen_sandbox_is_waited_for(void **state) {
    (void)state;
    struct played played = {.looks = "fff", .then_starts = true};
    struct pin_error err = {0};
    json_t *message = await(&played, &err);
    assert_string_equal(json_string_value(json_object_get(message, "event")), "started");
    assert_false(played.client.is_silent);
    json_decref(message);
    end(&played);
}

static void what_runs_and_has_no_answer_gets_as_long_once_more(void **state) {
    (void)state;
    static const char *const looks[] = {"rr", "frfrr"};
    for (size_t i = 0; i < PIN_COUNT(looks); i++) {
        struct played played = {.looks = looks[i]};
        struct pin_error err = {0};
        assert_null(await(&played, &err));
        assert_int_equal(err.kind, PIN_ERROR_EXHAUSTED);
        assert_true(played.client.is_silent);
        end(&played);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_supervisor_that_stands_still_is_given_up),
        cmocka_unit_test(a_frozen_sandbox_is_waited_for),
        cmocka_unit_test(what_runs_and_has_no_answer_gets_as_long_once_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
