#include "runtime/egress/broker/resolver.h"

#include <ares.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/egress/wire_name.h"

#define HOSTS_FILE_MAX (4u * 1024 * 1024)
#define TIMEOUT_MS 2000 /* of the first try; c-ares waits longer at the next */
#define TRIES 3
#define SOCKETS_MAX 64
#define CLASS_INTERNET 1

struct host {
    const char *name; /* canonical */
    uint8_t address[16];
};

struct resolver_socket {
    struct watch watch;
    struct resolver *resolver;
};

struct resolver {
    struct broker *broker;
    ares_channel channel;
    struct pending *pending; /* what c-ares has been asked for */
    size_t other_count;      /* and other records than addresses */
    struct pin_arena arena;
    struct host *hosts;
    size_t host_count;
    struct resolver_socket sockets[SOCKETS_MAX];
};

struct pending { /* a name that c-ares has been asked for */
    struct resolver *resolver;
    struct pending *following, **link;
    struct question *first; /* NULL: nobody waits any more */
    char name[PIN_HOST_MAX];
};

static void socket_ready(struct watch *watch, uint32_t events) {
    struct resolver_socket *slot = container_of(watch, struct resolver_socket, watch);
    bool in = (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0, out = (events & EPOLLOUT) != 0;
    ares_process_fd(slot->resolver->channel, in ? watch->fd : ARES_SOCKET_BAD,
                    out ? watch->fd : ARES_SOCKET_BAD);
}

static struct resolver_socket *slot_of(struct resolver *resolver, int fd) {
    for (size_t i = 0; i < SOCKETS_MAX; i++)
        if (resolver->sockets[i].watch.fd == fd)
            return &resolver->sockets[i];
    return NULL;
}

/* c-ares opens and closes its sockets itself and says here what it waits for. */
static void socket_wanted(void *data, ares_socket_t fd, int readable, int writable) {
    struct resolver *resolver = data;
    struct resolver_socket *slot = slot_of(resolver, fd);
    if (slot == NULL && (readable || writable)) {
        slot = slot_of(resolver, -1);
        if (slot == NULL)
            return; /* its timer will find the answer missing */
        slot->watch = (struct watch){.fd = fd, .ready = socket_ready, .labours = LABOURS_ALWAYS};
        slot->resolver = resolver;
    }
    if (slot == NULL)
        return;
    if (readable || writable) {
        (void)poll_want(&resolver->broker->poll, &slot->watch,
                        (uint32_t)((readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0)));
        return;
    }
    (void)poll_want(&resolver->broker->poll, &slot->watch, 0);
    slot->watch.fd = -1; /* closing it is c-ares' part */
}

static void add_host(struct resolver *resolver, const uint8_t address[16], const char *text) {
    char name[PIN_HOST_MAX];
    if (!pin_wire_name(name, text, strlen(text)))
        return;
    struct host *host =
        pin_arena_grow(&resolver->arena, &resolver->hosts, &resolver->host_count, sizeof(*resolver->hosts));
    host->name = pin_arena_strdup(&resolver->arena, name);
    memcpy(host->address, address, sizeof(host->address));
}

static void read_hosts_line(struct resolver *resolver, char *line) {
    uint8_t address[16];
    char *rest = NULL;
    line[strcspn(line, "#")] = '\0';
    const char *first = strtok_r(line, " \t\r", &rest);
    if (first == NULL || !pin_address_parse(address, first))
        return;
    for (const char *name; (name = strtok_r(NULL, " \t\r", &rest)) != NULL;)
        add_host(resolver, address, name);
}

/* A host without the file has no names in it. */
static void read_hosts(struct resolver *resolver) {
    struct pin_error unused = {.kind = PIN_ERROR_NONE};
    size_t size;
    PIN_FREE char *text = pin_read_file_at(AT_FDCWD, "/etc/hosts", HOSTS_FILE_MAX, &size, &unused);
    char *rest = NULL;
    if (text == NULL)
        return;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        read_hosts_line(resolver, line);
}

bool resolver_open(struct broker *broker, const char *resolv_conf, struct pin_error *err) {
    struct resolver *resolver = calloc(1, sizeof(*resolver));
    if (resolver == NULL)
        return pin_fail_errno(err, "start the resolver");
    resolver->broker = broker;
    for (size_t i = 0; i < SOCKETS_MAX; i++)
        resolver->sockets[i].watch.fd = -1;
    char lookups[] = "b";
    char path[4096] = "";
    struct ares_options options = {
        .flags = ARES_FLAG_NOSEARCH,
        .timeout = TIMEOUT_MS,
        .tries = TRIES,
        .lookups = lookups, /* questions only: the hosts file is read below, while files can be opened */
        .sock_state_cb = socket_wanted,
        .sock_state_cb_data = resolver,
        .resolvconf_path = path,
    };
    int mask =
        ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB;
    if (resolv_conf != NULL && strlen(resolv_conf) < sizeof(path)) {
        memcpy(path, resolv_conf, strlen(resolv_conf) + 1);
        mask |= ARES_OPT_RESOLVCONF;
    }
    int code = ares_library_init(ARES_LIB_INIT_ALL);
    if (code == ARES_SUCCESS)
        code = ares_init_options(&resolver->channel, &options, mask);
    if (code != ARES_SUCCESS) {
        free(resolver);
        return pin_fail(err, PIN_ERROR_SYSTEM, "start the resolver: %s", ares_strerror(code));
    }
    read_hosts(resolver);
    broker->resolver = resolver;
    return true;
}

static size_t find_hosts(const struct resolver *resolver, const char *name, uint8_t to[][16]) {
    static const uint8_t loopback[2][16] = {
        {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1},
        {[15] = 1       }
    };
    size_t count = 0;
    if (strcmp(name, PIN_HOST_INTERNAL) == 0) {
        memcpy(to, loopback, sizeof(loopback));
        return 2;
    }
    for (size_t i = 0; i < resolver->host_count && count < RESOLVER_ADDRESSES_MAX; i++)
        if (strcmp(resolver->hosts[i].name, name) == 0)
            memcpy(to[count++], resolver->hosts[i].address, 16);
    return count;
}

static bool copy_address(uint8_t to[16], const struct sockaddr *from) {
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)from;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)from;
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (from->sa_family == AF_INET6) {
        memcpy(to, &six->sin6_addr, 16);
        return true;
    }
    if (from->sa_family != AF_INET)
        return false;
    memcpy(to, mapped, sizeof(mapped));
    memcpy(to + sizeof(mapped), &four->sin_addr, 4);
    return true;
}

