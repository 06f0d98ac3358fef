/* c-ares can look up services by name, which in a static program would load glibc's modules for that. The
 * broker has numbers only. */
#include <errno.h>
#include <netdb.h>
#include <stddef.h>

struct servent *__wrap_getservbyname(const char *name, const char *protocol);
int __wrap_getservbyport_r(int port, const char *protocol, struct servent *to, char *room, size_t size,
                           struct servent **found);

struct servent *__wrap_getservbyname(const char *name, const char *protocol) {
    (void)name;
    (void)protocol;
    return NULL;
}

int __wrap_getservbyport_r(int port, const char *protocol, struct servent *to, char *room, size_t size,
                           struct servent **found) {
    (void)port;
    (void)protocol;
    (void)to;
    (void)room;
    (void)size;
    *found = NULL;
    return ENOENT;
}
