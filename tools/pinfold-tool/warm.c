#include "tools/pinfold-tool/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/kept/home.h"
#include "runtime/state/state_dir.h"
#include "runtime/tool/result.h"
#include "tools/pinfold-kept/client.h"
#include "tools/pinfold-kept/up.h"
#include "tools/pinfold-tool/handed.h"
#include "tools/pinfold-tool/packet.h"
#include "tools/pinfold-tool/runners.h"
#include "tools/pinfold-tool/shield.h"
#include "tools/pinfold-tool/warm_wait.h"

#define WAIT_NS (30 * PIN_NS_PER_S)
#define WAIT_STEP_NS (2 * PIN_NS_PER_MS)
#define PLACES_MAX 64 /* sandboxes of one prefix */
#define NAME_MAX_TEXT 56
#define PREFIX_DIGITS 16 /* of the fingerprint, in a name */

static bool shares(const struct pin_warm *warm) {
    return warm->scope == PIN_TOOL_SCOPE_SANDBOX;
}

/* Interpreters read these when they start: one that is there already would never see them. */
static bool is_read_at_start(const char *variable) {
    static const char *const prefixes[] = {"PYTHON", "NODE_", "LD_", "LC_", "MALLOC_", "GLIBC_", "SSL_"};
    static const char *const own[] = {"PYTHONUNBUFFERED=", "PYTHONWARNINGS=", "NODE_NO_WARNINGS="};
    for (size_t i = 0; i < PIN_COUNT(own); i++)
        if (strncmp(variable, own[i], strlen(own[i])) == 0)
            return false;
    for (size_t i = 0; i < PIN_COUNT(prefixes); i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

bool pin_warm_check_variable(const char *variable, struct pin_error *err) {
    return !is_read_at_start(variable) ||
           pin_fail(err, PIN_ERROR_UNSUPPORTED, "interpreters read '%.*s' when they start",
                    (int)strcspn(variable, "="), variable);
}

/* Kept sandboxes carry none of these out. */
static bool check(const struct pin_warm *warm, struct pin_error *err) {
    const struct pin_bundle *bundle = warm->front->bundle;
    if (warm->receipt)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "it wants a receipt");
    if (pin_call_sealed_size(warm->env) > PIN_KEPT_SEALED_MOST)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "it is handed sealed values of more than %zu bytes",
                        PIN_KEPT_SEALED_MOST);
    if (bundle->ext.secret_count > 0 && !warm->may_hand)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "it is handed secrets");
    if (bundle->ext.secret_count > 0 && !pin_handed_check(warm, err))
        return false;
    if (bundle->ext.record_count > 0)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "the policy wants an audit log");
    if (bundle->ext.cpu_time_ns != PIN_UNLIMITED)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "the policy limits CPU time");
    if (bundle->ext.workspace.access == PIN_ACCESS_COW)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "its workspace is copied on write");
    if (shares(warm))
        return true;
    for (size_t i = 0; i < warm->env->sealed_count; i++)
        if (!pin_warm_check_variable(warm->env->sealed[i]->name, err))
            return false;
    for (size_t i = 0; i < bundle->process.env_count; i++)
        if (!pin_warm_check_variable(bundle->process.env[i], err))
            return false;
    return true;
}

static bool prepare(struct pin_warm *warm, struct pin_error *err) {
    uint8_t digest[PIN_SHA256_SIZE];
    struct pin_bundle bundle = *warm->front->bundle;                        /* shallow */
    bundle.ext.wall_time_ns = warm->front->ceiling->resources.wall_time_ns; /* a call brings its own */
    bool forks = warm->request->reuse == PIN_TOOL_REUSE_FINGERPRINT &&
                 warm->request->language == PIN_TOOL_PYTHON && warm->env->sealed_count == 0 &&
                 bundle.ext.secret_count == 0;
    warm->scope = forks ? PIN_TOOL_SCOPE_SANDBOX : PIN_TOOL_SCOPE_POOL;
    if (!check(warm, err) || !pin_tool_fingerprint(&bundle, warm->shape, warm->scope, digest, err))
        return false;
    (void)pin_digest_print(warm->fingerprint, digest);
    if (!pin_family_of(warm->stored, warm->shape->language, &warm->family))
        return pin_fail_errno(err, "name a sandbox");
    (void)snprintf(warm->prefix, sizeof(warm->prefix), "%s%s-%s-%.*s",
                   shares(warm) ? PIN_POOL_WARM : PIN_POOL_AHEAD, warm->family.family, warm->family.revision,
                   PREFIX_DIGITS, strchr(warm->fingerprint, ':') + 1);
    warm->state_dir = pin_state_open(err);
    return warm->state_dir >= 0 && pin_pool_load(warm->state_dir, &warm->settings, err);
}

