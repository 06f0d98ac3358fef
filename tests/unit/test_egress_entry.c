/* A connection that comes to the broker by both ways, held back and at the listener, is one: judged once,
 * dialled for once, counted once, whichever way comes first. The sockets are real, what is behind them isn't.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "runtime/egress/broker/entry.h"
#include "runtime/egress/broker/openings.h"
#include "runtime/egress/broker/relay.h"
#include "runtime/egress/broker/resolver.h"
#include "runtime/egress/broker/status.h"

static struct { unsigned dials, relays, let_in, failed, connects, refusals; } seen;

/* What stands behind entry.c and conn.c. */
void __wrap_dial_start(struct broker *broker, struct dial *dial);
void __wrap_dial_start(struct broker *broker, struct dial *dial) {
    dial->broker = broker;
    for (size_t i = 0; i < DIAL_ATTEMPTS; i++)
        dial->attempts[i].watch.fd = -1;
    dial->talking.fd = -1;
    seen.dials++;
}

void relay_start(struct conn *conn) {
    (void)conn;
    seen.relays++;
}

void relay_update(struct conn *conn) {
    (void)conn;
}

void openings_let_in(struct broker *broker, const struct pin_opening *opening) {
    (void)broker;
    (void)opening;
    seen.let_in++;
}

void openings_fail(struct broker *broker, const struct pin_opening *opening, int os_errno) {
    (void)broker;
    (void)opening;
    (void)os_errno;
    seen.failed++;
}

void report_event(struct report *report, const struct pin_egress_event *event, uint64_t now) {
    (void)report;
    (void)now;
    seen.connects += event->kind == PIN_EGRESS_EVENT_CONNECT;
    seen.refusals += event->kind == PIN_EGRESS_EVENT_REFUSE;
}

struct pin_egress_event broker_event(const struct broker *broker, enum pin_egress_event_kind kind,
                                     const struct pin_destination *to, const struct pin_verdict *verdict) {
    (void)broker;
    (void)to;
    (void)verdict;
    return (struct pin_egress_event){.kind = (uint32_t)kind};
}

void broker_refuse(struct broker *broker, const struct pin_destination *to,
                   const struct pin_verdict *verdict) {
    (void)broker;
    (void)to;
    (void)verdict;
    seen.refusals++;
}

/* The listener is on the loopback; what it stands for is what the rule names. */
bool broker_destination(const struct broker *broker, const struct sockaddr_storage *dialled,
                        struct pin_destination *to) {
    (void)broker;
    (void)dialled;
    to->port = 7002;
    memcpy(to->address, (const uint8_t[16]){[10] = 0xff, [11] = 0xff, 192, 0, 2, 10}, sizeof(to->address));
    return true;
}

void resolver_ask(struct resolver *resolver, const char *name, struct question *question) {
    (void)resolver;
    (void)name;
    (void)question;
}

void resolver_forget(struct question *question) {
    (void)question;
}

void status_put_open(int stream, const struct broker *broker, const struct opened *opened) {
    (void)stream;
    (void)broker;
    (void)opened;
}

struct scene {
    struct broker broker;
    struct pin_egress_rule rule;
    int listener, client;
    struct pin_opening opening; /* of the client's connection */
};

static int bound(uint16_t port) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_return_code(fd, errno);
    assert_return_code(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), errno);
    assert_return_code(bind(fd, (const struct sockaddr *)&at, sizeof(at)), errno);
    return fd;
}

static struct sockaddr_storage name_of(int fd) {
    struct sockaddr_storage name;
    socklen_t size = sizeof(name);
    memset(&name, 0, sizeof(name));
    assert_return_code(getsockname(fd, (struct sockaddr *)&name, &size), errno);
    return name;
}

/* A client has connected, and waits at the listener; its first segment is `opening`. */
static void set_scene(struct scene *scene) {
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    *scene = (struct scene){.listener = bound(0)};
    memset(&seen, 0, sizeof(seen));
    assert_return_code(listen(scene->listener, 8), errno);
    scene->client = bound(0);
    struct sockaddr_storage to = name_of(scene->listener), from = name_of(scene->client);
    assert_return_code(connect(scene->client, (const struct sockaddr *)&to, sizeof(struct sockaddr_in)),
                       errno);
    dial_read_end(&from, &scene->opening.from);
    dial_read_end(&to, &scene->opening.to);
    assert_true(pin_egress_parse("192.0.2.10:7002", &scene->broker.arena, &scene->rule, &err));
    const struct pin_egress_setup setup = {
        .rules = {.allow = &scene->rule, .allow_count = 1},
          .limits = pin_egress_no_limits
    };
    scene->broker.rules = setup.rules;
    assert_true(accounts_set(&scene->broker.accounts, &setup));
    assert_true(poll_open(&scene->broker.poll));
}

static void clear(struct scene *scene) {
    while (scene->broker.conns != NULL)
        conn_abort(scene->broker.conns);
    assert_true(poll_round(&scene->broker.poll, 0)); /* releases what was buried */
    poll_shut(&scene->broker.poll);
    (void)close(scene->listener);
    if (scene->client >= 0)
        (void)close(scene->client);
    struct accounts *accounts = &scene->broker.accounts; /* of a broker they live as long as it */
    for (size_t i = 0; i < accounts->rule_count; i++) {
        free(accounts->rules[i]->name);
        free(accounts->rules[i]);
    }
    free(accounts->rules);
    pin_arena_free(&scene->broker.arena);
}

