#include "tools/pinfold-kept/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/kept/home.h"
#include "runtime/state/state_dir.h"
#include "runtime/supervise/terminal.h"

#define FDS_MAX 3
#define HOLD_TRIES 500 /* of 2 ms */

bool pin_client_find(struct pin_client *client, const char *name, struct pin_error *err) {
    client->name = name;
    client->in.limit = PIN_WIRE_REPLY_MAX;
    client->state_dir = pin_state_open(err);
    client->folder = client->state_dir < 0 ? -1 : pin_home_open(client->state_dir, name, err);
    return client->folder >= 0;
}

bool pin_client_open(struct pin_client *client, const char *name, struct pin_error *err) {
    if (!pin_client_find(client, name, err))
        return false;
    client->socket = pin_home_connect(client->folder, name, err);
    return client->socket >= 0;
}

void pin_client_close(struct pin_client *client) {
    pin_wire_free(&client->in);
    pin_close_fd(&client->socket);
    pin_close_fd(&client->folder);
    pin_close_fd(&client->state_dir);
}

json_t *pin_client_request(const char *verb) {
    json_t *request = json_pack("{s:i, s:i, s:s}", "pinfold", PIN_WIRE_VERSION, "id", 1, "verb", verb);
    if (request == NULL)
        abort(); /* out of memory for a hundred bytes */
    return request;
}

bool pin_client_put_text(json_t *request, const char *key, const char *text, struct pin_error *err) {
    return text == NULL || json_object_set_new(request, key, json_string(text)) == 0 ||
           pin_fail(err, PIN_ERROR_INVALID, "'%.60s', the '%s', isn't UTF-8", text, key);
}

bool pin_client_put_texts(json_t *request, const char *key, const char *const *texts, size_t count,
                          struct pin_error *err) {
    json_t *list = json_array();
    if (count > 0)
        (void)json_object_set(request, key, list);
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++)
        ok = json_array_append_new(list, json_string(texts[i])) == 0 ||
             pin_fail(err, PIN_ERROR_INVALID, "number %zu of '%s' isn't UTF-8", i + 1, key);
    json_decref(list);
    return ok;
}

/* `error`: of the socket. ECONNRESET or EPIPE: it has gone without having read all of the request. */
static bool gone(const struct pin_client *client, int error, struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_SYSTEM, "the sandbox '%s' has gone", client->name);
    err->os_errno = error;
    return pin_hint(err, "'pinfold show %s' says why", client->name);
}

bool pin_client_is_unanswered(struct pin_client *client, struct pin_error *err) {
    client->is_silent = true;
    (void)pin_fail(err, PIN_ERROR_EXHAUSTED, "the supervisor of '%s' doesn't answer", client->name);
    return pin_hint(err, "'pinfold kill %s' ends it in any case", client->name);
}

static ssize_t send_first(int fd, const uint8_t *bytes, size_t size, const int *fds, int count) {
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control.room;
        message.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, (size_t)count * sizeof(int));
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

/* It has hung up, and may have said why before. */
static bool turned_away(struct pin_client *client, int error, struct pin_error *err) {
    json_t *unasked = pin_client_receive(client, NULL, err);
    if (unasked != NULL)
        (void)gone(client, error, err);
    else if (err->os_errno == 0 && err->kind == PIN_ERROR_SYSTEM)
        err->os_errno = error;
    json_decref(unasked);
    return false;
}

bool pin_client_send(struct pin_client *client, json_t *request, const int *fds, int count,
                     struct pin_error *err) {
    size_t size = 0;
    PIN_FREE uint8_t *bytes = pin_wire_print(request, &size);
    if (bytes == NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory for a request");
    for (size_t sent = 0; sent < size;) {
        ssize_t part = send_first(client->socket, bytes + sent, size - sent, fds, sent == 0 ? count : 0);
        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0 && errno == EAGAIN)
            return pin_client_is_unanswered(client, err);
        if (part < 0)
            return turned_away(client, errno, err);
        sent += (size_t)part;
    }
    return true;
}

