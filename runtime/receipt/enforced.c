#include "runtime/receipt/enforced.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/sha256.h"
#include "base/text.h"
#include "runtime/init/protocol.h"
#include "runtime/receipt/filter_digest.h"
#include "runtime/receipt/firewall.h"

enum { PATIENCE_MS = 30000, FACT_BYTES = 1024 * 1024, LINE_TEXT = 4096 };

bool pin_enforced_await(int control, struct pin_error *err) {
    struct pin_init_message message = {0};
    struct pollfd readable = {.fd = control, .events = POLLIN};
    int ready;
    do
        ready = poll(&readable, 1, PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    if (ready < 0)
        return pin_fail_errno(err, "wait for the sandbox");
    if (ready == 0)
        return pin_fail(err, PIN_ERROR_SYSTEM, "the sandbox isn't ready after %d seconds",
                        PATIENCE_MS / 1000);
    return recv(control, &message, sizeof(message), MSG_PEEK | MSG_WAITALL) == (ssize_t)sizeof(message) &&
           message.type == PIN_INIT_READY;
}

static void set(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key,
                              value); /* out of memory: the receipt then lacks it, and says less */
}

static json_t *text_json(const char *text, size_t size) {
    char shown[LINE_TEXT];
    return json_string(pin_escape(shown, sizeof(shown), text, size));
}

static json_t *lines_json(const char *text) {
    json_t *list = json_array();
    for (const char *line = text, *end; *line != '\0'; line = *end != '\0' ? end + 1 : end) {
        line += strspn(line, " ");
        end = line + strcspn(line, "\n");
        (void)json_array_append_new(list, text_json(line, (size_t)(end - line)));
    }
    return list;
}

static bool add_lines(json_t *facts, int proc, const char *file, struct pin_error *err) {
    size_t size;
    PIN_FREE char *text = pin_read_file_at(proc, file, FACT_BYTES, &size, err);
    if (text != NULL)
        set(facts, file, lines_json(text));
    return text != NULL || pin_wrap(err, "read '%s' of the sandbox", file);
}

/* The value of "NAME:\tvalue". */
static const char *find_field(const char *text, const char *name, size_t *size) {
    size_t length = strlen(name);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            const char *value = line + length + 1;
            value += strspn(value, "\t ");
            *size = strcspn(value, "\n");
            return value;
        }
    }
    return NULL;
}

static bool add_status(json_t *facts, int proc, struct pin_error *err) {
    static const char *const names[] = {"NoNewPrivs", "Seccomp", "Seccomp_filters", "CapInh",
                                        "CapPrm",     "CapEff",  "CapBnd",          "CapAmb",
                                        "Uid",        "Gid",     "Groups"};
    json_t *object = json_object();
    size_t size;
    set(facts, "status", object);
    PIN_FREE char *text = pin_read_file_at(proc, "status", FACT_BYTES, &size, err);
    if (text == NULL)
        return pin_wrap(err, "read 'status' of the sandbox");
    for (size_t i = 0; i < PIN_COUNT(names); i++) {
        const char *value = find_field(text, names[i], &size);
        if (value == NULL)
            return pin_fail(err, PIN_ERROR_UNSUPPORTED, "this kernel doesn't tell '%s' of a process",
                            names[i]);
        set(object, names[i], text_json(value, size));
    }
    return true;
}

static bool add_mounts(json_t *facts, int proc, struct pin_error *err) {
    uint8_t digest[PIN_SHA256_SIZE];
    char text_of[PIN_DIGEST_TEXT];
    size_t size;
    PIN_FREE char *text = pin_read_file_at(proc, "mountinfo", FACT_BYTES, &size, err);
    if (text == NULL)
        return pin_wrap(err, "read 'mountinfo' of the sandbox");
    pin_sha256(text, size, digest);
    set(facts, "mounts_digest", json_string(pin_digest_print(text_of, digest)));
    set(facts, "mounts", lines_json(text));
    return true;
}

