/* The command's end of the control socket, against a supervisor that the test plays. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/kept/wire.h"
#include "tests/unit/test.h"
#include "tools/pinfold-kept/client.h"

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
        both.client.answer_s = 1;
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
    (void)usleep(1500000);
    assert_int_equal(send(both->supervisor, reply, sizeof(reply) - 1, MSG_NOSIGNAL), sizeof(reply) - 1);
    return NULL;
}

static void an_end_is_waited_for_however_long_it_takes(void **state) {
    (void)state;
    struct both both = make();
    struct pin_error err = {0};
    pthread_t supervisor;
    both.client.answer_s = 1;
    assert_int_equal(pthread_create(&supervisor, NULL, answer_late, &both), 0);
    json_t *ok = pin_client_call(&both.client, pin_client_request("stop"), &err);
    assert_non_null(ok);
    json_decref(ok);
    assert_int_equal(pthread_join(supervisor, NULL), 0);
    end(&both);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_supervisor_that_does_not_answer_is_told),
        cmocka_unit_test(an_end_is_waited_for_however_long_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
