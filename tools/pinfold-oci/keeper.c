#include "tools/pinfold-oci/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/egress/session.h"
#include "runtime/host/libexec.h"
#include "tools/pinfold-oci/ceiling.h"
#include "tools/pinfold/egress_why.h"
#include "tools/pinfold/way_out.h"

/* Linux 6.15: how a process has ended, from a pidfd that was opened while it lived. Older headers lack it. */
struct exit_info {
    uint64_t mask, cgroup;
    uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
    int32_t status;
};
#define EXIT_INFO (UINT64_C(1) << 3)
#define GET_INFO _IOWR(0xFF, 11, struct exit_info)
#define REAPED_WITHIN_MS 10000 /* by the engine's monitor */

struct keeper {
    const struct pin_oci_keeping *keeping;
    bool lifecycle, egress;
    struct pin_egress_session session;
};

/* NULL: this kernel doesn't tell. */
static json_t *take_status(int process) {
    struct pollfd reaped = {.fd = process, .events = 0}; /* POLLHUP alone */
    struct exit_info info = {.mask = EXIT_INFO};
    (void)poll(&reaped, 1, REAPED_WITHIN_MS);
    if (syscall(SYS_ioctl, process, GET_INFO, &info) != 0 || (info.mask & EXIT_INFO) == 0)
        return json_object();
    return WIFSIGNALED(info.status)
               ? json_pack("{s:i, s:i}", "exit_code", 128 + WTERMSIG(info.status), "signal",
                           WTERMSIG(info.status))
               : json_pack("{s:i, s:n}", "exit_code", WEXITSTATUS(info.status), "signal");
}

static void record_end(struct keeper *self) {
    struct pin_error ignored = {0}; /* there is nobody to tell */
    if (!self->lifecycle)
        return;
    json_t *data = take_status(self->keeping->process);
    if (self->session.started)
        (void)json_object_set_new(data, "egress", pin_egress_usage_json(&self->session.usage));
    if (pin_egress_session_is_lost(&self->session)) /* its network was closed since */
        (void)json_object_set_new(data, "missing", json_pack("[s]", "egress"));
    (void)pin_oci_audit_write("end", self->keeping->id, self->keeping->bundle, data, &ignored);
}

/* False: an event could not be written down. */
static bool record_egress(struct keeper *self) {
    struct pin_egress_event event;
    struct pin_error err = {0};
    bool ok = true;
    while (pin_egress_session_next(&self->session, &event)) {
        json_t *data = pin_egress_event_json(&event, &self->session.rules);
        pin_egress_why_add(data, self->keeping->policy);
        const char *kind = json_string_value(json_object_get(data, "event"));
        if (self->egress && ok && kind != NULL && strcmp(kind, "ready") != 0)
            ok = pin_oci_audit_write("egress", self->keeping->id, self->keeping->bundle, json_incref(data),
                                     &err);
        json_decref(data);
    }
    return ok;
}

static void end(struct keeper *self, bool drains) {
    while (!pin_egress_session_end(&self->session, drains))
        (void)record_egress(self);
    (void)record_egress(self);
}

static void keep(struct keeper *self) {
    for (;;) {
        struct pollfd waits[] = {
            {self->keeping->process,                POLLIN, 0},
            {pin_egress_session_fd(&self->session), POLLIN, 0},
        };
        if (poll(waits, 2, -1) < 0 && errno != EINTR)
            break;
        if (waits[1].revents != 0 && !record_egress(self))
            end(self, false);
        if (waits[0].revents != 0)
            break;
    }
    end(self, true);
    record_end(self);
}

static bool start_session(struct keeper *self, struct pin_error *err) {
    const struct pin_bundle_ext *ext = &self->keeping->bundle->ext;
    struct pin_secrets login = {0};
    struct pin_egress_setup setup;
    char broker[PATH_MAX];
    bool started =
        ext->egress_count == 0 ||
        (pin_libexec_find("pinfold-broker", broker, err) && pin_way_out_find(ext, &setup, &login, err) &&
         pin_egress_session_start(&self->session, broker, &setup, self->keeping->sockets, err));
    pin_secrets_free(&login);
    return started;
}

