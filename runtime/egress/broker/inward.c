#include "runtime/egress/broker/inward.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/nsfs.h>
#include <linux/sockios.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/egress/broker/conn.h"
#include "runtime/egress/broker/walls.h"

#define ACCEPT_ROUND 32
/* A server that is there answers at once; else its backlog is full. */
#define DIAL_NS (5 * PIN_NS_PER_S)

struct inward {
    struct watch watch;
    struct broker *broker;
};

/* --- joining --- */

/* The permitted set outlives the change of ids; what isn't needed for the two calls below goes now. */
static bool keep_power_to_join(struct pin_error *err) {
    static const cap_value_t needed[] = {CAP_SYS_ADMIN};
    cap_t set = cap_init();
    bool kept = set != NULL && cap_set_flag(set, CAP_PERMITTED, 1, needed, CAP_SET) == 0 &&
                cap_set_flag(set, CAP_EFFECTIVE, 1, needed, CAP_SET) == 0 && cap_set_proc(set) == 0;
    if (set != NULL)
        (void)cap_free(set);
    return kept || pin_fail_errno(err, "keep what joining the sandbox's network takes");
}

/* Root's id is left first: in the sandbox's user namespace nobody of the host's has a number to become. */
static bool leave_root_but_for_joining(struct pin_error *err) {
    if (geteuid() != 0)
        return true; /* whose user namespace it is has all power over it */
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0)
        return pin_fail_errno(err, "keep capabilities");
    return walls_leave_root(err) && keep_power_to_join(err);
}

bool inward_join(int door, struct pin_error *err) {
    PIN_CLOSE int network = ioctl(door, SIOCGSKNS);
    PIN_CLOSE int user = network < 0 ? -1 : ioctl(network, NS_GET_USERNS);
    if (user < 0)
        return pin_fail_errno(err, "find the sandbox's network");
    if (!leave_root_but_for_joining(err))
        return false;
    if (setns(user, CLONE_NEWUSER) != 0 || setns(network, CLONE_NEWNET) != 0)
        return pin_fail_errno(err, "join the sandbox's network");
    (void)close(door);
    return true;
}

/* --- dialling --- */

#define MAPPED 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff
static const uint8_t loopbacks[2][16] = {
    {MAPPED, 127, 0, 0, 1},
    [1][15] = 1
};

static void dialled(struct watch *watch, uint32_t events);

/* False: nothing is dialled; errno. */
static bool dial_loopback(struct conn *conn, const uint8_t address[16]) {
    struct sockaddr_storage to;
    socklen_t size = dial_sockaddr(&to, address, conn->to.port);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* a delay more, if it fails */
    conn->inner.watch = (struct watch){.fd = fd, .ready = dialled};
    if ((connect(fd, (const struct sockaddr *)&to, size) == 0 || errno == EINPROGRESS) &&
        poll_want(&conn->broker->poll, &conn->inner.watch, EPOLLOUT)) {
        memcpy(conn->to.address, address, sizeof(conn->to.address));
        return true;
    }
    int cause = errno;
    poll_close(&conn->inner.watch);
    errno = cause;
    return false;
}

static void dial_from(struct conn *conn, size_t first) {
    int cause = ECONNREFUSED;
    for (size_t i = first; i < PIN_COUNT(loopbacks); i++) {
        if (dial_loopback(conn, loopbacks[i]))
            return;
        if (i == 0 || errno != EAFNOSUPPORT)
            cause = errno;
    }
    conn_fail(conn, cause);
}

static void dialled(struct watch *watch, uint32_t events) {
    struct conn *conn = container_of(watch, struct side, watch)->conn;
    int cause = dial_outcome(watch->fd);
    (void)events;
    if (cause == 0) {
        conn_open(conn);
        return;
    }
    bool first = memcmp(conn->to.address, loopbacks[0], sizeof(loopbacks[0])) == 0;
    poll_close(watch);
    if (first && cause == ECONNREFUSED)
        dial_from(conn, 1); /* a server may listen on the one loopback and not on the other */
    else
        conn_fail(conn, cause);
}

