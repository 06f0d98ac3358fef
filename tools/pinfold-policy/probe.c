/* pinfold-probe: tries one thing inside a sandbox and says what came of it.
 *
 *   pinfold-probe syscall NUMBER [ARG…] · write PATH · read PATH · connect ADDRESS PORT [udp]
 *
 * Prints one line: "done", "errno N", "signal N", "waits" or "unclear WHY". Static and small, so that it runs
 * under the tightest profile. A call is made in a child: it may end, stop or kill whoever makes it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/pinfold-policy/probe.h"

static int say(const char *what, int number) {
    char line[64];
    int length = number >= 0 ? snprintf(line, sizeof(line), "%s %d\n", what, number)
                             : snprintf(line, sizeof(line), "%s\n", what);
    return write(STDOUT_FILENO, line, (size_t)length) == length ? 0 : 1;
}

#define ARGS_MAX 6
#define DONE 200 /* an exit status that is no errno */

static void make_call(const char *const *words, int count) {
    unsigned long args[ARGS_MAX] = {0};
    long number = strtol(words[0], NULL, 10);
    for (int i = 1; i < count && i <= ARGS_MAX; i++)
        args[i - 1] = strtoul(words[i], NULL, 0);
    /* what it prints, or reads by accident, is nobody's business */
    (void)close(STDIN_FILENO);
    (void)close(STDOUT_FILENO);
    (void)close(STDERR_FILENO);
    long result = syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
    _exit(result == -1 && errno > 0 && errno < DONE ? errno : DONE);
}

/* True with the child's status; false when it still waits after a while. */
static bool wait_for(pid_t child, int *status) {
    const struct timespec moment = {.tv_nsec = 10 * 1000 * 1000};
    for (int i = 0; i < PIN_PROBE_WAITS; i++) {
        if (waitpid(child, status, WNOHANG) == child)
            return true;
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, status, 0);
    return false;
}

static int try_call(const char *const *words, int count) {
    int status;
    if (strtol(words[0], NULL, 10) == PIN_PROBE_VFORK)
        return say("unclear: vfork shares the prober's own stack", -1);
    pid_t child = fork();
    if (child < 0)
        return say("unclear: the prober can't fork", -1);
    if (child == 0)
        make_call(words, count);
    if (!wait_for(child, &status))
        return say("waits", -1);
    if (WIFSIGNALED(status))
        return say("signal", WTERMSIG(status));
    return WEXITSTATUS(status) == DONE ? say("done", -1) : say("errno", WEXITSTATUS(status));
}

/* The folders above, as far as they can be made: what is asked about is the writing. */
static void make_parents(const char *path) {
    char parent[4096];
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t length = (size_t)(slash - path);
        if (length >= sizeof(parent))
            return;
        memcpy(parent, path, length);
        parent[length] = '\0';
        (void)mkdir(parent, 0700);
    }
}

static int try_write(const char *path) {
    make_parents(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)unlink(path);
        return say("done", -1);
    }
    if (errno == EEXIST) /* opened, and not written to */
        fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == EISDIR)
        return access(path, W_OK) == 0 ? say("done", -1) : say("errno", errno);
    return fd >= 0 ? say("done", -1) : say("errno", errno);
}

static int try_read(const char *path) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd >= 0 ? say("done", -1) : say("errno", errno);
}

static int try_connect(const char *address, const char *port, bool datagram) {
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)atoi(port))};
    bool is_four = inet_pton(AF_INET, address, &four.sin_addr) == 1;
    if (!is_four && inet_pton(AF_INET6, address, &six.sin6_addr) != 1)
        return say("unclear: no address", -1);
    int fd = socket(is_four ? AF_INET : AF_INET6, (datagram ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
    const void *to = is_four ? (const void *)&four : (const void *)&six;
    if (fd < 0 || connect(fd, to, is_four ? sizeof(four) : sizeof(six)) != 0)
        return say("errno", errno);
    if (datagram && send(fd, "", 1, 0) != 1)
        return say("errno", errno);
    return say("done", -1);
}

int main(int argc, char **argv) {
    const char *const *words = (const char *const *)argv + 2;
    if (argc < 3)
        return 2;
    if (strcmp(argv[1], "syscall") == 0)
        return try_call(words, argc - 2);
    if (strcmp(argv[1], "write") == 0)
        return try_write(words[0]);
    if (strcmp(argv[1], "read") == 0)
        return try_read(words[0]);
    if (strcmp(argv[1], "connect") == 0 && argc >= 4)
        return try_connect(words[0], words[1], argc > 4);
    return 2;
}
