#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/kept/call.h"

#define FREEZE_NS (2 * PIN_NS_PER_S)
#define COMMAND_SHOWN 255 /* bytes of a command's name */

typedef void serve_verb(struct conn *conn, struct pin_kept_request *request);

static void reply(struct conn *conn, const struct pin_kept_request *request, json_t *ok) {
    pin_conn_send(
        conn, json_pack("{s:I, s:o}", "id", (json_int_t)request->id, "ok", ok != NULL ? ok : json_object()));
}

static void refuse(struct conn *conn, const struct pin_kept_request *request, enum pin_error_kind kind,
                   const char *why) {
    struct pin_error err = {0};
    (void)pin_fail(&err, kind, "%s", why);
    pin_conn_fail(conn, request->id, &err);
}

/* NULL after the reply has been sent. */
static struct exec *find(struct conn *conn, const struct pin_kept_request *request) {
    struct exec *exec = pin_exec_find(conn->kept, request->exec);
    if (exec == NULL)
        refuse(conn, request, PIN_ERROR_NOT_FOUND, "no command of this number runs");
    return exec;
}

static void serve_exec(struct conn *conn, struct pin_kept_request *request) {
    pin_exec_new(conn, request);
}

static void serve_signal(struct conn *conn, struct pin_kept_request *request) {
    struct pin_error err = {0};
    bool ok;
    if (request->exec == 0) {
        ok = pin_link_signal(&conn->kept->link, 0, (int)request->signal, &err);
        pin_kept_flush_link(conn->kept);
    } else {
        struct exec *exec = find(conn, request);
        if (exec == NULL)
            return;
        ok = pin_exec_signal(exec, (int)request->signal, &err);
    }
    if (ok)
        reply(conn, request, NULL);
    else
        pin_conn_fail(conn, request->id, &err);
}

static void serve_end(struct conn *conn, struct pin_kept_request *request) {
    struct exec *exec = find(conn, request);
    if (exec == NULL)
        return;
    pin_exec_kill(exec);
    reply(conn, request, NULL);
}

static void serve_resize(struct conn *conn, struct pin_kept_request *request) {
    struct exec *exec = find(conn, request);
    struct winsize size = {.ws_row = (unsigned short)request->rows,
                           .ws_col = (unsigned short)request->columns};
    if (exec == NULL)
        return;
    if (exec->master < 0 || ioctl(exec->master, TIOCSWINSZ, &size) != 0)
        refuse(conn, request, PIN_ERROR_INVALID, "the command has no terminal");
    else
        reply(conn, request, NULL);
}

static json_t *running(const struct pin_kept *kept) {
    static const char *const states[] = {
        [EXEC_FINDING] = "queued",  [EXEC_QUEUED] = "queued",   [EXEC_STARTING] = "starting",
        [EXEC_RUNNING] = "running", [EXEC_EMPTYING] = "ending", [EXEC_DRAINING] = "draining",
        [EXEC_HANGING] = "hanging", [EXEC_DONE] = "done"};
    json_t *list = json_array();
    for (const struct exec *exec = kept->execs; exec != NULL; exec = exec->next) {
        json_t *text = pin_exec_masked(exec, exec->request.args[0], COMMAND_SHOWN);
        (void)json_array_append_new(
            list, json_pack("{s:I, s:s, s:o, s:I, s:b, s:b}", "exec", (json_int_t)exec->id, "state",
                            states[exec->state], "command", text != NULL ? text : json_string(""), "age_ms",
                            (json_int_t)((pin_now_ns() - exec->started_ns) / PIN_NS_PER_MS), "tty",
                            (int)exec->request.tty, "input", (int)(exec->master >= 0 || exec->input >= 0)));
    }
    return list;
}

static const char *state_of(const struct pin_kept *kept) {
    return kept->ending ? "ending" : kept->paused ? "paused" : "running";
}

