#include "tools/pinfold-kept/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/supervise/terminal.h"

#define SIGNAL_ID 3 /* of requests: 1 is the command's, 2 of a new size */
#define AGAIN_PART 10

/* How long it is still waited for the answer to a signal; -1: for ever. */
static int patience_ms(const struct pin_session *session) {
    if (session->asked_ns == 0)
        return -1;
    uint64_t end_ns = session->asked_ns + pin_client_answer_ns(&session->client);
    uint64_t now = pin_now_ns();
    return now >= end_ns ? 0 : (int)((end_ns - now + PIN_NS_PER_MS - 1) / PIN_NS_PER_MS);
}

/* Who asks again meanwhile has seen that nothing happens. */
static bool is_deaf(const struct pin_session *session) {
    uint64_t enough_ns = pin_client_answer_ns(&session->client) / AGAIN_PART;
    return session->asked_ns != 0 && pin_now_ns() - session->asked_ns >= enough_ns;
}

bool pin_session_take_signals(int *signals, struct pin_error *err) {
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < PIN_COUNT(wanted); i++)
        (void)sigaddset(&set, wanted[i]);
    int fd = sigprocmask(SIG_BLOCK, &set, NULL) == 0 ? signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
    if (fd < 0)
        return pin_fail_errno(err, "take signals");
    *signals = fd;
    return true;
}

/* A second one doesn't wait for the command's consent. */
static bool pass_signal(struct pin_session *session, int number, struct pin_error *err) {
    bool ends = ++session->interrupts > 1;
    if (session->interrupts > 2 && session->asked_ns != 0)
        return true; /* its end was asked for: once more would fill the socket, and then wait for room */
    json_t *request = pin_client_request(ends ? "end" : "signal");
    (void)json_object_set_new(request, "id", json_integer(SIGNAL_ID));
    (void)json_object_set_new(request, "exec", json_integer(session->exec));
    if (!ends)
        (void)json_object_set_new(request, "signal", json_integer(number));
    if (session->asked_ns == 0)
        session->asked_ns = pin_now_ns();
    return pin_client_send(&session->client, request, NULL, 0, err);
}

static bool pass_size(struct pin_session *session, struct pin_error *err) {
    if (!session->tty)
        return true;
    return pin_client_resize(&session->client, session->exec, err);
}

/* Until the command runs there is nobody to pass a signal to: the first waits, and a second one ends us, and
 * thereby the command. */
static bool take_signal(struct pin_session *session, struct pin_error *err) {
    struct signalfd_siginfo info;
    if (read(session->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return true;
    if (info.ssi_signo == SIGWINCH) {
        session->resized = session->exec == 0;
        return session->resized || pass_size(session, err);
    }
    if (is_deaf(session))
        return pin_client_is_unanswered(&session->client, err);
    if (session->exec != 0)
        return pass_signal(session, (int)info.ssi_signo, err);
    if (session->held != 0)
        return pin_fail(err, PIN_ERROR_SYSTEM, "ended by signal %u", info.ssi_signo);
    session->held = (int)info.ssi_signo;
    return true;
}

static bool on_started(struct pin_session *session, const json_t *message, struct pin_error *err) {
    session->exec = json_integer_value(json_object_get(message, "exec"));
    return (!session->resized || pass_size(session, err)) &&
           (session->held == 0 || pass_signal(session, session->held, err));
}

/* What they are about tells itself: that there is an answer is enough. */
static bool answers_signal(struct pin_session *session, const json_t *message, struct pin_error *err) {
    bool is_late = message == NULL && session->interrupts > 0 && err->kind == PIN_ERROR_NOT_FOUND;
    if (!is_late && json_integer_value(json_object_get(message, "id")) != SIGNAL_ID)
        return false;
    pin_error_clear(err);
    session->asked_ns = 0;
    return true;
}

json_t *pin_session_await(struct pin_session *session, struct pin_error *err) {
    struct pollfd ready[2] = {
        {.fd = session->client.socket, .events = POLLIN},
        {.fd = session->signals,       .events = POLLIN}
    };
    for (;;) {
        int found = poll(ready, 2, patience_ms(session));
        if (found < 0 && errno != EINTR)
            (void)pin_fail_errno(err, "wait for the sandbox");
        else if (found == 0 && patience_ms(session) == 0)
            (void)pin_client_is_unanswered(&session->client, err);
        if (pin_is_set(err))
            return NULL;
        if (found <= 0)
            continue;
        if (ready[1].revents != 0 && !take_signal(session, err))
            return NULL;
        if (ready[0].revents == 0)
            continue;
        json_t *message = pin_client_receive(&session->client, NULL, err);
        if (answers_signal(session, message, err)) {
            json_decref(message);
            continue;
        }
        if (message == NULL || json_object_get(message, "result") != NULL)
            return message;
        bool ok = json_object_get(message, "event") == NULL || on_started(session, message, err);
        if (ok && session->exec != 0 && session->detach)
            return message;
        json_decref(message);
        if (!ok)
            return NULL;
    }
}

bool pin_session_open(struct pin_session *session, const char *name, struct pin_error *err) {
    return pin_client_open(&session->client, name, err) &&
           pin_client_set_patience(&session->client, pin_client_answer_ns(&session->client), err) &&
           pin_session_take_signals(&session->signals, err);
}

void pin_session_close(struct pin_session *session) {
    pin_close_fd(&session->signals);
    pin_client_close(&session->client);
}