static bool receive_some(struct pin_client *client, int *fd, struct pin_error *err) {
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    size_t room = 0;
    uint8_t *to = pin_wire_room(&client->in, &room);
    struct iovec part = {to, room};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};
    if (to == NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory for a reply");
    ssize_t got;
    do
        got = recvmsg(client->socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        return pin_client_is_unanswered(client, err);
    if (got <= 0)
        return gone(client, got < 0 ? errno : 0, err);
    const struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    if (rights != NULL && rights->cmsg_type == SCM_RIGHTS) {
        int came;
        memcpy(&came, CMSG_DATA(rights), sizeof(came));
        if (fd != NULL && *fd < 0)
            *fd = came;
        else
            (void)close(came);
    }
    return pin_wire_put(&client->in, (size_t)got, err);
}

static enum pin_error_kind kind_of(const char *name) {
    for (int kind = PIN_ERROR_USAGE; kind < PIN_ERROR_COUNT; kind++)
        if (name != NULL && strcmp(pin_error_kind_name((enum pin_error_kind)kind), name) == 0)
            return (enum pin_error_kind)kind;
    return PIN_ERROR_INTERNAL;
}

static void take_error(const json_t *error, struct pin_error *err) {
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *pointer = json_string_value(json_object_get(error, "pointer"));
    const char *hint = json_string_value(json_object_get(error, "hint"));
    (void)pin_fail(err, kind_of(json_string_value(json_object_get(error, "kind"))), "%s",
                   message != NULL ? message : "the sandbox refuses");
    if (pointer != NULL && pointer[0] != '\0')
        (void)pin_point(err, "%s", pointer);
    if (hint != NULL && hint[0] != '\0')
        (void)pin_hint(err, "%s", hint);
}

json_t *pin_client_receive(struct pin_client *client, int *fd, struct pin_error *err) {
    const char *text;
    size_t size;
    json_error_t fault;
    if (fd != NULL)
        *fd = -1;
    while (!pin_wire_is_whole(&client->in, &text, &size))
        if (!receive_some(client, fd, err))
            return NULL;
    json_t *message = json_loadb(text, size, JSON_ALLOW_NUL, &fault);
    pin_wire_next(&client->in);
    const json_t *error = json_object_get(message, "error");
    if (message == NULL)
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "the sandbox '%s' sent no JSON", client->name);
    if (error == NULL)
        return message;
    take_error(error, err);
    json_decref(message);
    return NULL;
}

static bool set_patience(const struct pin_client *client, uint64_t ns, struct pin_error *err) {
    const struct timeval patience = {.tv_sec = (time_t)(ns / PIN_NS_PER_S),
                                     .tv_usec = (suseconds_t)(ns % PIN_NS_PER_S / 1000)};
    return (setsockopt(client->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
            setsockopt(client->socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0) ||
           pin_fail_errno(err, "set how long an answer is waited for");
}

bool pin_client_set_patience(struct pin_client *client, uint64_t ns, struct pin_error *err) {
    client->patience_ns = ns;
    return set_patience(client, ns, err);
}

uint64_t pin_client_answer_ns(const struct pin_client *client) {
    return client->answer_ns > 0 ? client->answer_ns : PIN_CLIENT_ANSWER_NS;
}

static bool is_answered_at_once(const json_t *request) {
    const char *verb = json_string_value(json_object_get(request, "verb"));
    return verb != NULL && strcmp(verb, "wait") != 0 && strcmp(verb, "stop") != 0 &&
           strcmp(verb, "kill") != 0;
}

static json_t *ask(struct pin_client *client, json_t *request, int *fd, struct pin_error *err) {
    uint64_t answer_ns = is_answered_at_once(request) ? pin_client_answer_ns(client) : 0;
    if (!set_patience(client, answer_ns, err)) {
        json_decref(request);
        return NULL;
    }
    json_t *reply =
        pin_client_send(client, request, NULL, 0, err) ? pin_client_receive(client, fd, err) : NULL;
    if (reply != NULL && !set_patience(client, client->patience_ns, err)) {
        json_decref(reply);
        return NULL;
    }
    return reply;
}

json_t *pin_client_call(struct pin_client *client, json_t *request, struct pin_error *err) {
    json_t *reply = ask(client, request, NULL, err);
    json_t *ok = reply == NULL ? NULL : json_incref(json_object_get(reply, "ok"));
    if (reply != NULL && ok == NULL)
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "the sandbox '%s' sent an answer to another question",
                       client->name);
    json_decref(reply);
    return ok;
}

json_t *pin_client_ask_fd(struct pin_client *client, const char *verb, int *fd, struct pin_error *err) {
    int got = -1;
    json_t *reply = ask(client, pin_client_request(verb), &got, err);
    json_t *ok = reply == NULL ? NULL : json_incref(json_object_get(reply, "ok"));
    json_decref(reply);
    if (ok != NULL && got >= 0) {
        *fd = got;
        return ok;
    }
    if (ok != NULL)
        (void)pin_fail(err, PIN_ERROR_INTERNAL, "the sandbox sent no descriptor");
    pin_close_fd(&got);
    json_decref(ok);
    return NULL;
}

bool pin_client_resize(struct pin_client *client, json_int_t exec, struct pin_error *err) {
    uint16_t rows, columns;
    pin_terminal_size(STDIN_FILENO, &rows, &columns);
    json_t *request = pin_client_request("resize");
    (void)json_object_set_new(request, "id", json_integer(2));
    (void)json_object_set_new(request, "exec", json_integer(exec));
    (void)json_object_set_new(request, "rows", json_integer(rows));
    (void)json_object_set_new(request, "columns", json_integer(columns));
    return pin_client_send(client, request, NULL, 0, err);
}

bool pin_client_hold(struct pin_client *client, struct pin_error *err) {
    for (int tries = 0;; tries++) {
        json_t *request = pin_client_request("pause");
        (void)json_object_set_new(request, "hold", json_true());
        json_t *ok = pin_client_call(client, request, err);
        json_decref(ok);
        if (ok != NULL || err->kind != PIN_ERROR_BUSY || tries == HOLD_TRIES)
            return ok != NULL;
        pin_error_clear(err);
        (void)usleep(2000);
    }
}