/* What the host couldn't give, and what has died since. */
static json_t *missing_now(const struct pin_kept *kept) {
    const char *names[PIN_EGRESS_LOST_MAX];
    json_t *missing = json_copy(json_object_get(kept->given->facts, "missing"));
    for (size_t i = pin_kept_lost(kept, names); i > 0; i--)
        (void)json_array_append_new(missing, json_string(names[i - 1]));
    return missing;
}

static void serve_show(struct conn *conn, struct pin_kept_request *request) {
    const struct pin_kept *kept = conn->kept;
    json_t *facts = json_copy(kept->given->facts);
    (void)json_object_set_new(facts, "state", json_string(state_of(kept)));
    (void)json_object_set_new(facts, "age_ms",
                              json_integer((json_int_t)((pin_now_ns() - kept->started_ns) / PIN_NS_PER_MS)));
    (void)json_object_set_new(facts, "clients", json_integer((json_int_t)kept->conn_count));
    (void)json_object_set_new(facts, "log_sequence", json_integer((json_int_t)kept->log.sequence));
    (void)json_object_set_new(facts, "execs", running(kept));
    (void)json_object_set_new(facts, "missing", missing_now(kept));
    reply(conn, request, facts);
}

static void serve_stats(struct conn *conn, struct pin_kept_request *request) {
    const struct pin_kept *kept = conn->kept;
    struct pin_cgroup_usage usage = {0};
    struct pin_error err = {0};
    if (kept->given->sandbox->cgroup != NULL &&
        !pin_cgroup_usage_read(kept->given->sandbox->cgroup, &usage, &err)) {
        pin_conn_fail(conn, request->id, &err);
        return;
    }
    pin_kept_bill(conn->kept);
    if (usage.oom_kills < kept->exec_oom_kills)
        usage.oom_kills = kept->exec_oom_kills;
    reply(conn, request,
          json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "state", state_of(kept),
                    "frozen", (int)kept->frozen, "age_ms",
                    (json_int_t)((pin_now_ns() - kept->started_ns) / PIN_NS_PER_MS), "cpu_ms",
                    (json_int_t)(usage.cpu_ns / PIN_NS_PER_MS), "memory_peak_bytes",
                    (json_int_t)usage.memory_peak_bytes, "pids_peak", (json_int_t)usage.pids_peak,
                    "oom_kills", (json_int_t)usage.oom_kills, "execs", (json_int_t)kept->last_exec, "running",
                    (json_int_t)kept->exec_count + pin_runner_is_busy(kept), "idle_ms",
                    (json_int_t)((pin_now_ns() - kept->active_ns) / PIN_NS_PER_MS), "egress_events",
                    (json_int_t)kept->egress_events));
}

bool pin_verbs_set_frozen(struct pin_kept *kept, struct pin_error *err) {
    const struct pin_cgroup *group = kept->given->sandbox->cgroup;
    bool wanted = kept->paused || kept->holds > 0;
    if (wanted == kept->frozen)
        return true;
    if (group == NULL)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "the sandbox has no cgroup that could be frozen");
    if (wanted && kept->starting != NULL) /* init would stop with a child that shares its memory */
        return pin_fail(err, PIN_ERROR_BUSY, "a command is just being started; try again");
    if (wanted ? !pin_cgroup_freeze(group, FREEZE_NS, err) : !pin_cgroup_thaw(group, err))
        return false;
    kept->frozen = wanted;
    return true;
}

static void set_hold(struct conn *conn, bool holds) {
    conn->kept->holds += holds && !conn->holds;
    conn->kept->holds -= !holds && conn->holds;
    conn->holds = holds;
}

static void set_paused(struct conn *conn, const struct pin_kept_request *request, bool paused) {
    struct pin_kept *kept = conn->kept;
    struct pin_error err = {0};
    bool held = conn->holds, before = kept->paused;
    if (request->hold || (!paused && conn->holds))
        set_hold(conn, paused);
    else
        kept->paused = paused;
    if (pin_verbs_set_frozen(kept, &err)) {
        reply(conn, request, NULL);
        return;
    }
    set_hold(conn, held);
    kept->paused = before;
    pin_conn_fail(conn, request->id, &err);
}

static void serve_pause(struct conn *conn, struct pin_kept_request *request) {
    set_paused(conn, request, true);
}