enum pin_warm_end pin_warm_begin(struct pin_warm *warm, struct pin_error *err) {
    if (prepare(warm, err))
        return PIN_WARM_NONE;
    return err->kind == PIN_ERROR_UNSUPPORTED ? PIN_WARM_CANNOT : PIN_WARM_FAILED;
}

void pin_warm_free(struct pin_warm *warm) {
    pin_close_fd(&warm->state_dir);
}

static void name_place(const struct pin_warm *warm, unsigned number, char name[NAME_MAX_TEXT]) {
    (void)snprintf(name, NAME_MAX_TEXT, "%s-%u", warm->prefix, number);
}

enum place { PLACE_OPEN, PLACE_STARTING, PLACE_FREE };

/* One that has ended leaves a directory, which is in the way of the next. */
static enum place look(const struct pin_warm *warm, const char *name, struct pin_client *client) {
    struct pin_error err = {0};
    client->name = name;
    client->in.limit = PIN_WIRE_REPLY_MAX;
    client->folder = pin_home_open(warm->state_dir, name, &err);
    if (client->folder < 0)
        return PLACE_FREE;
    struct pin_error refused = {0}, ignored = {0};
    client->socket = pin_home_connect(client->folder, name, &refused);
    if (client->socket >= 0)
        return PLACE_OPEN;
    if (pin_home_is_live(client->folder))
        return PLACE_STARTING;
    return pin_home_remove(warm->state_dir, name, &ignored) ? PLACE_FREE : PLACE_STARTING;
}

static json_t *environment(const struct pin_bundle *bundle) {
    json_t *object = json_object();
    for (size_t i = 0; i < bundle->process.env_count; i++) {
        const char *variable = bundle->process.env[i], *equals = strchr(variable, '=');
        if (equals == NULL)
            continue;
        (void)json_object_setn_new(object, variable, (size_t)(equals - variable), json_string(equals + 1));
    }
    return object;
}

/* The call can't have run: that would have been told first. */
static enum pin_warm_end declined(json_t *reply, const struct pin_error *failure, struct pin_error *err) {
    json_decref(reply);
    if (reply == NULL && (failure->kind == PIN_ERROR_BUSY || failure->kind == PIN_ERROR_SYSTEM))
        return PIN_WARM_NONE;
    if (reply != NULL)
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "the sandbox sent an answer to another question");
    else
        *err = *failure;
    return PIN_WARM_FAILED;
}

static json_t *question(const struct pin_warm *warm, size_t sealed, const char *key) {
    json_t *request = pin_client_request("call");
    (void)json_object_set_new(request, "key", json_string(key));
    (void)json_object_set_new(request, "if_idle", json_true());
    if (warm->request->timeout_ns > 0)
        (void)json_object_set_new(
            request, "timeout_ms",
            json_integer((json_int_t)((warm->request->timeout_ns + PIN_NS_PER_MS - 1) / PIN_NS_PER_MS)));
    if (sealed > 0)
        (void)json_object_set_new(request, "sealed", json_integer((json_int_t)sealed));
    return request;
}

/* The first message of the reply. */
static json_t *send_call(const struct pin_warm *warm, struct pin_client *client, int packet, const char *key,
                         struct pin_error *err) {
    struct pin_sealed_opening opening = {.from = -1};
    struct pin_error fault = {0};
    size_t sealed = warm->env->sealed_count;
    bool open = true;
    if (warm->front->bundle->ext.secret_count > 0)
        open = (opening.from = pin_handed_open(warm, &sealed, err)) >= 0;
    else if (sealed > 0)
        open = pin_call_begin_sealed(warm->stored, warm->env, &opening, err);
    const int fds[] = {packet, opening.from};
    uint64_t patience_ns = (1 + sealed) * pin_client_answer_ns(client); /* a program may be asked for each */
    bool sent = open && pin_client_set_patience(client, patience_ns, err) &&
                pin_client_send(client, question(warm, sealed, key), fds, sealed > 0 ? 2 : 1, err);
    pin_close_fd(&opening.from);
    json_t *reply = sent ? pin_warm_await(client, patience_ns, err) : NULL;
    if (!pin_call_end_sealed(&opening, &fault) && reply == NULL && err->kind == PIN_ERROR_INTERNAL)
        *err = fault; /* why they didn't come */
    return reply;
}

