/* The command's end of the control socket, against a supervisor that the test plays. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "runtime/kept/wire.h"
#include "tests/unit/test.h"
#include "tools/pinfold-kept/client.h"
#include "tools/pinfold-kept/session.h"

struct both {
    struct pin_client client;
    int supervisor;
};

static struct both make(void) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    struct both both = {PIN_CLIENT_NONE, ends[1]};
    both.client.name = "work";
    both.client.socket = ends[0];
    both.client.in.limit = PIN_WIRE_REPLY_MAX;
    return both;
}

static void end(struct both *both) {
    pin_client_close(&both->client);
    (void)close(both->supervisor);
}

static void a_supervisor_that_does_not_answer_is_told(void **state) {
    (void)state;
    static const char *const verbs[] = {"show", "root"};
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        struct both both = make();
        struct pin_error err = {0};
        int fd = -1;
        both.client.answer_ns = 50 * PIN_NS_PER_MS;
        if (i == 1)
            assert_null(pin_client_ask_fd(&both.client, verbs[i], &fd, &err));
        else
            assert_null(pin_client_call(&both.client, pin_client_request(verbs[i]), &err));
        assert_int_equal(err.kind, PIN_ERROR_EXHAUSTED);
        assert_non_null(strstr(err.message, "doesn't answer"));
        assert_non_null(strstr(err.hint, "pinfold kill work"));
        end(&both);
    }
}

static void *answer_late(void *self) {
    const struct both *both = self;
    static const char reply[] = "\0\0\0\x10{\"id\":1,\"ok\":{}}";
    char request[256];
    assert_true(recv(both->supervisor, request, sizeof(request), 0) > 0);
    (void)usleep(150000);
    assert_int_equal(send(both->supervisor, reply, sizeof(reply) - 1, MSG_NOSIGNAL), sizeof(reply) - 1);
    return NULL;
}

static void an_end_is_waited_for_however_long_it_takes(void **state) {
    (void)state;
    struct both both = make();
    struct pin_error err = {0};
    pthread_t supervisor;
    both.client.answer_ns = 50 * PIN_NS_PER_MS;
    assert_int_equal(pthread_create(&supervisor, NULL, answer_late, &both), 0);
    json_t *ok = pin_client_call(&both.client, pin_client_request("stop"), &err);
    assert_non_null(ok);
    json_decref(ok);
    assert_int_equal(pthread_join(supervisor, NULL), 0);
    end(&both);
}

/* Has started a command, and been passed signals for which it has no ears. */
static struct pin_session deaf(struct both *both) {
    static const char started[] = "\0\0\0\x23{\"id\":1,\"event\":\"started\",\"exec\":7}";
    struct pin_session session = PIN_SESSION_NONE;
    *both = make();
    session.client = both->client;
    session.client.answer_ns = 50 * PIN_NS_PER_MS;
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGUSR1);
    assert_int_equal(sigprocmask(SIG_BLOCK, &signals, NULL), 0);
    session.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    assert_true(session.signals >= 0);
    assert_int_equal(send(both->supervisor, started, sizeof(started) - 1, 0), sizeof(started) - 1);
    return session;
}

static void assert_left(struct pin_session *session) {
    struct pin_error err = {0};
    assert_null(pin_session_await(session, &err));
    assert_int_equal(err.kind, PIN_ERROR_EXHAUSTED);
    assert_non_null(strstr(err.message, "doesn't answer"));
}

/* What the supervisor was sent: the verbs, in their order. */
static void assert_was_asked(int supervisor, const char *verb, const char * not ) {
    char text[1024] = {0};
    assert_true(recv(supervisor, text, sizeof(text) - 1, MSG_DONTWAIT) > 4);
    assert_non_null(memmem(text, sizeof(text), verb, strlen(verb)));
    assert_null(memmem(text, sizeof(text), not, strlen(not )));
}

static void a_signal_that_is_not_answered_does_not_hold_its_sender(void **state) {
    (void)state;
    struct both both;
    struct pin_session session = deaf(&both);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_left(&session);
    assert_was_asked(both.supervisor, "\"signal\"", "\"end\"");
    pin_session_close(&session);
    (void)close(both.supervisor);
}

static void who_asks_again_and_is_not_heard_leaves(void **state) {
    (void)state;
    struct both both;
    struct pin_session session = deaf(&both);
    session.client.answer_ns = 200 * PIN_NS_PER_S;
    session.exec = 7;
    session.asked_ns = pin_now_ns() - 100 * PIN_NS_PER_S;
    assert_int_equal(raise(SIGUSR1), 0);
    assert_left(&session);
    char byte;
    assert_true(recv(both.supervisor, &byte, 1, MSG_DONTWAIT) < 0); /* nothing more was asked */
    pin_session_close(&session);
    (void)close(both.supervisor);
}

static void an_answer_to_a_signal_takes_the_bound_away(void **state) {
    (void)state;
    static const char told[] = "\0\0\0\x11{\"id\":3,\"ok\":{}} \0\0\0\x1a{\"id\":1,\"result\":{\"x\":12}}";
    struct both both;
    struct pin_error err = {0};
    struct pin_session session = deaf(&both);
    session.exec = 7;
    session.asked_ns = pin_now_ns();
    assert_int_equal(send(both.supervisor, told, sizeof(told) - 1, 0), sizeof(told) - 1);
    json_t *message = pin_session_await(&session, &err);
    assert_non_null(message);
    assert_non_null(json_object_get(message, "result"));
    assert_int_equal(session.asked_ns, 0);
    json_decref(message);
    pin_session_close(&session);
    (void)close(both.supervisor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_supervisor_that_does_not_answer_is_told),
        cmocka_unit_test(an_end_is_waited_for_however_long_it_takes),
        cmocka_unit_test(a_signal_that_is_not_answered_does_not_hold_its_sender),
        cmocka_unit_test(who_asks_again_and_is_not_heard_leaves),
        cmocka_unit_test(an_answer_to_a_signal_takes_the_bound_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