static bool add_namespaces(json_t *facts, int proc, struct pin_error *err) {
    static const char *const names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"};
    json_t *object = json_object();
    set(facts, "namespaces", object);
    for (size_t i = 0; i < PIN_COUNT(names); i++) {
        char path[32], link[64];
        (void)snprintf(path, sizeof(path), "ns/%s", names[i]);
        ssize_t length = readlinkat(proc, path, link, sizeof(link));
        if (length < 0 || length == (ssize_t)sizeof(link))
            return pin_fail_errno(err, "read the namespace '%s' of the sandbox", names[i]);
        set(object, names[i], json_stringn(link, (size_t)length));
    }
    return true;
}

/* The names alone: what comes after them is counted from then on. */
static bool add_interfaces(json_t *facts, int proc, struct pin_error *err) {
    json_t *list = json_array();
    size_t size;
    set(facts, "interfaces", list);
    PIN_FREE char *text = pin_read_file_at(proc, "net/dev", FACT_BYTES, &size, err);
    if (text == NULL)
        return pin_wrap(err, "read 'net/dev' of the sandbox");
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += strspn(line, "\n ");
        size_t length = strcspn(line, ":\n|");
        if (line[length] == ':')
            (void)json_array_append_new(list, json_stringn(line, length));
    }
    return true;
}

/* The limits as the kernel has them: what is written to a cgroup is rounded. */
static void add_cgroup_values(json_t *list, int dir, const char *controller) {
    static const char *const files[] = {
        "memory.max",       "memory.swap.max",       "pids.max",
        "cpu.max",          "memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
        "cpu.cfs_quota_us", "cpu.cfs_period_us"};
    json_t *object = json_object();
    for (size_t i = 0; i < PIN_COUNT(files); i++) {
        struct pin_error missing = {0}; /* each version of cgroups, and each controller, has its own files */
        size_t size;
        PIN_FREE char *value = pin_read_file_at(dir, files[i], 4096, &size, &missing);
        if (value != NULL)
            set(object, files[i], text_json(value, strcspn(value, "\n")));
    }
    (void)json_array_append_new(list, json_pack("{s:s, s:o}", "controller", controller, "values", object));
}

static json_t *cgroups_json(const struct pin_cgroup *group) {
    json_t *list = json_array();
    const char *name;
    int dir;
    for (size_t i = 0; group != NULL && pin_cgroup_directory(group, i, &dir, &name); i++)
        add_cgroup_values(list, dir, name);
    return list;
}

static bool add_facts(json_t *facts, pid_t init, int proc, const struct pin_cgroup *group,
                      struct pin_error *err) {
    static const char *const files[] = {"uid_map", "gid_map", "limits"};
    for (size_t i = 0; i < PIN_COUNT(files); i++)
        if (!add_lines(facts, proc, files[i], err))
            return false;
    if (!add_status(facts, proc, err) || !add_namespaces(facts, proc, err) || !add_mounts(facts, proc, err))
        return false;
    json_t *filters = pin_filter_digests(init, err);
    if (filters == NULL)
        return false;
    set(facts, "filters", filters);
    json_t *firewall = pin_firewall_read(init, err);
    if (firewall == NULL || !add_interfaces(facts, proc, err)) {
        json_decref(firewall);
        return false;
    }
    set(facts, "nftables", firewall);
    set(facts, "cgroups", cgroups_json(group));
    return true;
}

json_t *pin_enforced_read(pid_t init, const struct pin_cgroup *group, struct pin_error *err) {
    char path[32];
    (void)snprintf(path, sizeof(path), "/proc/%d", (int)init);
    PIN_CLOSE int proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0) {
        (void)pin_fail_errno(err, "look at the sandbox");
        return NULL;
    }
    json_t *facts = json_object();
    if (add_facts(facts, init, proc, group, err))
        return facts;
    json_decref(facts);
    return NULL;
}