/* The next call would wait for it as long as this one has. */
static void give_up(const struct pin_warm *warm, const struct pin_client *client) {
    struct pin_error left = {0}; /* it is among those that `pool clear` ends */
    if (client->is_silent)
        (void)pin_pool_end(warm->state_dir, client->name, &left);
}

/* From the start on: a call ends in its time, and then the answer is no later than any other. 0: whenever. */
static uint64_t longest_ns(const struct pin_warm *warm, const struct pin_client *client) {
    uint64_t limit_ns = warm->request->timeout_ns > 0 ? warm->request->timeout_ns
                                                      : warm->front->ceiling->resources.wall_time_ns;
    return limit_ns == PIN_UNLIMITED ? 0 : pin_later(limit_ns, pin_client_answer_ns(client));
}

static enum pin_warm_end ask(const struct pin_warm *warm, struct pin_client *client, int packet,
                             const char *key, json_t **result, int *exit_code, struct pin_error *err) {
    struct pin_error failure = {0};
    if (warm->connected != NULL)
        warm->connected(warm->self, client->socket);
    json_t *reply = send_call(warm, client, packet, key, &failure);
    if (json_object_get(reply, "event") == NULL && json_object_get(reply, "tool") == NULL) {
        give_up(warm, client);
        return declined(reply, &failure, err);
    }
    while (json_object_get(reply, "event") != NULL) {
        json_decref(reply);
        reply = pin_warm_await(client, longest_ns(warm, client), &failure);
    }
    json_t *tool = json_object_get(reply, "tool");
    if (tool != NULL) {
        *result = json_incref(tool);
        *exit_code = (int)json_integer_value(json_object_get(reply, "exit_code"));
    } else if (reply != NULL) {
        (void)pin_fail(&failure, PIN_ERROR_SYNTAX, "the sandbox '%s' sent an answer to another question",
                       client->name);
    }
    json_decref(reply);
    if (tool != NULL)
        return PIN_WARM_ANSWERED;
    give_up(warm, client);
    *err = failure;
    return PIN_WARM_FAILED;
}

enum pin_warm_end pin_warm_call(struct pin_warm *warm, json_t **result, int *exit_code,
                                struct pin_error *err) {
    char key[PIN_TOOL_KEY_TEXT];
    json_t *env = shares(warm) ? NULL : environment(warm->front->bundle);
    PIN_CLOSE int packet =
        pin_packet_make(warm->request, shares(warm) ? PIN_RUNNER_FORKS : PIN_RUNNER_AHEAD, env, key, err);
    json_decref(env);
    if (packet < 0)
        return PIN_WARM_FAILED;
    for (unsigned i = 0, missing = 0; i < PLACES_MAX && missing < 2; i++) {
        PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
        char name[NAME_MAX_TEXT];
        name_place(warm, i, name);
        enum place place = look(warm, name, &client);
        missing += place == PLACE_FREE;
        if (place != PLACE_OPEN || lseek(packet, 0, SEEK_SET) != 0) /* one that ended may have read of it */
            continue;
        enum pin_warm_end end = ask(warm, &client, packet, key, result, exit_code, err);
        if (end != PIN_WARM_NONE)
            return end;
    }
    return PIN_WARM_NONE;
}

/* What is built for a pool knows nothing of the call that asked for it. */
static void generalise(const struct pin_warm *warm, struct pin_front_options *options) {
    *options = *warm->options;
    options->timeout = (struct pin_number){0};
    if (shares(warm)) {
        options->narrow = pin_shield;
        return;
    }
    options->env_over = NULL;
    options->env_over_count = 0;
    options->labels = options->env = options->secrets = options->secret_variables = (struct pin_texts){0};
}

static bool start(struct pin_warm *warm, const char *name, struct pin_error *err) {
    struct pin_front front = PIN_FRONT_NONE;
    struct pin_findings found = {0};
    struct pin_front_options options;
    size_t count = 0, runner_count = 0;
    char **command = pin_runner_argv(warm->request->language, PIN_RUNNER_COLD, warm->arena, &count);
    char **runner =
        pin_runner_argv(warm->request->language, shares(warm) ? PIN_RUNNER_FORKS : PIN_RUNNER_AHEAD,
                        warm->arena, &runner_count);
    if (pin_call_deps_python(warm->deps) != NULL)
        command[0] = runner[0] = pin_arena_strdup(warm->arena, pin_call_deps_python(warm->deps));
    generalise(warm, &options);
    bool ok = pin_front_bundle(&front, &options, command, count, &found);
    if (ok)
        pin_call_deps_path(warm->deps, front.bundle);
    ok = ok && pin_front_plan(&front, &found);
    if (!ok)
        (void)pin_fail_findings(err, &found);
    const struct pin_kept_runner kept = {.argv = (const char *const *)runner,
                                         .forks = shares(warm),
                                         .letta_frames = options.letta_frames,
                                         .describe = pin_tool_result_json};
    const struct pin_up_settings settings = {name, warm->settings.idle_ns, warm->fingerprint, &kept};
    ok = ok && (!shares(warm) || pin_up_can_share(&front, err)) && pin_up_start(&front, &settings, err);
    pin_front_free(&front);
    return ok;
}

