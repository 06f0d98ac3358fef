#include "runtime/egress/broker/flows.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/in6.h>

#include "base/units.h"
#include "policy/egress_rule.h"
#include "runtime/egress/broker/dial.h"
#include "runtime/egress/broker/status.h"
#include "runtime/egress/udp_packet.h"

#define FLOWS_MAX 256
#define ROUND 32
#define WAITING_MAX (64u * 1024) /* of a flow whose name is being resolved; each with its size before it */
#define IDLE_NS (30 * PIN_NS_PER_S)

struct flow {
    struct grave grave;
    struct broker *broker;
    struct flow *following, **link;
    struct flow_ends ends;
    struct watch watch; /* the connected socket; -1: not yet */
    struct question question;
    struct pin_destination to;
    struct pin_verdict verdict;
    struct payers payers;
    uint8_t *waiting; /* the first datagrams, until there is a socket */
    size_t waiting_size;
    uint64_t id, bytes_out, bytes_in, started_ns, active_ns;
    bool is_open;
};

struct flows {
    struct watch watch;
    struct broker *broker;
    struct raw raw;
    struct flow *first;
    size_t count;
};

static void report(const struct flow *flow, enum pin_egress_event_kind kind, enum pin_egress_reason reason,
                   int os_errno) {
    struct pin_verdict verdict = {.reason = reason, .rule = flow->verdict.rule};
    struct pin_egress_event event = broker_event(flow->broker, kind, &flow->to, &verdict);
    uint64_t now = now_ns();
    event.os_errno = os_errno;
    event.id = flow->id;
    event.bytes_out = flow->bytes_out;
    event.bytes_in = flow->bytes_in;
    event.duration_ns = now - flow->started_ns;
    report_event(&flow->broker->report, &event, now);
}

static void release(struct grave *grave) {
    struct flow *flow = container_of(grave, struct flow, grave);
    free(flow->waiting);
    free(flow);
}

static void close_flow(struct flow *flow) {
    if (flow->link == NULL)
        return;
    *flow->link = flow->following;
    if (flow->following != NULL)
        flow->following->link = flow->link;
    flow->link = NULL;
    flow->broker->flows->count--;
    payers_leave(&flow->payers);
    resolver_forget(&flow->question);
    poll_close(&flow->watch);
    if (flow->is_open)
        report(flow, PIN_EGRESS_EVENT_CLOSE, PIN_EGRESS_ALLOWED, 0);
    poll_bury(&flow->broker->poll, &flow->grave, release);
}

