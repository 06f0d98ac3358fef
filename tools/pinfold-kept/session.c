#include "tools/pinfold-kept/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "runtime/supervise/terminal.h"

static bool take_signals(struct pin_session *session, struct pin_error *err) {
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    sigset_t signals;
    (void)sigemptyset(&signals);
    for (size_t i = 0; i < PIN_COUNT(wanted); i++)
        (void)sigaddset(&signals, wanted[i]);
    if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0 ||
        (session->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return pin_fail_errno(err, "take signals");
    return true;
}

/* A second one doesn't wait for the command's consent. */
static bool pass_signal(struct pin_session *session, int number, struct pin_error *err) {
    bool ends = ++session->interrupts > 1;
    json_t *request = pin_client_request(ends ? "end" : "signal");
    (void)json_object_set_new(request, "id", json_integer(2));
    (void)json_object_set_new(request, "exec", json_integer(session->exec));
    if (!ends)
        (void)json_object_set_new(request, "signal", json_integer(number));
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

/* Replies to our signals are passed over: what they are about tells itself. */
json_t *pin_session_await(struct pin_session *session, struct pin_error *err) {
    struct pollfd ready[2] = {
        {.fd = session->client.socket, .events = POLLIN},
        {.fd = session->signals,       .events = POLLIN}
    };
    for (;;) {
        if (poll(ready, 2, -1) < 0 && errno != EINTR) {
            (void)pin_fail_errno(err, "wait for the sandbox");
            return NULL;
        }
        if (ready[1].revents != 0 && !take_signal(session, err))
            return NULL;
        if (ready[0].revents == 0)
            continue;
        json_t *message = pin_client_receive(&session->client, NULL, err);
        if (message == NULL && session->interrupts > 0 && err->kind == PIN_ERROR_NOT_FOUND) {
            pin_error_clear(err);
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
    return pin_client_open(&session->client, name, err) && take_signals(session, err);
}

void pin_session_close(struct pin_session *session) {
    pin_close_fd(&session->signals);
    pin_client_close(&session->client);
}