/* --- accepting --- */

static void admit(struct broker *broker, size_t listener, int fd) {
    const struct pin_egress_rule *rule = &broker->rules.allow[listener];
    struct pin_destination to = {.protocol = PIN_PROTOCOL_TCP};
    memcpy(to.address, rule->address, sizeof(to.address));
    to.port = rule->ports[0].first;
    struct pin_verdict verdict = {.allowed = true, .rule = rule};
    struct payers payers = accounts_of(&broker->accounts, rule);
    if (!payers_admit(&payers)) {
        verdict = (struct pin_verdict){.reason = PIN_EGRESS_BUDGET, .rule = rule};
        payers_refuse(&payers);
        broker_refuse(broker, &to, &verdict);
        conn_refuse_socket(fd);
        return;
    }
    struct conn *conn = conn_make(broker, &to, &verdict);
    if (conn == NULL) {
        conn_refuse_socket(fd);
        return;
    }
    conn->listener = listener;
    conn->outer.watch.fd = fd;
    conn->dial_until_ns = conn->started_ns + DIAL_NS;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* no TCP: it is a UNIX socket */
    dial_from(conn, 0);
}

static void accept_some(struct watch *watch, uint32_t events) {
    struct inward *inward = container_of(watch, struct inward, watch);
    struct broker *broker = inward->broker;
    (void)events;
    for (int i = 0; i < ACCEPT_ROUND; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
            broker->accept_paused = true;
            (void)poll_want(&broker->poll, watch, 0);
            return;
        }
        if (fd < 0)
            return;
        admit(broker, (size_t)(inward - broker->inward), fd);
    }
}

bool inward_serve(struct broker *broker) {
    size_t count = 0;
    while (count < PIN_PUBLISH_MAX && broker->listeners[count] >= 0)
        count++;
    broker->inward = calloc(PIN_PUBLISH_MAX, sizeof(*broker->inward)); /* lives as long as the process */
    if (broker->inward == NULL || count != broker->rules.allow_count)
        return false;
    for (size_t i = 0; i < PIN_PUBLISH_MAX; i++)
        broker->inward[i].watch.fd = -1;
    for (size_t i = 0; i < count; i++) {
        if (broker->rules.allow[i].port_count == 0)
            return false;
        broker->inward[i] = (struct inward){
            .watch = {.fd = broker->listeners[i], .ready = accept_some},
              .broker = broker
        };
        if (!poll_want(&broker->poll, &broker->inward[i].watch, EPOLLIN))
            return false;
    }
    return true;
}

/* One that is published no longer has no address: start.h. */
static bool is_published(const struct broker *broker, size_t number) {
    return number < broker->rules.allow_count &&
           memcmp(broker->rules.allow[number].address, loopbacks[0], sizeof(loopbacks[0])) == 0;
}

void inward_judge_again(struct broker *broker) {
    for (size_t i = 0; i < PIN_PUBLISH_MAX; i++)
        if (!is_published(broker, i))
            poll_close(&broker->inward[i].watch);
    for (struct conn *conn = broker->conns, *following; conn != NULL; conn = following) {
        following = conn->following;
        bool stays = is_published(broker, conn->listener);
        conn_move(conn, conn->listener < broker->rules.allow_count ? &broker->rules.allow[conn->listener]
                                                                   : NULL); /* the old one goes now */
        if (!stays)
            conn_refuse(conn, PIN_EGRESS_NOT_LISTED);
    }
}

void inward_resume(struct broker *broker) {
    for (size_t i = 0; broker->inward != NULL && i < broker->rules.allow_count; i++)
        if (broker->inward[i].watch.fd >= 0)
            (void)poll_want(&broker->poll, &broker->inward[i].watch,
                            EPOLLIN); /* fails as before: tried again */
}