static void close_but(int *kept, size_t count) {
    unsigned next = 3;
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && kept[j - 1] > kept[j]; j--) {
            int swapped = kept[j];
            kept[j] = kept[j - 1];
            kept[j - 1] = swapped;
        }
    for (size_t i = 0; i < count; i++) {
        if (kept[i] < (int)next)
            continue; /* -1: absent */
        if (kept[i] > (int)next)
            (void)syscall(SYS_close_range, next, (unsigned)kept[i] - 1, 0);
        next = (unsigned)kept[i] + 1;
    }
    (void)syscall(SYS_close_range, next, ~0u, 0);
}

/* Nothing of the engine's stays open: it waits for the end of its pipes. */
static bool let_go(const struct pin_oci_keeping *keeping, int answer) {
    int kept[2 + PIN_EGRESS_SOCKET_COUNT] = {answer, keeping->process};
    for (int i = 0; i < PIN_EGRESS_SOCKET_COUNT; i++)
        kept[2 + i] = keeping->sockets->fds[i];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2; fd++)
        if (null < 0 || dup2(null, fd) != fd)
            return false;
    close_but(kept, sizeof(kept) / sizeof(kept[0]));
    return true;
}

_Noreturn static void be_keeper(const struct pin_oci_keeping *keeping, int answer) {
    struct keeper self = {.keeping = keeping,
                          .session = PIN_EGRESS_SESSION_NONE,
                          .lifecycle = pin_oci_audit_records(keeping->policy, "lifecycle"),
                          .egress = pin_oci_audit_records(keeping->policy, "egress")};
    struct pin_error err = {0};
    sigset_t unheeded;
    (void)setsid();
    (void)prctl(PR_SET_NAME, "pinfold-keeper");
    (void)prctl(PR_SET_DUMPABLE, 0);
    pin_ignore(chdir("/"));      /* the engine's own stays */
    (void)sigfillset(&unheeded); /* an engine's or a terminal's: only its end, or KILL, ends it */
    (void)sigprocmask(SIG_SETMASK, &unheeded, NULL);
    if (!let_go(keeping, answer))
        _exit(1);
    bool ok = start_session(&self, &err);
    pin_ignore(write(answer, &err, sizeof(err))); /* at most PIPE_BUF: whole */
    (void)close(answer);
    if (ok)
        keep(&self);
    _exit(!ok);
}

/* Its answer: an error, or none. */
static bool take_answer(int pipe, struct pin_error *err) {
    struct pin_error told;
    ssize_t got;
    while ((got = read(pipe, &told, sizeof(told))) < 0 && errno == EINTR)
        ;
    if (got != (ssize_t)sizeof(told))
        return pin_fail(err, PIN_ERROR_SYSTEM, "the keeper of the container died");
    if (!pin_is_set(&told))
        return true;
    *err = told;
    return false;
}

bool pin_oci_keeper_start(const struct pin_oci_keeping *keeping, struct pin_error *err) {
    int ends[2];
    bool needed =
        keeping->bundle->ext.egress_count > 0 || pin_oci_audit_records(keeping->policy, "lifecycle");
    if (!needed)
        return true;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return pin_fail_errno(err, "start the keeper of the container");
    PIN_CLOSE int ours = ends[0];
    PIN_CLOSE int theirs = ends[1];
    pid_t pid = fork();
    if (pid == 0)
        be_keeper(keeping, theirs);
    pin_egress_close(keeping->sockets);
    if (pid < 0)
        return pin_fail_errno(err, "start the keeper of the container");
    pin_close_fd(&theirs);
    return take_answer(ours, err);
}
