/* pinfold-scope PID: has systemd's user manager move a process into a scope of its own, with its cgroup
 * delegated to the user. A program by itself, so that `pinfold run` doesn't load libsystemd; it is run only
 * where the user's cgroup isn't delegated yet.
 * pinfold-scope PID UNIT SLICE [NAME VALUE]...: the same for an engine's container, as a unit that the engine
 * names, with properties that its bundle asks for; root, but not that of a user namespace, asks the system's
 * manager. Exits 0 when the process has been moved; otherwise says why in one line, and exits 1.
 *
 * Source: org.freedesktop.systemd1(5), systemd.resource-control(5) "Delegate".
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <systemd/sd-bus.h>

#include "base/units.h"
#include "base/user_namespace.h"
#include "runtime/bundle/systemd_property.h"

#define MANAGER "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"

enum { PATIENCE_US = 10000000 };

struct request {
    uint32_t pid;
    const char *unit, *slice; /* NULL: the manager's own */
    const char *description;
    char **asked; /* names and values by turns, as systemd_property.h has them */
    int asked_count;
};

struct job {
    const char *unit;
    char path[256]; /* "" until the manager has named it */
    char ended[256], result[32];
};

static int fail(const char *step, int error) {
    (void)fprintf(stderr, "%s: %s\n", step, strerror(-error));
    return EXIT_FAILURE;
}

/* The signal may come before the reply that names the job: the last one is kept. */
static int note_end(sd_bus_message *message, void *context, sd_bus_error *error) {
    struct job *job = context;
    uint32_t id;
    const char *path, *unit, *result;
    (void)error;
    if (sd_bus_message_read(message, "uoss", &id, &path, &unit, &result) < 0 || strcmp(unit, job->unit) != 0)
        return 0;
    if (job->path[0] != '\0' && strcmp(job->path, path) != 0)
        return 0;
    (void)snprintf(job->ended, sizeof(job->ended), "%s", path);
    (void)snprintf(job->result, sizeof(job->result), "%s", result);
    return 0;
}

static int append_item(sd_bus_message *call, char type, const union pin_systemd_item *item) {
    const uint8_t byte = (uint8_t)item->natural;
    const int16_t number16 = (int16_t)item->number;
    const uint16_t natural16 = (uint16_t)item->natural;
    const int32_t number32 = (int32_t)item->number; /* of a boolean as well */
    const uint32_t natural32 = (uint32_t)item->natural;
    switch (type) {
    case 'y': return sd_bus_message_append_basic(call, type, &byte);
    case 'n': return sd_bus_message_append_basic(call, type, &number16);
    case 'q': return sd_bus_message_append_basic(call, type, &natural16);
    case 'b':
    case 'i': return sd_bus_message_append_basic(call, type, &number32);
    case 'u': return sd_bus_message_append_basic(call, type, &natural32);
    case 'x': return sd_bus_message_append_basic(call, type, &item->number);
    case 't': return sd_bus_message_append_basic(call, type, &item->natural);
    case 'd': return sd_bus_message_append_basic(call, type, &item->real);
    default: return sd_bus_message_append_basic(call, type, item->words);
    }
}

static int append_property(sd_bus_message *call, const struct pin_systemd_property *property) {
    const char list[] = {'a', property->type, '\0'}, one[] = {property->type, '\0'};
    int error = sd_bus_message_open_container(call, 'r', "sv");
    if (error >= 0)
        error = sd_bus_message_append_basic(call, 's', property->name);
    if (error >= 0)
        error = sd_bus_message_open_container(call, 'v', property->list ? list : one);
    if (error >= 0 && property->list)
        error = sd_bus_message_open_container(call, 'a', one);
    for (size_t i = 0; error >= 0 && i < property->count; i++)
        error = append_item(call, property->type, &property->items[i]);
    for (int open = property->list ? 3 : 2; error >= 0 && open > 0; open--)
        error = sd_bus_message_close_container(call);
    return error;
}

/* They come last: what they say of a property counts. */
static int append_asked(sd_bus_message *call, const struct request *request) {
    static struct pin_systemd_property property;
    int error = 0;
    for (int i = 0; error >= 0 && i + 1 < request->asked_count; i += 2) {
        struct pin_error wrong = {0};
        error = pin_systemd_property_parse(request->asked[i], request->asked[i + 1], &property, &wrong)
                    ? append_property(call, &property)
                    : -EINVAL;
    }
    return error;
}

