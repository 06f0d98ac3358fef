#include "tools/pinfold-audit/sink.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"

#define FACILITY 10 /* authpriv */

/* Of RFC 5424: what an operator should look at first. */
static const struct {
    const char *event;
    int severity;
} severities[] = {
    {"refusal", 4},
    {"limit",   4},
    {"repair",  4},
};

static int severity_of(const struct pin_audit_record *record) {
    const char *event = json_string_value(json_object_get(record->json, "event"));
    for (size_t i = 0; i < PIN_COUNT(severities); i++)
        if (event != NULL && strcmp(event, severities[i].event) == 0)
            return severities[i].severity;
    return 6;
}

bool pin_audit_sink_open(struct pin_audit_sink *sink, bool journald, const char *path,
                         struct pin_error *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL)
        path = journald ? "/run/systemd/journal/socket" : "/dev/log";
    if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >= (int)sizeof(address.sun_path))
        return pin_fail(err, PIN_ERROR_INVALID, "the path of the socket is too long");
    PIN_CLOSE int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)pin_fail_errno(err, "reach '%s'", path);
        return pin_hint(err, "does %s run here?", journald ? "systemd-journald" : "a syslog daemon");
    }
    *sink = (struct pin_audit_sink){pin_steal_fd(&fd), journald};
    return true;
}

void pin_audit_sink_close(struct pin_audit_sink *sink) {
    pin_close_fd(&sink->socket);
}

/* <PRI>1 TIME HOST APP PROCID MSGID SD MSG */
static char *as_syslog(const struct pin_audit_record *record, const char *line, size_t size, size_t *total) {
    struct utsname names = {.nodename = "-"};
    char *text = NULL;
    const char *event = json_string_value(json_object_get(record->json, "event"));
    char time[28];
    (void)uname(&names);
    /* RFC 5424 has six digits of a second, the log has nine */
    (void)snprintf(time, sizeof(time), "%.26s", json_string_value(json_object_get(record->json, "time")));
    int length = asprintf(&text, "<%d>1 %sZ %s pinfold - %.32s - %.*s", FACILITY * 8 + severity_of(record),
                          time, names.nodename[0] != '\0' ? names.nodename : "-", event, (int)size, line);
    *total = length < 0 ? 0 : (size_t)length;
    return length < 0 ? NULL : text;
}

static void put_field(FILE *to, const char *name, const char *value) {
    (void)fprintf(to, "%s=%s\n", name, value); /* the log is ASCII without line breaks: record.h */
}

static void put_text(FILE *to, const char *name, const json_t *value) {
    if (json_is_string(value))
        put_field(to, name, json_string_value(value));
}

/* Upper case letters, digits and underscores: what a field's name may have. */
static void put_label(FILE *to, const char *key, const json_t *value) {
    char name[64];
    size_t length = (size_t)snprintf(name, sizeof(name), "PINFOLD_LABEL_");
    for (; *key != '\0' && length < sizeof(name) - 1; key++)
        name[length++] = isalnum((unsigned char)*key) ? (char)toupper((unsigned char)*key) : '_';
    name[length] = '\0';
    put_text(to, name, value);
}

static bool has_break(const json_t *value) {
    const char *text = json_string_value(value);
    return text == NULL || strchr(text, '\n') != NULL;
}

static char *as_journal(const struct pin_audit_record *record, const char *line, size_t size, size_t *total) {
    char *text = NULL, number[32];
    const char *key;
    json_t *value;
    FILE *to = open_memstream(&text, total);
    if (to == NULL)
        return NULL;
    (void)fprintf(to, "MESSAGE=%.*s\n", (int)size, line);
    (void)snprintf(number, sizeof(number), "%d", severity_of(record));
    put_field(to, "PRIORITY", number);
    put_field(to, "SYSLOG_IDENTIFIER", "pinfold");
    (void)snprintf(number, sizeof(number), "%d", FACILITY);
    put_field(to, "SYSLOG_FACILITY", number);
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)record->seq);
    put_field(to, "PINFOLD_SEQ", number);
    put_field(to, "PINFOLD_HASH", record->hash);
    put_text(to, "PINFOLD_EVENT", json_object_get(record->json, "event"));
    put_text(to, "PINFOLD_SANDBOX", json_object_get(record->json, "sandbox"));
    json_object_foreach(json_object_get(record->json, "labels"), key, value) if (!has_break(value))
        put_label(to, key, value);
    bool ok = ferror(to) == 0;
    if (fclose(to) == 0 && ok)
        return text;
    free(text);
    return NULL;
}

static bool send_whole(int socket, const char *text, size_t size) {
    ssize_t sent;
    do
        sent = send(socket, text, size, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)size;
}

static bool send_file(int socket, const char *text, size_t size, struct pin_error *err) {
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    PIN_CLOSE int file = memfd_create("pinfold-audit", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 || !pin_write_all(file, text, size, err))
        return file >= 0 ? false : pin_fail_errno(err, "make a file for a record");
    struct msghdr message = {.msg_control = control.room, .msg_controllen = sizeof(control.room)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &file, sizeof(int));
    if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0 &&
        sendmsg(socket, &message, MSG_NOSIGNAL) == 0)
        return true;
    return pin_fail_errno(err, "send a record in a file");
}

bool pin_audit_sink_send(const struct pin_audit_sink *sink, const struct pin_audit_record *record,
                         const char *line, size_t size, struct pin_error *err) {
    size_t total = 0;
    PIN_FREE char *text = (sink->journald ? as_journal : as_syslog)(record, line, size, &total);
    if (text == NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to export a record");
    if (send_whole(sink->socket, text, total))
        return true;
    if (errno == EMSGSIZE && sink->journald)
        return send_file(sink->socket, text, total, err);
    return pin_fail_errno(err, "send record %llu", (unsigned long long)record->seq);
}
