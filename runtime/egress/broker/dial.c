#include "runtime/egress/broker/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/units.h"
#include "policy/egress_rule.h"

#define STAGGER_NS (250 * PIN_NS_PER_MS)
#define DEADLINE_NS (30 * PIN_NS_PER_S)

unsigned dial_sockaddr(struct sockaddr_storage *to, const uint8_t address[16], uint16_t port) {
    struct sockaddr_in *four = (struct sockaddr_in *)(void *)to;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)to;
    memset(to, 0, sizeof(*to));
    if (pin_address_is_ipv4(address)) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        memcpy(&four->sin_addr, address + 12, 4);
        return sizeof(*four);
    }
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    memcpy(&six->sin6_addr, address, 16);
    return sizeof(*six);
}

void dial_read_end(const struct sockaddr_storage *from, struct pin_ip_end *end) {
    const struct sockaddr_in *four = (const void *)from;
    const struct sockaddr_in6 *six = (const void *)from;
    uint16_t port; /* at the same place in both */
    memcpy(&port, (const char *)from + offsetof(struct sockaddr_in, sin_port), sizeof(port));
    end->port = ntohs(port);
    if (from->ss_family == AF_INET6) {
        memcpy(end->address, &six->sin6_addr, 16);
        return;
    }
    memset(end->address, 0, 10);
    memset(end->address + 10, 0xff, 2);
    memcpy(end->address + 12, &four->sin_addr, 4);
}

/* The source address that the kernel picks for one of its own addresses is that address. Nothing is sent, and
 * there is no list of addresses that could be out of date. */
static bool is_own(const uint8_t address[16]) {
    struct sockaddr_storage to, from;
    unsigned size = dial_sockaddr(&to, address, 9);
    socklen_t from_size = sizeof(from);
    PIN_CLOSE int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true; /* not known */
    if (connect(fd, (const struct sockaddr *)&to, size) != 0)
        return false; /* nowhere to go: dialling it fails in the same way */
    if (getsockname(fd, (struct sockaddr *)&from, &from_size) != 0)
        return true;
    const struct sockaddr_in *to4 = (const void *)&to, *from4 = (const void *)&from;
    const struct sockaddr_in6 *to6 = (const void *)&to, *from6 = (const void *)&from;
    return to.ss_family == AF_INET ? memcmp(&to4->sin_addr, &from4->sin_addr, 4) == 0
                                   : memcmp(&to6->sin6_addr, &from6->sin6_addr, 16) == 0;
}

/* Of a name whose address is known the address counts, too. */
static struct pin_verdict judge(const struct broker *broker, const struct pin_destination *to,
                                bool resolved) {
    return resolved && to->host != NULL ? pin_egress_judge_resolved(&broker->rules, to)
                                        : pin_egress_judge(&broker->rules, to);
}

/* Asks for whose the address is only where that matters. */
static struct pin_verdict judge_at(const struct broker *broker, struct pin_destination *to, bool resolved) {
    struct pin_verdict verdict = judge(broker, to, resolved);
    bool is_single = verdict.rule != NULL && verdict.rule->host == NULL && verdict.rule->prefix == 128;
    if (!verdict.allowed || is_single || to->is_own || (to->host != NULL && !resolved) ||
        pin_address_classify(to->address) == PIN_ADDRESS_LOOPBACK || !is_own(to->address))
        return verdict;
    to->is_own = true;
    return judge(broker, to, resolved);
}

struct pin_verdict dial_judge(const struct broker *broker, struct pin_destination *to) {
    return judge_at(broker, to, false);
}

struct pin_verdict dial_judge_open(const struct broker *broker, struct pin_destination *to, int fd) {
    to->is_own = dial_is_at_host(fd);
    return judge(broker, to, true);
}

