/* The sockets of dns.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "runtime/egress/broker/dns_service.h"
#include "runtime/egress/broker/entry.h"
#include "runtime/egress/broker/flows.h"
#include "runtime/egress/udp_packet.h"

#define QUESTION_MAX 4096 /* of a stream: one whose EDNS carries much */
#define DNS_PORT 53
#define ROUND 32
#define STREAMS_MAX 32
#define PREFIX 2 /* the length before each message of a stream */

struct dns_server {
    struct broker *broker;
    struct watch udp, tcp;
    struct dns_stream *streams; /* newest first */
    size_t stream_count;
};

struct dns_stream {
    struct grave grave;
    struct dns_server *server;
    struct watch watch;
    struct dns_stream *following, **link;
    uint8_t data[PREFIX + QUESTION_MAX];
    size_t size;
};

/* Where it was asked. */
static bool read_asked(struct msghdr *message, uint8_t address[16]) {
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_PKTINFO) {
            memcpy(address, CMSG_DATA(header) + offsetof(struct in6_pktinfo, ipi6_addr), 16);
            return true;
        }
        if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
            memset(address, 0, 10);
            memset(address + 10, 0xff, 2);
            memcpy(address + 12, CMSG_DATA(header) + offsetof(struct in_pktinfo, ipi_addr), 4);
            return true;
        }
    }
    return false;
}

/* A rule may name a resolver: then a question to it is a datagram like any other. */
static bool is_for_another(struct dns_server *server, struct msghdr *message, const uint8_t *question,
                           size_t size) {
    struct flow_ends ends = {.dialled_port = DNS_PORT};
    return server->broker->flows != NULL && read_asked(message, ends.dialled) &&
           flows_read_client(message->msg_name, &ends) && flows_are_allowed(server->broker, &ends) &&
           flows_take(server->broker, &ends, question, size);
}

/* Where it came from is copied, for an answer that may come later; the answer leaves from the address that
 * was asked: the packet information that came goes back. */
static struct dns_from read_from(struct dns_server *server, struct msghdr *message,
                                 const struct sockaddr_storage *client, const char *control) {
    struct dns_from from = {
        .server = server, .client_size = message->msg_namelen, .control_size = message->msg_controllen};
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header))
        if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo *info = (struct in_pktinfo *)(void *)CMSG_DATA(header);
            info->ipi_spec_dst = info->ipi_addr;
        }
    memcpy(&from.client, client, message->msg_namelen);
    memcpy(from.control, control, message->msg_controllen);
    return from;
}

static void reply_datagram(const struct dns_from *from, const uint8_t *answer, size_t size) {
    struct sockaddr_storage client = from->client;
    struct dns_from copy = *from;
    struct iovec data = {.iov_len = size};
    memcpy(&data.iov_base, &answer, sizeof(answer)); /* which is only read */
    struct msghdr message = {.msg_name = &client,
                             .msg_namelen = from->client_size,
                             .msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = copy.control,
                             .msg_controllen = from->control_size};
    pin_ignore(sendmsg(from->server->udp.fd, &message,
                       MSG_DONTWAIT)); /* lost like any datagram; the asker asks again */
}

/* Who doesn't read the answers loses the connection: nothing is kept for it. */
static bool reply_stream(const struct dns_stream *stream, const uint8_t *answer, size_t size) {
    uint8_t data[PREFIX + PIN_DNS_SERVICE_MAX];
    data[0] = (uint8_t)(size >> 8);
    data[1] = (uint8_t)size;
    memcpy(data + PREFIX, answer, size);
    return send(stream->watch.fd, data, PREFIX + size, MSG_NOSIGNAL) == (ssize_t)(PREFIX + size);
}

bool dns_reply(const struct dns_from *from, const uint8_t *answer, size_t size) {
    if (from->stream != NULL)
        return reply_stream(from->stream, answer, size);
    reply_datagram(from, answer, size);
    return true;
}

static void udp_ready(struct watch *watch, uint32_t events) {
    (void)events;
    struct dns_server *server = container_of(watch, struct dns_server, udp);
    for (int i = 0; i < ROUND; i++) {
        uint8_t *question = server->broker->buffer;
        struct sockaddr_storage client;
        struct dns_from from;
        _Alignas(struct cmsghdr) char
            control[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo))];
        _Static_assert(sizeof(control) <= sizeof(from.control), "what came can be given back");
        struct iovec data = {question, PIN_UDP_DATA_MAX}; /* a rule may name what is larger than a question */
        struct msghdr message = {.msg_name = &client,
                                 .msg_namelen = sizeof(client),
                                 .msg_iov = &data,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof(control)};
        ssize_t size = recvmsg(watch->fd, &message, MSG_DONTWAIT);
        if (size < 0)
            return;
        if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
            is_for_another(server, &message, question, (size_t)size))
            continue;
        from = read_from(server, &message, &client, control);
        (void)dns_take(server->broker, &from, question, (size_t)size); /* no question: no answer */
    }
}

