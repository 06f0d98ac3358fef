#include "runtime/egress/published.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

#define BACKLOG 1024

struct listeners {
    int fds[PIN_PUBLISH_MAX];
};

static void close_all(struct listeners *all) {
    for (size_t i = 0; i < PIN_PUBLISH_MAX; i++)
        pin_close_fd(&all->fds[i]);
}

static void print_file(char file[PIN_PUBLISH_NAME + 8], const struct pin_publish *publish) {
    (void)snprintf(file, PIN_PUBLISH_NAME + 8, "%s.sock", publish->name);
}

/* --- UNIX sockets --- */

/* Where clients find it; a path that no sockaddr_un can hold is of no use to them. */
static bool say_where(int folder, struct pin_published *published, struct pin_error *err) {
    char link[64], file[PIN_PUBLISH_NAME + 8], path[PATH_MAX];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", folder);
    ssize_t size = readlink(link, path, sizeof(path) - 1);
    if (size < 0)
        return pin_fail_errno(err, "find the folder of published sockets");
    path[size] = '\0';
    print_file(file, &published->asked);
    int length = snprintf(published->at, sizeof(published->at), "%s/%s", path, file);
    if (length < (int)sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return true;
    (void)pin_fail(err, PIN_ERROR_INVALID, "the path of the published socket '%s' is too long for a socket",
                   published->asked.name);
    return pin_hint(err, "choose a shorter name, or a shorter PINFOLD_STATE");
}

/* By the folder's descriptor, whatever its path is now. The folder is ours alone, and the file's mode is the
 * mask's from its birth. */
static int bind_unix(int folder, struct pin_published *published, struct pin_error *err) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char file[PIN_PUBLISH_NAME + 8];
    if (!say_where(folder, published, err))
        return -1;
    print_file(file, &published->asked);
    (void)snprintf(to.sun_path, sizeof(to.sun_path), "/proc/self/fd/%d/%s", folder, file);
    PIN_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t before = umask(0177);
    bool bound = fd >= 0 && bind(fd, (const struct sockaddr *)&to, sizeof(to)) == 0;
    (void)umask(before);
    if (bound && listen(fd, BACKLOG) == 0)
        return pin_steal_fd(&fd);
    (void)pin_fail_errno(err, "publish port %u at '%s'", published->asked.port, published->at);
    return -1;
}