static void accept_all(struct scene *scene) {
    entry_accept(&scene->broker, scene->listener, 1);
}

/* The dial of the newest connection is there. */
static void connect_out(struct scene *scene) {
    struct dial *dial = &scene->broker.conns->dial;
    dial->done(dial, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), &dial->verdict, 0);
}

static void assert_counted(const struct scene *scene, uint64_t total) {
    assert_int_equal(scene->broker.accounts.own.total, total);
    assert_int_equal(seen.dials, total);
    assert_int_equal(seen.refusals, 0);
}

static void held_back_first_and_dialled_it_is_adopted(void **state) {
    (void)state;
    struct scene scene;
    set_scene(&scene);
    entry_open(&scene.broker, &scene.opening);
    connect_out(&scene);
    assert_int_equal(seen.let_in, 1);
    assert_int_equal(seen.relays, 0);
    entry_open(&scene.broker, &scene.opening); /* sent again: let in again */
    assert_int_equal(seen.let_in, 2);
    accept_all(&scene);
    assert_counted(&scene, 1);
    assert_int_equal(seen.relays, 1);
    assert_int_equal(seen.connects, 1);
    clear(&scene);
}

static void at_the_listener_while_it_is_still_dialled_for_it_is_the_same(void **state) {
    (void)state;
    struct scene scene;
    set_scene(&scene);
    entry_open(&scene.broker, &scene.opening);
    accept_all(&scene);
    assert_counted(&scene, 1);
    assert_int_equal(seen.relays, 0); /* there is nobody yet to relay to */
    connect_out(&scene);
    assert_int_equal(seen.relays, 1);
    assert_int_equal(seen.connects, 1);
    assert_int_equal(seen.let_in, 0); /* it is in */
    assert_counted(&scene, 1);
    clear(&scene);
}

static void at_the_listener_first_what_was_held_back_is_the_same(void **state) {
    (void)state;
    struct scene scene;
    set_scene(&scene);
    accept_all(&scene);
    entry_open(&scene.broker, &scene.opening); /* while it is dialled for */
    connect_out(&scene);
    entry_open(&scene.broker, &scene.opening); /* … and when it is open */
    assert_counted(&scene, 1);
    assert_int_equal(seen.relays, 1);
    assert_int_equal(seen.connects, 1);
    assert_int_equal(seen.let_in + seen.failed, 0);
    clear(&scene);
}

static void ends_that_come_anew_after_a_reset_are_another(void **state) {
    (void)state;
    struct scene scene;
    set_scene(&scene);
    accept_all(&scene);
    connect_out(&scene);
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    assert_return_code(setsockopt(scene.client, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), errno);
    assert_return_code(close(scene.client), errno);
    scene.client = -1;
    struct pollfd inner = {.fd = scene.broker.conns->inner.watch.fd};
    assert_int_equal(poll(&inner, 1, 60 * 1000), 1); /* it has arrived */
    entry_open(&scene.broker, &scene.opening);       /* before the broker has seen the reset */
    assert_counted(&scene, 2);
    clear(&scene);
}

/* Other rules, while one connection is dialled for, dialled and not yet let in, or relayed: nobody has looked
 * at its first bytes, and by the new rule somebody must. */
static void what_has_not_begun_is_held_to_the_terms_of_new_rules(void **state) {
    (void)state;
    for (unsigned steps = 0; steps < 3; steps++) {
        struct scene scene;
        set_scene(&scene);
        entry_open(&scene.broker, &scene.opening);
        struct conn *conn = scene.broker.conns;
        conn->to.host = "api.example.com";
        if (steps > 0)
            connect_out(&scene);
        if (steps > 1)
            accept_all(&scene);
        struct pin_egress_rule rule = scene.rule;
        rule.host = conn->to.host;
        rule.inspect = PIN_INSPECT_TLS;
        rule.accept = PIN_ACCEPT_NO_NAME;
        const struct pin_egress_setup setup = {
            .rules = {.allow = &rule, .allow_count = 1},
              .limits = pin_egress_no_limits
        };
        scene.broker.rules = setup.rules;
        struct account *old = scene.broker.accounts.rules[0]; /* the connection has it still */
        assert_true(accounts_set(&scene.broker.accounts, &setup));
        assert_int_equal(conn->inspection, PIN_INSPECT_NONE);
        conn_judge_again(&scene.broker);
        assert_int_equal(conn->inspection, steps < 2 ? PIN_INSPECT_TLS : PIN_INSPECT_NONE);
        assert_int_equal(conn->accept, steps < 2 ? PIN_ACCEPT_NO_NAME : 0);
        assert_int_equal(seen.refusals, 0);
        clear(&scene);
        free(old->name);
        free(old);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_back_first_and_dialled_it_is_adopted),
        cmocka_unit_test(at_the_listener_while_it_is_still_dialled_for_it_is_the_same),
        cmocka_unit_test(at_the_listener_first_what_was_held_back_is_the_same),
        cmocka_unit_test(ends_that_come_anew_after_a_reset_are_another),
        cmocka_unit_test(what_has_not_begun_is_held_to_the_terms_of_new_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