static void release_stream(struct grave *grave) {
    free(container_of(grave, struct dns_stream, grave));
}

static void close_stream(struct dns_stream *stream) {
    struct dns_server *server = stream->server;
    if (stream->watch.fd < 0)
        return; /* closed already, in this round */
    *stream->link = stream->following;
    if (stream->following != NULL)
        stream->following->link = stream->link;
    server->stream_count--;
    service_forget(server->broker, stream);
    poll_close(&stream->watch);
    poll_bury(&server->broker->poll, &stream->grave, release_stream);
}

void dns_give_up(const struct dns_from *from) {
    if (from->stream != NULL)
        close_stream(from->stream);
}

/* Takes the whole messages; false: the stream is of no more use. */
static bool take_messages(struct dns_stream *stream) {
    struct dns_from from = {.server = stream->server, .stream = stream};
    for (;;) {
        size_t length = stream->size >= PREFIX ? (size_t)stream->data[0] << 8 | stream->data[1] : 0;
        if (length > QUESTION_MAX)
            return false;
        if (stream->size < PREFIX || stream->size < PREFIX + length)
            return true;
        if (!dns_take(stream->server->broker, &from, stream->data + PREFIX, length))
            return false;
        stream->size -= PREFIX + length;
        memmove(stream->data, stream->data + PREFIX + length, stream->size);
    }
}

static void stream_ready(struct watch *watch, uint32_t events) {
    (void)events;
    struct dns_stream *stream = container_of(watch, struct dns_stream, watch);
    ssize_t got = recv(watch->fd, stream->data + stream->size, sizeof(stream->data) - stream->size, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    stream->size += got > 0 ? (size_t)got : 0;
    if (got <= 0 || !take_messages(stream))
        close_stream(stream);
}

/* The oldest of those that wait for no answer; of all, where each of them does. */
static struct dns_stream *least_needed(const struct dns_server *server) {
    struct dns_stream *oldest = NULL, *idle = NULL;
    for (struct dns_stream *stream = server->streams; stream != NULL; stream = stream->following) {
        oldest = stream;
        if (!service_is_waited_for(server->broker, stream))
            idle = stream;
    }
    return idle != NULL ? idle : oldest;
}

/* At the limit one makes room: streams that only sit there can't shut the others out. */
static void open_stream(struct dns_server *server, int fd) {
    if (server->stream_count >= STREAMS_MAX)
        close_stream(least_needed(server));
    struct dns_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL) {
        (void)close(fd);
        return;
    }
    stream->server = server;
    stream->watch = (struct watch){.fd = fd, .ready = stream_ready, .inlet = true, .labours = LABOURS_ALWAYS};
    stream->following = server->streams;
    stream->link = &server->streams;
    if (stream->following != NULL)
        stream->following->link = &stream->following;
    server->streams = stream;
    server->stream_count++;
    if (!poll_want(&server->broker->poll, &stream->watch, EPOLLIN))
        close_stream(stream);
}

static void tcp_ready(struct watch *watch, uint32_t events) {
    (void)events;
    struct dns_server *server = container_of(watch, struct dns_server, tcp);
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof(peer);
    int fd = accept4(watch->fd, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0 && !entry_take(server->broker, fd, &peer))
        open_stream(server, fd);
}

bool dns_serve(struct broker *broker, int udp, int tcp) {
    if (udp < 0 && tcp < 0)
        return true;
    struct dns_server *server = calloc(1, sizeof(*server)); /* lives as long as the process */
    if (server == NULL)
        return false;
    *server = (struct dns_server){
        .broker = broker,
        .udp = {.fd = udp, .ready = udp_ready, .inlet = true, .labours = LABOURS_ALWAYS},
        .tcp = {.fd = tcp, .ready = tcp_ready, .inlet = true, .labours = LABOURS_ALWAYS}
    };
    return (udp < 0 || poll_want(&broker->poll, &server->udp, EPOLLIN)) &&
           (tcp < 0 || poll_want(&broker->poll, &server->tcp, EPOLLIN));
}