size_t dial_screen(const struct broker *broker, const struct pin_destination *to, uint8_t (*answers)[16],
                   size_t count, uint8_t candidates[][16], struct pin_verdict *verdicts,
                   struct pin_verdict *refused) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct pin_destination one = *to;
        memcpy(one.address, answers[i], sizeof(one.address));
        struct pin_verdict verdict = judge_at(broker, &one, true);
        if (!verdict.allowed) {
            *refused = verdict;
            memcpy(candidates[kept], answers[i], sizeof(one.address)); /* for the record, if it is the last */
            continue;
        }
        memcpy(candidates[kept], answers[i], sizeof(one.address));
        verdicts[kept++] = verdict;
    }
    return kept;
}

static void unlink_dial(struct dial *dial) {
    if (dial->link == NULL)
        return;
    *dial->link = dial->following;
    if (dial->following != NULL)
        dial->following->link = dial->link;
    dial->link = NULL;
}

static void link_dial(struct broker *broker, struct dial *dial) {
    dial->following = broker->dials;
    dial->link = &broker->dials;
    if (dial->following != NULL)
        dial->following->link = &dial->following;
    broker->dials = dial;
}

void dial_cancel(struct dial *dial) {
    resolver_forget(&dial->question);
    for (size_t i = 0; i < DIAL_ATTEMPTS; i++)
        poll_close(&dial->attempts[i].watch);
    poll_close(&dial->talking);
    unlink_dial(dial);
}

static void finish(struct dial *dial, int fd, const struct pin_verdict *verdict, int os_errno) {
    dial_cancel(dial);
    dial->done(dial, fd, verdict, os_errno);
}

static bool is_trying(const struct dial *dial) {
    for (size_t i = 0; i < DIAL_ATTEMPTS; i++)
        if (dial->attempts[i].watch.fd >= 0)
            return true;
    return false;
}

static void try_next(struct dial *dial, uint64_t now);

/* --- through a proxy --- */

static void fail_proxied(struct dial *dial, int os_errno) {
    finish(dial, -1, &dial->verdict, os_errno);
}

/* False: not all is said, or the dial has ended. */
static bool say(struct dial *dial) {
    size_t left = dial->talk.send_size - dial->said;
    ssize_t sent = send(dial->talking.fd, dial->talk.send + dial->said, left, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        fail_proxied(dial, errno);
        return false;
    }
    dial->said += sent > 0 ? (size_t)sent : 0;
    bool done = dial->said == dial->talk.send_size;
    if (poll_want(&dial->broker->poll, &dial->talking, done ? EPOLLIN : EPOLLOUT))
        return done;
    fail_proxied(dial, ENOMEM);
    return false;
}

static void hand_over(struct dial *dial) {
    int fd = dial->talking.fd;
    (void)poll_want(&dial->broker->poll, &dial->talking, 0);
    dial->talking.fd = -1; /* the receiver's */
    finish(dial, fd, &dial->verdict, 0);
}

static void go_on(struct dial *dial, enum pin_proxy_step step) {
    switch (step) {
    case PIN_PROXY_NO: fail_proxied(dial, dial->talk.os_errno); return;
    case PIN_PROXY_DONE: hand_over(dial); return;
    case PIN_PROXY_MORE: break;
    }
    dial->said = 0;
    if (dial->talk.send_size > 0)
        (void)say(dial);
}

/* Looks before it takes: what follows the proxy's answer is the other end's, for the program. */
static void talk_ready(struct watch *watch, uint32_t events) {
    struct dial *dial = container_of(watch, struct dial, talking);
    uint8_t data[2048];
    size_t used;
    (void)events;
    if (dial->said < dial->talk.send_size && !say(dial))
        return;
    ssize_t size = recv(watch->fd, data, sizeof(data), MSG_PEEK | MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN)
        return;
    if (size <= 0) {
        fail_proxied(dial, size == 0 ? ECONNRESET : errno);
        return;
    }
    enum pin_proxy_step step = pin_proxy_read(&dial->talk, data, (size_t)size, &used);
    pin_ignore(recv(watch->fd, data, used, MSG_DONTWAIT)); /* it is there */
    go_on(dial, step);
}