bool pin_warm_wants_more(const struct pin_warm *warm, enum pin_warm_end end) {
    return end == PIN_WARM_NONE || (end == PIN_WARM_ANSWERED && !shares(warm));
}

struct census {
    unsigned idle, starting;
    unsigned free_place; /* the first number without one */
    unsigned started;    /* by us, so far */
};

static struct census count(const struct pin_warm *warm, unsigned started) {
    struct census census = {.free_place = PLACES_MAX, .started = started};
    for (unsigned i = 0, missing = 0; i < PLACES_MAX && missing < 2; i++) {
        PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
        struct pin_error err = {0};
        char name[NAME_MAX_TEXT];
        name_place(warm, i, name);
        enum place place = look(warm, name, &client);
        missing += place == PLACE_FREE;
        if (place == PLACE_FREE && census.free_place == PLACES_MAX)
            census.free_place = i;
        json_t *stats =
            place == PLACE_OPEN ? pin_client_call(&client, pin_client_request("stats"), &err) : NULL;
        census.starting += place == PLACE_STARTING;
        census.idle += pin_pool_is_idle(stats);
        json_decref(stats);
    }
    return census;
}

/* Starts one that is missing; *enough: there is nothing left to start. */
static bool start_missing(struct pin_warm *warm, bool *enough, struct census *census, struct pin_error *err) {
    char name[NAME_MAX_TEXT];
    if (!pin_pool_load(warm->state_dir, &warm->settings, err)) /* it may have changed meanwhile */
        return false;
    uint64_t wanted = shares(warm) ? 1 : warm->settings.ahead;
    *census = count(warm, census->started);
    *enough = census->idle + census->starting >= wanted || census->free_place == PLACES_MAX;
    if (*enough)
        return true;
    if (census->started >= wanted) { /* their callers start others, and who ends them wants none */
        (void)pin_fail(err, PIN_ERROR_BUSY, "what was started for the pool has gone again");
        return pin_hint(err, "is the idle timeout long enough? 'pinfold pool show' tells it");
    }
    if (!pin_pool_replace(warm->state_dir, warm->family.family, warm->family.revision, err))
        return false;
    if (!pin_pool_make_room(warm->state_dir, &warm->settings, warm->prefix))
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "the pool's bounds are reached");
    name_place(warm, census->free_place, name);
    if (start(warm, name, err)) {
        census->started++;
        return true;
    }
    if (err->kind != PIN_ERROR_EXISTS)
        return false;
    pin_error_clear(err); /* somebody else was faster */
    return true;
}

bool pin_warm_top_up(struct pin_warm *warm, bool wait, struct pin_error *err) {
    struct census census = {0};
    pin_handed_forget(warm); /* what is started outlives the call, as a fork of ourselves */
    for (uint64_t waited_ns = 0;;) {
        bool enough = false;
        if (!start_missing(warm, &enough, &census, err))
            return false;
        if (enough && (!wait || census.starting == 0))
            return true;
        if (!enough)
            continue;
        if ((waited_ns += WAIT_STEP_NS) > WAIT_NS)
            return pin_fail(err, PIN_ERROR_BUSY, "a sandbox that is being started doesn't get ready");
        (void)usleep(WAIT_STEP_NS / 1000);
    }
}

/* Twice, so that nobody has to wait for it; and away from the caller's descriptors, whose readers wait for
 * their end. */
void pin_warm_top_up_behind(struct pin_warm *warm) {
    pid_t middle = fork();
    if (middle > 0)
        (void)waitpid(middle, NULL, 0);
    if (middle != 0)
        return;
    PIN_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
        (void)dup2(null, fd);
    (void)setsid();
    if (null >= 0 && fork() == 0) {
        struct pin_error err = {0};
        (void)pin_warm_top_up(warm, false, &err); /* the next call runs cold, and tries again */
    }
    _exit(0);
}