static void send_out(struct flow *flow, const uint8_t *data, size_t size) {
    flow->active_ns = now_ns();
    if (payers_level(&flow->payers, flow->active_ns) < size ||
        send(flow->watch.fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size)
        return; /* lost, as a datagram may be */
    flow->bytes_out += size;
    flow->broker->report.passed_out += size;
    payers_count(&flow->payers, size, 0, flow->active_ns);
}

static void read_ip_ends(const struct flow_ends *ends, struct pin_ip_end *client,
                         struct pin_ip_end *dialled) {
    client->port = ends->client_port;
    dialled->port = ends->dialled_port;
    memcpy(client->address, ends->client, sizeof(client->address));
    memcpy(dialled->address, ends->dialled, sizeof(dialled->address));
}

/* A connected socket of the program's hears of it: nobody waits for an answer that can't come. */
static void tell_sender(const struct flows *flows, const struct flow_ends *ends, size_t size,
                        bool forbidden) {
    uint8_t packet[PIN_IP_ERROR_MAX];
    struct pin_ip_end client, dialled;
    read_ip_ends(ends, &client, &dialled);
    raw_send(flows->raw, &client, packet, pin_udp_packet_refusal(&client, &dialled, size, forbidden, packet));
}

/* As if the destination itself had sent it. */
static void send_back(struct flow *flow, uint8_t *data, size_t size) {
    struct pin_ip_end from, to;
    read_ip_ends(&flow->ends, &to, &from);
    if (payers_level(&flow->payers, flow->active_ns) < size || size > pin_udp_packet_most(&to))
        return; /* over the rate; or of the other family, and too large for this one */
    size_t head = pin_udp_packet_head(&from, &to, data, size);
    raw_send(flow->broker->flows->raw, &to, data - head, head + size);
    flow->bytes_in += size;
    flow->broker->report.passed_in += size;
    payers_count(&flow->payers, 0, size, flow->active_ns);
}

/* The end of one that isn't allowed to go on, or not to begin; `size` is of the datagram that it was about.
 */
static void refuse_flow(struct flow *flow, enum pin_egress_reason reason, size_t size) {
    payers_refuse(&flow->payers);
    report(flow, PIN_EGRESS_EVENT_REFUSE, reason, 0);
    tell_sender(flow->broker->flows, &flow->ends, size, true);
    close_flow(flow);
}

/* The end of one that there is no way for. */
static void fail_flow(struct flow *flow, enum pin_egress_reason reason, int os_errno) {
    report(flow, PIN_EGRESS_EVENT_FAIL, reason, os_errno);
    tell_sender(flow->broker->flows, &flow->ends, 0, true);
    close_flow(flow);
}

/* False: it may not go, and that was the end of the flow. */
static bool is_within(struct flow *flow, size_t size, bool out) {
    if (size <= payers_left(&flow->payers, out))
        return true;
    refuse_flow(flow, PIN_EGRESS_BUDGET, size);
    return false;
}

static void flow_ready(struct watch *watch, uint32_t events) {
    (void)events;
    struct flow *flow = container_of(watch, struct flow, watch);
    uint8_t *data = flow->broker->buffer + PIN_UDP_HEADERS_MAX;
    for (int i = 0; i < ROUND; i++) {
        ssize_t size = recv(watch->fd, data, PIN_UDP_DATA_MAX, MSG_DONTWAIT);
        if (size < 0 && errno == EAGAIN)
            return;
        if (size < 0) { /* nobody is there: a new datagram would make a new flow */
            if (errno == ECONNREFUSED)
                tell_sender(flow->broker->flows, &flow->ends, 0, false);
            close_flow(flow);
            return;
        }
        flow->active_ns = now_ns();
        if (!is_within(flow, (size_t)size, false))
            return;
        send_back(flow, data, (size_t)size);
    }
}

/* The first address that can be connected to; the checked one is the dialled one. */
static bool connect_flow(struct flow *flow, uint8_t candidates[][16], const struct pin_verdict *verdicts,
                         size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct sockaddr_storage to;
        unsigned size = dial_sockaddr(&to, candidates[i], flow->to.port);
        int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        flow->watch.fd = fd;
        if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, size) == 0 &&
            poll_want(&flow->broker->poll, &flow->watch, EPOLLIN)) {
            memcpy(flow->to.address, candidates[i], sizeof(flow->to.address));
            flow->verdict = verdicts[i];
            return true;
        }
        int cause = errno;
        poll_close(&flow->watch);
        errno = cause;
    }
    return false;
}

/* False: no memory, or no room. */
static bool keep_waiting(struct flow *flow, const uint8_t *data, size_t size) {
    uint32_t length = (uint32_t)size;
    size_t whole = flow->waiting_size + sizeof(length) + size;
    uint8_t *grown = whole <= WAITING_MAX || flow->waiting_size == 0 ? realloc(flow->waiting, whole) : NULL;
    if (grown == NULL)
        return false;
    memcpy(grown + flow->waiting_size, &length, sizeof(length));
    memcpy(grown + flow->waiting_size + sizeof(length), data, size);
    flow->waiting = grown;
    flow->waiting_size = whole;
    return true;
}

static void send_waiting(struct flow *flow) {
    for (size_t at = 0; at < flow->waiting_size;) {
        uint32_t length;
        memcpy(&length, flow->waiting + at, sizeof(length));
        if (!is_within(flow, length, true))
            return;
        send_out(flow, flow->waiting + at + sizeof(length), length);
        at += sizeof(length) + length;
    }
    free(flow->waiting);
    flow->waiting = NULL;
    flow->waiting_size = 0;
}

static void resolved(struct question *question, uint8_t (*addresses)[16], size_t count, int os_errno) {
    struct flow *flow = container_of(question, struct flow, question);
    uint8_t candidates[RESOLVER_ADDRESSES_MAX][16];
    struct pin_verdict verdicts[RESOLVER_ADDRESSES_MAX], refused = {.reason = PIN_EGRESS_NOT_RESOLVED};
    if (count == 0) {
        fail_flow(flow, PIN_EGRESS_NOT_RESOLVED, os_errno);
        return;
    }
    size_t kept = dial_screen(flow->broker, &flow->to, addresses, count, candidates, verdicts, &refused);
    if (kept == 0) {
        memcpy(flow->to.address, candidates[0], sizeof(flow->to.address));
        refuse_flow(flow, refused.reason, 0);
        return;
    }
    if (!connect_flow(flow, candidates, verdicts, kept)) {
        fail_flow(flow, PIN_EGRESS_ALLOWED, errno);
        return;
    }
    flow->is_open = true;
    report(flow, PIN_EGRESS_EVENT_CONNECT, PIN_EGRESS_ALLOWED, 0);
    send_waiting(flow);
}