static void serve_resume(struct conn *conn, struct pin_kept_request *request) {
    set_paused(conn, request, false);
}

static size_t waits_of(const struct pin_kept *kept, pid_t peer) {
    size_t count = 0;
    for (size_t i = 0; i < kept->wait_count; i++)
        count += kept->waits[i].conn->peer == peer;
    return count;
}

static void add_wait(struct conn *conn, const struct pin_kept_request *request) {
    struct pin_kept *kept = conn->kept;
    struct pin_error err = {0};
    if (!pin_peer_may(waits_of(kept, conn->peer), WAITS_MAX, "waits", &err)) {
        pin_conn_fail(conn, request->id, &err);
        return;
    }
    if (kept->wait_count >= WAITS_MAX) {
        refuse(conn, request, PIN_ERROR_EXHAUSTED, "too many wait for this sandbox already");
        return;
    }
    kept->waits[kept->wait_count++] = (struct wait){conn, request->id, (uint32_t)request->exec};
}

static void serve_stop(struct conn *conn, struct pin_kept_request *request) {
    struct pin_kept_request of_sandbox = {.id = request->id};
    uint64_t grace_ns =
        request->has_grace ? request->grace_ms * PIN_NS_PER_MS : conn->kept->given->limits.grace_ns;
    add_wait(conn, &of_sandbox);
    pin_kept_end(conn->kept, "stopped", grace_ns);
}

static void serve_kill(struct conn *conn, struct pin_kept_request *request) {
    struct pin_kept_request of_sandbox = {.id = request->id};
    add_wait(conn, &of_sandbox);
    conn->kept->is_cut = true;
    pin_kept_end(conn->kept, "killed", 0);
}

static void serve_wait(struct conn *conn, struct pin_kept_request *request) {
    const struct ended *ended = &conn->kept->ended[request->exec % ENDS_KEPT];
    if (request->exec == 0 || pin_exec_find(conn->kept, request->exec) != NULL)
        add_wait(conn, request);
    else if (ended->id == request->exec)
        reply(conn, request,
              json_pack("{s:s, s:i, s:o}", "status", pin_status_name(ended->status), "exit_code",
                        ended->exit_code, "signal", pin_result_signal(ended->signal)));
    else
        refuse(conn, request, PIN_ERROR_NOT_FOUND, "no command of this number is known any more");
}

static void serve_renew(struct conn *conn, struct pin_kept_request *request) {
    struct pin_kept *kept = conn->kept;
    struct pin_error err = {0};
    uint64_t age_ns = pin_now_ns() - kept->started_ns;
    if (request->has_idle)
        kept->idle_ns = request->idle_ms * PIN_NS_PER_MS;
    if (request->has_lifetime)
        kept->lifetime_ns = age_ns + request->lifetime_ms * PIN_NS_PER_MS;
    if (pin_kept_set_times(kept, &err))
        reply(conn, request, NULL);
    else
        pin_conn_fail(conn, request->id, &err);
}

/* For copying: what is done with it, the client does, below this descriptor alone. */
static void serve_root(struct conn *conn, struct pin_kept_request *request) {
    char path[64];
    struct pin_error err = {0};
    (void)snprintf(path, sizeof(path), "/proc/%d/root", (int)conn->kept->given->sandbox->init);
    PIN_CLOSE int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        (void)pin_fail_errno(&err, "open the sandbox's root");
        pin_conn_fail(conn, request->id, &err);
        return;
    }
    pin_conn_send_fd(
        conn,
        json_pack("{s:I, s:{s:I, s:I}}", "id", (json_int_t)request->id, "ok", "uid",
                  (json_int_t)(conn->kept->given->has_owner ? conn->kept->given->owner_uid : geteuid()),
                  "gid",
                  (json_int_t)(conn->kept->given->has_owner ? conn->kept->given->owner_gid : getegid())),
        root);
}

static void serve_lend(struct conn *conn, struct pin_kept_request *request) {
    struct pin_error err = {0};
    if (pin_conn_lend(conn, &err))
        reply(conn, request, json_pack("{s:I}", "lent", (json_int_t)conn->lent));
    else
        pin_conn_fail(conn, request->id, &err);
}

