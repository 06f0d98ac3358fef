#include "runtime/egress/broker/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/egress/broker/conn.h"
#include "runtime/egress/broker/flows.h"
#include "runtime/egress/broker/inward.h"
#include "runtime/egress/broker/status.h"
#include "runtime/egress/start.h"

struct control {
    struct watch requests, life;
    struct broker *broker;
};

static size_t read_blob(int fd, uint8_t *to, size_t room) {
    size_t size = 0;
    for (ssize_t got; size < room && (got = pread(fd, to + size, room - size, (off_t)size)) > 0;)
        size += (size_t)got;
    return size;
}

/* The way out stays for as long as the sandbox lives, and so does what opens it: later rules don't bring it.
 */
static void keep_proxy(struct broker *broker, const struct pin_egress_setup *setup) {
    if (broker->has_rules)
        return;
    broker->has_rules = true;
    broker->proxy = setup->proxy;
    memcpy(broker->proxy_login, setup->proxy_login, strlen(setup->proxy_login) + 1);
}

static void set_names_rate(struct broker *broker, uint64_t per_second) {
    uint64_t rate = per_second == PIN_UNLIMITED ? 0 : per_second;
    if (rate != broker->new_names.per_second)
        broker->new_names = (struct pin_bucket){.per_second = rate, .burst = rate * 2};
}

bool control_load_rules(struct broker *broker, int fd, struct pin_error *err) {
    PIN_FREE uint8_t *blob = malloc(PIN_RULES_BLOB_MAX);
    if (blob == NULL)
        return pin_fail_errno(err, "read the egress rules");
    struct pin_arena arena = {.block = NULL};
    struct pin_egress_setup setup;
    size_t size = read_blob(fd, blob, PIN_RULES_BLOB_MAX);
    bool read = pin_rules_blob_read(blob, size, &arena, &setup, err);
    if (!read || !accounts_set(&broker->accounts, &setup)) {
        pin_arena_free(&arena);
        return pin_is_set(err) ? false : pin_fail(err, PIN_ERROR_EXHAUSTED, "too many budgets");
    }
    struct pin_arena old = broker->arena;
    broker->arena = arena;
    broker->rules = setup.rules;
    broker->unknown_names = setup.unknown_names;
    keep_proxy(broker, &setup);
    set_names_rate(broker, setup.limits.names_per_second);
    if (broker->inward != NULL) {
        inward_judge_again(broker);
    } else {
        conn_judge_again(broker); /* the last that could point into the old rules */
        flows_judge_again(broker);
    }
    pin_arena_free(&old);
    return true;
}

static int received_fd(struct msghdr *message) {
    int fd = -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    return fd;
}

static void replace_rules(struct broker *broker, int fd) {
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    struct pin_egress_event event = {.kind = PIN_EGRESS_EVENT_REPLACED, .rule = PIN_EGRESS_NO_RULE};
    report_turn(&broker->report, &event, now_ns()); /* what follows names rules of the new list */
    if (!control_load_rules(broker, fd, &err))
        broker->ended = true; /* rules that can't be read: nothing is allowed any more */
}

static void requests_ready(struct watch *watch, uint32_t events) {
    (void)events;
    struct control *control = container_of(watch, struct control, requests);
    _Alignas(struct cmsghdr) char ancillary[CMSG_SPACE(sizeof(int))];
    char request;
    struct iovec data = {&request, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = ancillary, .msg_controllen = sizeof(ancillary)};
    ssize_t size = recvmsg(watch->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    PIN_CLOSE int fd = size == 1 ? received_fd(&message) : -1;
    if (size == 1 && request == PIN_BROKER_STATUS && fd >= 0)
        status_write(control->broker, fd);
    else if (size == 1 && request == PIN_BROKER_REPLACE && fd >= 0)
        replace_rules(control->broker, fd);
    else if (size == 1 && request == PIN_BROKER_SETTLE && fd >= 0)
        report_settle(&control->broker->report, now_ns());
    else if (size == 1 && request == PIN_BROKER_END)
        control->broker->ended = true;
    else if (size == 1 && request == PIN_BROKER_CUT)
        control->broker->is_cut = true;
    else
        (void)poll_want(&control->broker->poll, watch, 0); /* its end stays readable */
    /* Of an engine only its command is gone; the sandbox lives. */
    if (watch->events == 0 && control->life.fd < 0)
        control->broker->ended = true;
}

static void life_ready(struct watch *watch, uint32_t events) {
    (void)events;
    struct broker *broker = container_of(watch, struct control, life)->broker;
    broker->ended = true;
    (void)poll_want(&broker->poll, watch, 0); /* it stays readable */
}

static struct control *control_new(struct broker *broker) {
    struct control *control = calloc(1, sizeof(*control)); /* lives as long as the process */
    if (control != NULL)
        *control = (struct control){
            .requests = {.fd = PIN_BROKER_CONTROL_FD, .ready = requests_ready},
            .life = {.fd = broker->life,          .ready = life_ready    },
            .broker = broker,
        };
    return control;
}

bool control_serve(struct broker *broker) {
    struct control *control = control_new(broker);
    return control != NULL && poll_want(&broker->poll, &control->requests, EPOLLIN) &&
           (control->life.fd < 0 || poll_want(&broker->poll, &control->life, EPOLLIN));
}
