/* The secrets of a call that was started ahead: opened by a program of the client's, which writes them into a
 * pipe. No process that outlives the call sees them: not the client, and not the runner of another call.
 * docs/tool.md "Configurations". */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/kept/call.h"
#include "runtime/secrets/mask.h"

void pin_call_free_secrets(struct call *call) {
    pin_source_remove(&call->opening);
    pin_close_fd(&call->sealed);
    pin_locked_free(&call->text);
    pin_secrets_free(&call->secrets);
    pin_mask_free(call->mask);
    call->mask = NULL;
}

/* Nothing has come of the call's output: its process waits for its request. */
static bool mask_output(struct call *call, struct pin_error *err) {
    call->mask = pin_mask_new(&call->secrets, err);
    if (call->mask == NULL)
        return false;
    for (int i = 0; i < CALL_STREAMS; i++)
        if (!pin_collector_mask(call->collectors[i], call->mask))
            return pin_fail_errno(err, "mask a call's output");
    return true;
}

/* Into a pipe that is empty, and has room for all of it. */
static bool hand_in(struct call *call, struct pin_error *err) {
    ssize_t written = write(call->request, call->text.bytes, call->text_size);
    pin_locked_free(&call->text);
    return written == (ssize_t)call->text_size ||
           pin_fail(err, PIN_ERROR_BUSY, "the request's pipe has no room for the call's secrets");
}

static void conclude(struct call *call) {
    struct pin_error err = {0};
    pin_source_remove(&call->opening);
    pin_close_fd(&call->sealed);
    if (pin_secrets_add_pairs(&call->secrets, (const char *)call->text.bytes, call->text_size,
                              call->sealed_count, &err) &&
        mask_output(call, &err) && hand_in(call, &err))
        pin_runner_begin(call->kept->runner);
    else
        pin_runner_decline(call->kept->runner, &err);
}

static void on_text(void *self, unsigned events) {
    struct call *call = self;
    (void)events;
    for (;;) {
        size_t room = call->text.size - call->text_size;
        ssize_t got = read(call->sealed, call->text.bytes + call->text_size, room);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) { /* the end; with a full buffer it is one that was cut, which no list of secrets is */
            conclude(call);
            return;
        }
        call->text_size += (size_t)got;
    }
}

bool pin_call_await_secrets(struct call *call, struct pin_error *err) {
    call->state = CALL_OPENING;
    if (!pin_locked_alloc(&call->text, PIN_KEPT_SEALED_MOST + 1, err))
        return false;
    if (fcntl(call->sealed, F_SETFL, O_NONBLOCK) != 0)
        return pin_fail_errno(err, "read a call's secrets");
    call->opening = pin_loop_watch(call->kept->loop, call->sealed, POLLIN, on_text, call, err);
    return call->opening != NULL;
}