/* For commit, which reads it, and has the sandbox frozen meanwhile. */
static void serve_changes(struct conn *conn, struct pin_kept_request *request) {
    const struct pin_kept_given *given = conn->kept->given;
    if (given->sandbox->upper < 0 || given->image_digest == NULL) {
        refuse(conn, request, PIN_ERROR_UNSUPPORTED,
               "the sandbox keeps no changes of an image: its root is the host's or can't be written");
        return;
    }
    PIN_CLOSE int upper = fcntl(given->sandbox->upper, F_DUPFD_CLOEXEC, 0);
    pin_conn_send_fd(conn,
                     json_pack("{s:I, s:{s:I, s:s}}", "id", (json_int_t)request->id, "ok", "first_id",
                               (json_int_t)given->first_id, "image", given->image_digest),
                     upper);
}

static void serve_egress(struct conn *conn, struct pin_kept_request *request) {
    const struct pin_kept_given *given = conn->kept->given;
    struct pin_error err = {0};
    json_t *answer = given->serve_egress(given->self, request, &err);
    if (answer != NULL)
        reply(conn, request, answer);
    else
        pin_conn_fail(conn, request->id, &err);
}

static serve_verb *const verbs[] = {
    [PIN_KEPT_EXEC] = serve_exec,       [PIN_KEPT_SIGNAL] = serve_signal,
    [PIN_KEPT_END] = serve_end,         [PIN_KEPT_RESIZE] = serve_resize,
    [PIN_KEPT_SHOW] = serve_show,       [PIN_KEPT_STATS] = serve_stats,
    [PIN_KEPT_PAUSE] = serve_pause,     [PIN_KEPT_RESUME] = serve_resume,
    [PIN_KEPT_STOP] = serve_stop,       [PIN_KEPT_KILL] = serve_kill,
    [PIN_KEPT_WAIT] = serve_wait,       [PIN_KEPT_RENEW] = serve_renew,
    [PIN_KEPT_ROOT] = serve_root,       [PIN_KEPT_LEND] = serve_lend,
    [PIN_KEPT_ATTACH] = pin_attach_new, [PIN_KEPT_CHANGES] = serve_changes,
    [PIN_KEPT_CALL] = pin_runner_serve, [PIN_KEPT_EGRESS] = serve_egress,
};
_Static_assert(sizeof(verbs) / sizeof(verbs[0]) == PIN_KEPT_VERB_COUNT, "every verb is served");

void pin_verbs_serve(struct conn *conn, struct pin_kept_request *request) {
    if (request->verb != PIN_KEPT_SHOW && request->verb != PIN_KEPT_STATS && request->verb != PIN_KEPT_WAIT)
        pin_kept_touch(conn->kept);
    verbs[request->verb](conn, request);
}

/* The first one that waits for this. */
static bool take_wait(struct pin_kept *kept, uint32_t exec, struct wait *taken) {
    size_t at = 0;
    while (at < kept->wait_count && kept->waits[at].exec != exec)
        at++;
    if (at == kept->wait_count)
        return false;
    *taken = kept->waits[at];
    kept->wait_count--;
    memmove(&kept->waits[at], &kept->waits[at + 1], (kept->wait_count - at) * sizeof(kept->waits[0]));
    return true;
}

/* One at a time: telling one that has hung up takes what it waits for off the list. */
void pin_verbs_wake(struct pin_kept *kept, uint32_t exec, json_t *result) {
    struct wait wait;
    while (take_wait(kept, exec, &wait)) {
        json_t *told =
            json_pack("{s:O, s:O, s:O}", "status", json_object_get(result, "status"), "exit_code",
                      json_object_get(result, "exit_code"), "signal", json_object_get(result, "signal"));
        pin_conn_send(wait.conn, json_pack("{s:I, s:o}", "id", (json_int_t)wait.request_id, "ok",
                                           told != NULL ? told : json_incref(result)));
    }
}