static void addresses_came(void *data, int status, int timeouts, struct ares_addrinfo *result) {
    (void)timeouts;
    struct pending *pending = data;
    uint8_t addresses[RESOLVER_ADDRESSES_MAX][16];
    size_t count = 0;
    *pending->link = pending->following; /* who asks from now on asks anew */
    if (pending->following != NULL)
        pending->following->link = pending->link;
    for (struct ares_addrinfo_node *node = result != NULL ? result->nodes : NULL;
         node != NULL && count < RESOLVER_ADDRESSES_MAX; node = node->ai_next)
        if (copy_address(addresses[count], node->ai_addr))
            count++;
    if (result != NULL)
        ares_freeaddrinfo(result);
    while (pending->first != NULL) { /* one's end may be the end of others, too */
        struct question *question = pending->first;
        resolver_forget(question);
        question->answered(question, addresses, count, status == ARES_ETIMEOUT ? ETIMEDOUT : EHOSTUNREACH);
    }
    free(pending);
}

static struct pending *find_pending(struct resolver *resolver, const char *name) {
    struct pending *pending = resolver->pending;
    while (pending != NULL && strcmp(pending->name, name) != 0)
        pending = pending->following;
    return pending;
}

static void wait_for(struct pending *pending, struct question *question) {
    question->following = pending->first;
    question->link = &pending->first;
    if (question->following != NULL)
        question->following->link = &question->following;
    pending->first = question;
}

static struct pending *new_pending(struct resolver *resolver, const char *name) {
    struct pending *pending = calloc(1, sizeof(*pending));
    if (pending == NULL)
        return NULL;
    (void)snprintf(pending->name, sizeof(pending->name), "%s", name);
    pending->resolver = resolver;
    pending->following = resolver->pending;
    pending->link = &resolver->pending;
    if (pending->following != NULL)
        pending->following->link = &pending->following;
    resolver->pending = pending;
    return pending;
}

void resolver_ask(struct resolver *resolver, const char *name, struct question *question) {
    uint8_t addresses[RESOLVER_ADDRESSES_MAX][16];
    char absolute[PIN_HOST_MAX + 1];
    size_t count = find_hosts(resolver, name, addresses);
    struct pending *asked = count == 0 ? find_pending(resolver, name) : NULL;
    if (asked != NULL) {
        wait_for(asked, question);
        return;
    }
    struct pending *pending = count == 0 ? new_pending(resolver, name) : NULL;
    if (pending == NULL) {
        question->answered(question, addresses, count, ENOMEM);
        return;
    }
    wait_for(pending, question);
    (void)snprintf(absolute, sizeof(absolute), "%s.", name); /* as it stands: no search list */
    struct ares_addrinfo_hints hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    ares_getaddrinfo(resolver->channel, absolute, NULL, &hints, addresses_came, pending);
}

struct other { /* records of another type */
    struct resolver *resolver;
    void (*answered)(void *data, const uint8_t *message, size_t size);
    void *data;
};

static void other_answered(void *data, int status, int timeouts, unsigned char *message, int size) {
    (void)timeouts;
    struct other other = *(struct other *)data;
    free(data);
    other.resolver->other_count--;
    bool came = status == ARES_SUCCESS && message != NULL && size > 0;
    other.answered(other.data, came ? message : NULL, came ? (size_t)size : 0);
}

void resolver_ask_type(struct resolver *resolver, const char *name, uint16_t type,
                       void (*answered)(void *data, const uint8_t *message, size_t size), void *data) {
    char absolute[PIN_HOST_MAX + 1];
    struct other *other = malloc(sizeof(*other));
    if (other == NULL) {
        answered(data, NULL, 0);
        return;
    }
    *other = (struct other){resolver, answered, data};
    resolver->other_count++;
    (void)snprintf(absolute, sizeof(absolute), "%s.", name);
    ares_query(resolver->channel, absolute, CLASS_INTERNET, type, other_answered, other);
}

bool resolver_has_own(const struct resolver *resolver, const char *name) {
    uint8_t addresses[RESOLVER_ADDRESSES_MAX][16];
    return find_hosts(resolver, name, addresses) > 0;
}

void resolver_forget(struct question *question) {
    if (question->link == NULL)
        return;
    *question->link = question->following;
    if (question->following != NULL)
        question->following->link = question->link;
    question->link = NULL;
}

int resolver_timeout(struct resolver *resolver, int limit) {
    struct timeval most = {.tv_sec = 60}, room;
    if (resolver->pending == NULL && resolver->other_count == 0)
        return limit;
    const struct timeval *left = ares_timeout(resolver->channel, &most, &room);
    int ms = (int)(left->tv_sec * 1000 + left->tv_usec / 1000) + 1;
    return limit >= 0 && limit < ms ? limit : ms;
}

void resolver_tick(struct resolver *resolver) {
    if (resolver->pending != NULL || resolver->other_count > 0)
        ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}