static int build_call(sd_bus *bus, const struct request *request, sd_bus_message **call) {
    int error = sd_bus_message_new_method_call(bus, call, MANAGER, "StartTransientUnit");
    if (error >= 0)
        error = sd_bus_message_append(*call, "ss", request->unit, "fail");
    if (error >= 0)
        error = sd_bus_message_open_container(*call, 'a', "(sv)");
    if (error >= 0)
        error = sd_bus_message_append(*call, "(sv)(sv)(sv)(sv)", "Description", "s", request->description,
                                      "PIDs", "au", 1, request->pid, "Delegate", "b", 1, "CollectMode", "s",
                                      "inactive-or-failed");
    if (error >= 0 && request->slice != NULL)
        error = sd_bus_message_append(*call, "(sv)(sv)", "Slice", "s", request->slice, "DefaultDependencies",
                                      "b", 0);
    if (error >= 0)
        error = append_asked(*call, request);
    if (error >= 0)
        error = sd_bus_message_close_container(*call);
    return error < 0 ? error : sd_bus_message_append(*call, "a(sa(sv))", 0);
}

static uint64_t now_us(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now); /* can't fail for this clock */
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int start_scope(sd_bus *bus, const struct request *request, struct job *job, sd_bus_error *error) {
    sd_bus_message *call = NULL, *reply = NULL;
    const char *path = NULL;
    int result = build_call(bus, request, &call);
    if (result >= 0)
        result = sd_bus_call(bus, call, PATIENCE_US, error, &reply);
    if (result >= 0)
        result = sd_bus_message_read(reply, "o", &path);
    if (result >= 0)
        (void)snprintf(job->path, sizeof(job->path), "%s", path);
    sd_bus_message_unref(call);
    sd_bus_message_unref(reply);
    return result;
}

/* The call only queues the job: the process is moved when the job has ended. */
static int wait_for_job(sd_bus *bus, const struct job *job) {
    while (strcmp(job->ended, job->path) != 0) {
        int result = sd_bus_process(bus, NULL);
        if (result == 0)
            result = sd_bus_wait(bus, PATIENCE_US);
        if (result < 0)
            return result;
    }
    return 0;
}

static int move_process(sd_bus *bus, const struct request *request) {
    struct job job = {.unit = request->unit};
    sd_bus_error error = SD_BUS_ERROR_NULL;
    int result = sd_bus_match_signal(bus, NULL, MANAGER, "JobRemoved", note_end, &job);
    if (result < 0)
        return fail("listen to systemd", result);
    result = sd_bus_call_method(bus, MANAGER, "Subscribe", NULL, NULL, NULL);
    if (result >= 0)
        result = start_scope(bus, request, &job, &error);
    if (result >= 0)
        result = wait_for_job(bus, &job);
    if (result < 0) {
        (void)fprintf(stderr, "%s\n", error.message != NULL ? error.message : strerror(-result));
        sd_bus_error_free(&error);
        return EXIT_FAILURE;
    }
    if (strcmp(job.result, "done") == 0)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "the scope ended as '%s'\n", job.result);
    return EXIT_FAILURE;
}

/* Sessions that were opened by su or cron have no variable, but perhaps a bus in the usual place. */
static void default_runtime_dir(void) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/run/user/%u", (unsigned)getuid());
    if (getenv("XDG_RUNTIME_DIR") == NULL && access(path, X_OK) == 0)
        (void)setenv("XDG_RUNTIME_DIR", path, 1);
}

int main(int argc, char **argv) {
    uint64_t pid = 0;
    if ((argc != 2 && (argc < 4 || argc % 2 != 0)) || !pin_parse_u64(argv[1], &pid) || pid == 0 ||
        pid > INT32_MAX) {
        (void)fprintf(stderr, "usage: pinfold-scope PID [UNIT SLICE [NAME VALUE]...]\n");
        return 2;
    }
    char name[64]; /* never that of an earlier process with this pid, whose sandbox may still be in its scope
                    */
    (void)snprintf(name, sizeof(name), "pinfold-%u-%llx.scope", (unsigned)pid, (unsigned long long)now_us());
    struct request request = {.pid = (uint32_t)pid, .unit = name, .description = "pinfold sandbox"};
    if (argc >= 4)
        request =
            (struct request){(uint32_t)pid, argv[2], argv[3], "container of pinfold-oci", argv + 4, argc - 4};
    sd_bus *bus = NULL;
    (void)alarm(2 * PATIENCE_US / 1000000); /* whatever the bus does */
    default_runtime_dir();
    /* root of a user namespace is an ordinary user's engine: its manager is the user's */
    bool systems = argc >= 4 && getuid() == 0 && !pin_in_user_namespace();
    int result = systems ? sd_bus_open_system(&bus) : sd_bus_open_user(&bus);
    int status = result < 0 ? fail("reach systemd", result) : move_process(bus, &request);
    sd_bus_flush_close_unref(bus);
    return status;
}