/* --- loopback ports --- */

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static socklen_t fill_address(union address *to, const struct pin_publish *publish) {
    memset(to, 0, sizeof(*to));
    if (publish->at == PIN_PUBLISH_LOOPBACK) {
        to->four = (struct sockaddr_in){.sin_family = AF_INET,
                                        .sin_port = htons(publish->host_port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        return sizeof(to->four);
    }
    to->six = (struct sockaddr_in6){
        .sin6_family = AF_INET6, .sin6_port = htons(publish->host_port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    return sizeof(to->six);
}

static bool say_port(int fd, struct pin_published *published) {
    union address bound = {.any.sa_family = AF_UNSPEC};
    socklen_t size = sizeof(bound);
    if (getsockname(fd, &bound.any, &size) != 0)
        return false;
    bool four = bound.any.sa_family == AF_INET;
    (void)snprintf(published->at, sizeof(published->at), four ? "127.0.0.1:%u" : "[::1]:%u",
                   ntohs(four ? bound.four.sin_port : bound.six.sin6_port));
    return true;
}

static int bind_loopback(struct pin_published *published, struct pin_error *err) {
    const struct pin_publish *asked = &published->asked;
    union address to;
    socklen_t size = fill_address(&to, asked);
    PIN_CLOSE int fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* what has ended may still be in TIME_WAIT; a listener that lives is in the way all the same */
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0 &&
        bind(fd, &to.any, size) == 0 && listen(fd, BACKLOG) == 0 && say_port(fd, published))
        return pin_steal_fd(&fd);
    bool taken = errno == EADDRINUSE;
    (void)pin_fail_errno(err, "publish port %u at port %u of the host's loopback", asked->port,
                         asked->host_port);
    if (taken)
        (void)pin_hint(err, "another program has that port; port 0 lets the kernel pick one");
    return -1;
}

/* --- all of them --- */

static const uint8_t inside[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};

static bool listen_to_all(struct pin_publishing *publishing, const struct pin_publishing_plan *plan,
                          struct listeners *listeners, struct pin_error *err) {
    for (size_t i = 0; i < plan->count; i++) {
        struct pin_published *published = &publishing->list[i];
        published->asked = plan->list[i];
        publishing->ports[i] = (struct pin_port_range){plan->list[i].port, plan->list[i].port};
        publishing->rules[i] = (struct pin_egress_rule){
            .prefix = 128,
            .ports = &publishing->ports[i],
            .port_count = 1,
            .place = {"network.publish", 0, 0}
        };
        memcpy(publishing->rules[i].address, inside, sizeof(inside));
        listeners->fds[i] = published->asked.at == PIN_PUBLISH_UNIX ? bind_unix(plan->folder, published, err)
                                                                    : bind_loopback(published, err);
        if (listeners->fds[i] < 0)
            return false;
        publishing->count++;
    }
    return true;
}

static struct pin_egress_setup setup_of(const struct pin_publishing *publishing) {
    return (struct pin_egress_setup){
        .rules = {publishing->rules, NULL, publishing->count, 0, NULL},
        .limits = publishing->limits,
    };
}

/* Nothing was let in yet. */
static void give_up(struct pin_publishing *publishing) {
    pin_publishing_free(publishing);
    *publishing = PIN_PUBLISHING_NONE;
}

bool pin_publishing_start(struct pin_publishing *publishing, const struct pin_publishing_plan *plan,
                          struct pin_error *err) {
    struct listeners listeners;
    memset(listeners.fds, -1, sizeof(listeners.fds));
    *publishing = PIN_PUBLISHING_NONE;
    if (plan->folder >= 0)
        publishing->folder = fcntl(plan->folder, F_DUPFD_CLOEXEC, 3);
    publishing->limits = *plan->limits;
    bool ok = listen_to_all(publishing, plan, &listeners, err);
    const struct pin_egress_setup setup = setup_of(publishing);
    ok = ok && pin_egress_session_publish(&publishing->session, plan->program, &setup, plan->door,
                                          listeners.fds, err);
    close_all(&listeners); /* the broker's end is the end of them */
    if (!ok)
        give_up(publishing);
    return ok;
}

static void remove_file(const struct pin_publishing *publishing, const struct pin_published *published) {
    char file[PIN_PUBLISH_NAME + 8];
    if (published->asked.at != PIN_PUBLISH_UNIX || publishing->folder < 0)
        return;
    print_file(file, &published->asked);
    pin_ignore(unlinkat(publishing->folder, file, 0)); /* the folder goes with the sandbox */
}

static bool is_published(const struct pin_publishing *publishing, uint16_t port) {
    for (size_t i = 0; i < publishing->count; i++)
        if (!publishing->list[i].closed && publishing->list[i].asked.port == port)
            return true;
    return false;
}

static void close_port(struct pin_publishing *publishing, uint16_t port) {
    for (size_t i = 0; i < publishing->count; i++) {
        struct pin_published *published = &publishing->list[i];
        if (published->closed || published->asked.port != port)
            continue;
        published->closed = true;
        memset(publishing->rules[i].address, 0, sizeof(publishing->rules[i].address));
        remove_file(publishing, published);
    }
}

bool pin_publishing_close(struct pin_publishing *publishing, const uint16_t *ports, size_t count,
                          struct pin_error *err) {
    if (publishing->session.is_replacing)
        return pin_fail(err, PIN_ERROR_BUSY, "the last change isn't in force yet; try again");
    for (size_t i = 0; i < count; i++)
        if (!is_published(publishing, ports[i]))
            return pin_fail(err, PIN_ERROR_NOT_FOUND, "port %u isn't published", ports[i]);
    for (size_t i = 0; i < count; i++)
        close_port(publishing, ports[i]);
    const struct pin_egress_setup setup = setup_of(publishing);
    return pin_egress_session_replace(&publishing->session, &setup, err);
}

bool pin_publishing_end(struct pin_publishing *publishing, bool drains) {
    if (!pin_egress_session_end(&publishing->session, drains))
        return false;
    for (size_t i = 0; i < publishing->count; i++)
        if (!publishing->list[i].closed)
            remove_file(publishing, &publishing->list[i]);
    pin_close_fd(&publishing->folder);
    return true;
}

void pin_publishing_free(struct pin_publishing *publishing) {
    pin_egress_session_free(&publishing->session);
    (void)pin_publishing_end(publishing, false); /* of the session nothing is left to end */
}