/* The attempt that won becomes the talk; the others end. */
static void talk_begin(struct dial *dial, struct watch *won) {
    struct broker *broker = dial->broker;
    (void)poll_want(&broker->poll, won, 0);
    dial->talking = (struct watch){.fd = won->fd, .ready = talk_ready};
    won->fd = -1;
    for (size_t i = 0; i < DIAL_ATTEMPTS; i++)
        poll_close(&dial->attempts[i].watch);
    dial->next = dial->count;
    dial->said = 0;
    if (!pin_proxy_begin(&dial->talk, &broker->proxy, broker->proxy_login, &dial->to))
        fail_proxied(dial, EINVAL);
    else
        (void)say(dial);
}

bool dial_is_at_host(int fd) {
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC}, peer = {.ss_family = AF_UNSPEC};
    socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
    struct pin_ip_end here, there;
    if (getsockname(fd, (struct sockaddr *)&own, &own_size) != 0 ||
        getpeername(fd, (struct sockaddr *)&peer, &peer_size) != 0 || own.ss_family != peer.ss_family ||
        (own.ss_family != AF_INET && own.ss_family != AF_INET6))
        return false;
    dial_read_end(&own, &here);
    dial_read_end(&peer, &there);
    return memcmp(here.address, there.address, sizeof(here.address)) == 0;
}

/* 0: connected; ENOTCONN: not (yet). */
static int look_at_peer(int fd) {
    struct sockaddr_storage own, peer;
    socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
    memset(&own, 0, sizeof(own));
    memset(&peer, 0, sizeof(peer));
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_size) != 0)
        return ENOTCONN;
    bool same = getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 && own_size == peer_size &&
                memcmp(&own, &peer, own_size) == 0;
    return same ? ECONNREFUSED : 0;
}

int dial_outcome(int fd) {
    int code = 0;
    socklen_t size = sizeof(code);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0)
        return errno;
    return code == 0 && look_at_peer(fd) == ECONNREFUSED ? ECONNREFUSED : code;
}

static void settle(struct attempt *attempt, int code) {
    struct watch *watch = &attempt->watch;
    struct dial *dial = attempt->dial;
    if (code != 0) {
        poll_close(watch);
        dial->os_errno = code;
        try_next(dial, now_ns());
        return;
    }
    if (dial->is_proxied) {
        talk_begin(dial, watch);
        return;
    }
    memcpy(dial->to.address, attempt->address, sizeof(attempt->address));
    int fd = watch->fd;
    (void)poll_want(&dial->broker->poll, watch, 0);
    watch->fd = -1; /* the receiver's */
    struct pin_verdict verdict = dial->verdict;
    for (size_t i = 0; i < dial->count; i++)
        if (memcmp(dial->candidates[i], attempt->address, sizeof(attempt->address)) == 0)
            verdict = dial->verdicts[i];
    finish(dial, fd, &verdict, 0);
}

static void attempt_ready(struct watch *watch, uint32_t events) {
    (void)events;
    settle(container_of(watch, struct attempt, watch), dial_outcome(watch->fd));
}

/* False: this address can't even be tried. */
static bool attempt_start(struct dial *dial, struct attempt *attempt, const uint8_t address[16]) {
    struct sockaddr_storage to;
    uint16_t port = dial->is_proxied ? dial->broker->proxy.port : dial->to.port;
    unsigned size = dial_sockaddr(&to, address, port);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        dial->os_errno = errno;
        return false;
    }
    *attempt = (struct attempt){
        .watch = {.fd = fd, .ready = attempt_ready, .labours = LABOURS_ALWAYS},
          .dial = dial
    };
    memcpy(attempt->address, address, sizeof(attempt->address));
    bool started = connect(fd, (const struct sockaddr *)&to, size) == 0 || errno == EINPROGRESS;
    if (started) /* not before: what is near is on its way already; a delay more, if it fails */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    /* What is near has answered before connect(2) has returned. */
    int code = started ? look_at_peer(fd) : ENOTCONN;
    if (code != ENOTCONN) {
        settle(attempt, code);
        return true;
    }
    started = started && poll_want(&dial->broker->poll, &attempt->watch, EPOLLOUT);
    if (!started) {
        dial->os_errno = errno;
        poll_close(&attempt->watch);
    }
    return started;
}