static bool read_destination(const struct broker *broker, const struct flow_ends *ends,
                             struct pin_destination *to) {
    struct sockaddr_storage dialled;
    (void)dial_sockaddr(&dialled, ends->dialled, ends->dialled_port);
    *to = (struct pin_destination){.protocol = PIN_PROTOCOL_UDP};
    return broker_destination(broker, &dialled, to);
}

bool flows_are_allowed(const struct broker *broker, const struct flow_ends *ends) {
    struct pin_destination to;
    return read_destination(broker, ends, &to) && dial_judge(broker, &to).allowed;
}

static struct flow *new_flow(struct broker *broker, const struct flow_ends *ends,
                             const struct pin_destination *to, const struct pin_verdict *verdict,
                             const uint8_t *data, size_t size) {
    struct flows *flows = broker->flows;
    struct flow *flow = calloc(1, sizeof(*flow));
    if (flow == NULL)
        return NULL;
    *flow = (struct flow){
        .broker = broker,
        .ends = *ends,
        .watch = {.fd = -1, .ready = flow_ready},
        .question = {.answered = resolved       },
        .to = *to,
        .verdict = *verdict,
        .payers = accounts_of(&broker->accounts, verdict->rule),
        .id = ++broker->next_id,
        .started_ns = now_ns()
    };
    if (!keep_waiting(flow, data, size)) {
        free(flow);
        return NULL;
    }
    flow->active_ns = flow->started_ns;
    flow->following = flows->first;
    flow->link = &flows->first;
    if (flow->following != NULL)
        flow->following->link = &flow->following;
    flows->first = flow;
    flows->count++;
    payers_enter(&flow->payers);
    return flow;
}

static void begin_flow(struct broker *broker, const struct flow_ends *ends, const uint8_t *data,
                       size_t size) {
    struct pin_destination to;
    struct pin_verdict verdict = {.reason = PIN_EGRESS_NOT_LISTED};
    if (read_destination(broker, ends, &to))
        verdict = dial_judge(broker, &to);
    if (verdict.allowed &&
        broker->proxy.kind != PIN_PROXY_NONE) /* no datagram goes through it, and none past it */
        verdict = (struct pin_verdict){.reason = PIN_EGRESS_PROTOCOL, .rule = verdict.rule};
    struct payers payers = accounts_of(&broker->accounts, verdict.rule);
    bool within = broker->flows->count < FLOWS_MAX && payers_admit(&payers);
    if (verdict.allowed && !within)
        verdict = (struct pin_verdict){.reason = PIN_EGRESS_BUDGET, .rule = verdict.rule};
    struct flow *flow = verdict.allowed ? new_flow(broker, ends, &to, &verdict, data, size) : NULL;
    if (flow == NULL) {
        payers_refuse(&payers);
        broker_refuse(broker, &to, &verdict);
        tell_sender(broker->flows, ends, size, true);
        return;
    }
    uint8_t own[1][16];
    memcpy(own[0], to.address, sizeof(own[0]));
    if (to.host != NULL)
        resolver_ask(broker->resolver, to.host, &flow->question);
    else
        resolved(&flow->question, own, 1, 0);
}

/* A loop of refused datagrams, or of new flows, is effort. */
static void begin_metered(struct broker *broker, const struct flow_ends *ends, const uint8_t *data,
                          size_t size) {
    uint64_t begun = effort_clock();
    begin_flow(broker, ends, data, size);
    effort_spend(&broker->poll.effort, effort_clock() - begun, now_ns());
}

bool flows_take(struct broker *broker, const struct flow_ends *ends, const uint8_t *data, size_t size) {
    struct flow *flow = broker->flows->first;
    while (flow != NULL && memcmp(&flow->ends, ends, sizeof(*ends)) != 0)
        flow = flow->following;
    if (flow == NULL)
        begin_metered(broker, ends, data, size);
    else if (!flow->is_open)
        (void)keep_waiting(flow, data, size); /* lost where there is no room, as a datagram may be */
    else if (is_within(flow, size, true))
        send_out(flow, data, size);
    return true;
}

bool flows_read_client(const struct sockaddr_storage *from, struct flow_ends *ends) {
    const struct sockaddr_in *four = (const void *)from;
    const struct sockaddr_in6 *six = (const void *)from;
    ends->client_port = ntohs(four->sin_port); /* at the same place in both */
    if (from->ss_family == AF_INET6) {
        memcpy(ends->client, &six->sin6_addr, 16);
        return true;
    }
    memset(ends->client, 0, 10);
    memset(ends->client + 10, 0xff, 2);
    memcpy(ends->client + 12, &four->sin_addr, 4);
    return from->ss_family == AF_INET;
}

