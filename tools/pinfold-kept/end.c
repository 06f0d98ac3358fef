#include "tools/pinfold-kept/end.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "runtime/kept/home.h"
#include "runtime/state/state_dir.h"
#include "tools/pinfold-kept/client.h"
#include "tools/pinfold/lease.h"

#define LOOK_MS 20
#define HEAR_MS 5000   /* for a supervisor to take up what it is asked */
#define BEGIN_MS 10000 /* and then to take up a signal */
#define DIE_MS 10000   /* and then to be dead of SIGKILL */

static bool has(int folder, const char *file) {
    struct stat facts;
    return fstatat(folder, file, &facts, AT_SYMLINK_NOFOLLOW) == 0;
}

/* How it ends is written before anything is cleared: what comes then, changes of a workspace say, may take
 * its time. */
static bool has_begun_to_end(int folder) {
    return has(folder, "end.json");
}

static bool is_ready(int fd, int timeout_ms) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, timeout_ms) > 0;
}

/* Whether `fd` is readable in this time, or however long it takes after the end has begun. */
static bool await(int fd, int folder, int most_ms) {
    for (int waited_ms = 0; !is_ready(fd, LOOK_MS); waited_ms += LOOK_MS)
        if (waited_ms >= most_ms && !has_begun_to_end(folder))
            return false;
    return true;
}

static bool signal_it(int pidfd, int number, struct pin_error *err) {
    return syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) == 0 || errno == ESRCH ||
           pin_fail_errno(err, "signal the supervisor");
}

/* A stopped one goes on, and hears what it is asked. */
static void wake(int folder) {
    struct pin_error unsent = {0};
    PIN_CLOSE int pidfd = pin_home_supervisor(folder);
    if (pidfd >= 0)
        (void)signal_it(pidfd, SIGCONT, &unsent);
}

/* What it leaves alive is frozen, perhaps, or waits for its init. */
static bool clear(const struct pin_client *client, struct pin_error *err) {
    struct pin_cgroup_facts cgroups;
    char tag[PIN_STATE_TAG];
    return pin_state_tag(client->state_dir, tag, err) && pin_cgroup_facts_get(tag, &cgroups, err) &&
           pin_lease_sweep(client->state_dir, &cgroups, err);
}

/* SIGQUIT is the kill of the protocol, for one that is up. */
static bool end_supervisor(const struct pin_client *client, struct pin_error *err) {
    PIN_CLOSE int pidfd = pin_home_supervisor(client->folder);
    if (pidfd < 0 && !pin_home_is_live(client->folder))
        return true;
    if (pidfd < 0)
        return pin_fail(err, PIN_ERROR_BUSY, "the supervisor of '%s' can't be seen from here", client->name);
    if (!signal_it(pidfd, has(client->folder, "sandbox.json") ? SIGQUIT : SIGKILL, err))
        return false;
    if (!await(pidfd, client->folder, BEGIN_MS) && !signal_it(pidfd, SIGKILL, err))
        return false;
    if (!is_ready(pidfd, DIE_MS))
        return pin_fail(err, PIN_ERROR_BUSY, "the supervisor of '%s' doesn't die", client->name);
    return has_begun_to_end(client->folder) || clear(client, err);
}

/* Its last words come before its last breath: the lock says when a new one may have the name. */
bool pin_end_await(const struct pin_client *client, struct pin_error *err) {
    for (int waited_ms = 0; pin_home_is_live(client->folder); waited_ms++) {
        if (waited_ms > DIE_MS)
            return pin_fail(err, PIN_ERROR_BUSY, "the supervisor of '%s' doesn't end", client->name);
        (void)usleep(1000);
    }
    return true;
}

bool pin_end_is_under_way(const struct pin_client *client, struct pin_error *err) {
    if (err->kind != PIN_ERROR_BUSY || client->folder < 0 || !has_begun_to_end(client->folder))
        return false;
    pin_error_clear(err);
    return true;
}

bool pin_end_force(const char *name, struct pin_error *err) {
    PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
    return pin_client_find(&client, name, err) && end_supervisor(&client, err) && pin_end_await(&client, err);
}

static bool is_heard(struct pin_client *client, struct pin_error *err) {
    if (!pin_client_send(client, pin_client_request("kill"), NULL, 0, err))
        return false;
    if (!await(client->socket, client->folder, HEAR_MS))
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "the supervisor of '%s' doesn't answer", client->name);
    json_t *reply = pin_client_receive(client, NULL, err);
    json_decref(reply);
    return reply != NULL;
}

bool pin_end_kill(const char *name, struct pin_error *err) {
    PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
    if (!pin_client_find(&client, name, err))
        return false;
    wake(client.folder);
    client.socket = pin_home_connect(client.folder, name, err);
    if (client.socket < 0 && err->kind != PIN_ERROR_EXHAUSTED)
        return pin_end_is_under_way(&client, err) && pin_end_await(&client, err);
    if (client.socket < 0 || !is_heard(&client, err)) {
        pin_error_clear(err);
        if (!end_supervisor(&client, err))
            return false;
    }
    return pin_end_await(&client, err);
}