static void try_next(struct dial *dial, uint64_t now) {
    for (size_t i = 0; i < DIAL_ATTEMPTS && dial->next < dial->count; i++) {
        if (dial->attempts[i].watch.fd >= 0)
            continue;
        dial->next_at_ns = now + STAGGER_NS;
        if (attempt_start(dial, &dial->attempts[i], dial->candidates[dial->next++]))
            return; /* it may be over already */
    }
    dial->next_at_ns = dial->deadline_ns; /* every place is taken, or nobody waits for one */
    if (!is_trying(dial))
        finish(dial, -1, &dial->verdict, dial->os_errno != 0 ? dial->os_errno : EHOSTUNREACH);
}

static void resolved(struct question *question, uint8_t (*addresses)[16], size_t count, int os_errno) {
    struct dial *dial = container_of(question, struct dial, question);
    if (count == 0) {
        struct pin_verdict none = {.reason = PIN_EGRESS_NOT_RESOLVED, .rule = dial->verdict.rule};
        finish(dial, -1, &none, os_errno);
        return;
    }
    if (dial->is_proxied) { /* the operator's own word: not screened */
        memcpy(dial->candidates, addresses, count * sizeof(*dial->candidates));
        dial->count = count;
        try_next(dial, now_ns());
        return;
    }
    struct pin_verdict refused = dial->verdict;
    dial->count =
        dial_screen(dial->broker, &dial->to, addresses, count, dial->candidates, dial->verdicts, &refused);
    if (dial->count == 0) {
        memcpy(dial->to.address, dial->candidates[0], sizeof(dial->to.address));
        finish(dial, -1, &refused, 0);
        return;
    }
    try_next(dial, now_ns());
}

bool dial_is_proxied(const struct broker *broker, const struct pin_destination *to) {
    return broker->proxy.kind != PIN_PROXY_NONE && to->protocol == PIN_PROTOCOL_TCP &&
           (to->host == NULL || strcmp(to->host, PIN_HOST_INTERNAL) != 0);
}

void dial_start(struct broker *broker, struct dial *dial) {
    dial->broker = broker;
    dial->question = (struct question){.answered = resolved};
    dial->deadline_ns = now_ns() + DEADLINE_NS;
    for (size_t i = 0; i < DIAL_ATTEMPTS; i++)
        dial->attempts[i].watch = (struct watch){.fd = -1};
    dial->talking = (struct watch){.fd = -1};
    dial->is_proxied = dial_is_proxied(broker, &dial->to);
    link_dial(broker, dial);
    const char *host = dial->is_proxied ? broker->proxy.host : dial->to.host;
    uint8_t own[1][16];
    memcpy(own[0], dial->is_proxied ? broker->proxy.address : dial->to.address, sizeof(own[0]));
    if (host != NULL && *host != '\0')
        resolver_ask(broker->resolver, host, &dial->question);
    else
        resolved(&dial->question, own, 1, 0);
}

void dial_tick(struct broker *broker, uint64_t now) {
    for (struct dial *dial = broker->dials, *following; dial != NULL; dial = following) {
        following = dial->following;
        if (now >= dial->deadline_ns)
            finish(dial, -1, &dial->verdict, ETIMEDOUT);
        else if (dial->next > 0 && dial->next < dial->count && now >= dial->next_at_ns)
            try_next(dial, now);
    }
}

int dial_timeout(const struct broker *broker, uint64_t now, int limit) {
    for (const struct dial *dial = broker->dials; dial != NULL; dial = dial->following) {
        uint64_t at = dial->next > 0 && dial->next < dial->count ? dial->next_at_ns : dial->deadline_ns;
        int ms = at <= now ? 0 : (int)((at - now) / PIN_NS_PER_MS) + 1;
        if (limit < 0 || ms < limit)
            limit = ms;
    }
    return limit;
}