static bool read_ends(struct msghdr *message, struct flow_ends *ends) {
    struct flow_ends dialled = {.client_port = 0};
    struct sockaddr_storage place;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        bool four = header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_ORIGDSTADDR;
        bool six = header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_ORIGDSTADDR;
        if (!four && !six)
            continue;
        memset(&place, 0, sizeof(place));
        memcpy(&place, CMSG_DATA(header), four ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        place.ss_family = four ? AF_INET : AF_INET6;
        if (!flows_read_client(&place, &dialled) || !flows_read_client(message->msg_name, ends))
            return false;
        memcpy(ends->dialled, dialled.client, sizeof(ends->dialled));
        ends->dialled_port = dialled.client_port;
        return true;
    }
    return false;
}

static void udp_ready(struct watch *watch, uint32_t events) {
    (void)events;
    struct flows *flows = container_of(watch, struct flows, watch);
    struct broker *broker = flows->broker;
    for (int i = 0; i < ROUND; i++) {
        struct sockaddr_storage from;
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct sockaddr_in6)) * 2];
        struct flow_ends ends = {.client_port = 0};
        struct iovec data = {broker->buffer, PIN_UDP_DATA_MAX};
        struct msghdr message = {.msg_name = &from,
                                 .msg_namelen = sizeof(from),
                                 .msg_iov = &data,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof(control)};
        ssize_t size = recvmsg(watch->fd, &message, MSG_DONTWAIT);
        if (size < 0)
            return;
        if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 && read_ends(&message, &ends))
            (void)flows_take(broker, &ends, broker->buffer, (size_t)size);
    }
}

bool flows_serve(struct broker *broker, int udp, struct raw raw) {
    if (udp < 0)
        return true;
    struct flows *flows = calloc(1, sizeof(*flows)); /* lives as long as the process */
    if (flows == NULL)
        return false;
    *flows = (struct flows){
        .watch = {.fd = udp, .ready = udp_ready, .inlet = true}, /* moving bytes, but for begin_flow() */
        .broker = broker,
        .raw = raw
    };
    broker->flows = flows;
    return poll_want(&broker->poll, &flows->watch, EPOLLIN);
}

bool flows_are_open(const struct broker *broker) {
    return broker->flows != NULL && broker->flows->first != NULL;
}

bool flows_are_waiting(const struct broker *broker) {
    const struct flow *flow = broker->flows != NULL ? broker->flows->first : NULL;
    while (flow != NULL && flow->is_open)
        flow = flow->following;
    return flow != NULL;
}

void flows_end_all(struct broker *broker) {
    while (flows_are_open(broker))
        close_flow(broker->flows->first);
}

void flows_tick(struct broker *broker, uint64_t now) {
    struct flow *flow = broker->flows != NULL ? broker->flows->first : NULL;
    for (struct flow *following; flow != NULL; flow = following) {
        following = flow->following;
        uint64_t idle_ns = elapsed_ns(now, flow->active_ns);
        if (payers_are_late(&flow->payers, 0, elapsed_ns(now, flow->started_ns)))
            refuse_flow(flow, PIN_EGRESS_BUDGET, 0);
        else if (idle_ns > IDLE_NS || payers_are_late(&flow->payers, idle_ns, 0))
            close_flow(flow); /* whoever goes on has another; a connection would be missed */
    }
}

void flows_judge_again(struct broker *broker) {
    struct flow *flow = broker->flows != NULL ? broker->flows->first : NULL;
    for (struct flow *following; flow != NULL; flow = following) {
        following = flow->following;
        flow->verdict = flow->is_open ? dial_judge_open(broker, &flow->to, flow->watch.fd)
                                      : dial_judge(broker, &flow->to);
        if (!flow->verdict.allowed) {
            refuse_flow(flow, flow->verdict.reason, 0);
            continue;
        }
        payers_move(&flow->payers, accounts_of(&flow->broker->accounts, flow->verdict.rule));
        if (!flow->is_open)
            close_flow(flow); /* one under way is made anew by the next datagram, by the new rules */
    }
}

size_t flows_show(const struct broker *broker, int stream, size_t most) {
    size_t shown = 0;
    const struct flow *flow = broker->flows != NULL ? broker->flows->first : NULL;
    for (; flow != NULL && shown < most; flow = flow->following, shown++) {
        struct opened opened = {&flow->to,       &flow->payers,  flow->id,
                                flow->bytes_out, flow->bytes_in, flow->started_ns};
        status_put_open(stream, broker, &opened);
    }
    return shown;
}
