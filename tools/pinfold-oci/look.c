#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "tools/pinfold-oci/common.h"
#include "tools/pinfold-oci/log.h"

struct look { /* a container that is looked at, without its lock */
    struct pin_oci_host host;
    struct pin_container container;
};
#define LOOK                                                                                                 \
    { PIN_OCI_HOST_NONE, PIN_CONTAINER_NONE }

static void close_look(struct look *look) {
    pin_container_close(&look->container);
    pin_oci_close_host(&look->host);
}

static bool open_look(struct look *look, const struct pin_oci_options *options, const char *id,
                      struct pin_error *err) {
    return pin_oci_open_container(options, id, false, &look->host, &look->container, err);
}

static void print_json(json_t *json, size_t flags) {
    (void)json_dumpf(json, stdout, flags);
    (void)fputc('\n', stdout);
    json_decref(json);
}

int pin_oci_state(const struct pin_oci_options *options, char **arguments, size_t count) {
    struct look look = LOOK;
    struct pin_error err = {0};
    (void)count;
    bool ok = open_look(&look, options, arguments[0], &err);
    if (ok)
        print_json(pin_container_state(&look.container,
                                       pin_container_status(&look.container, &look.host.cgroups), true),
                   JSON_INDENT(2));
    close_look(&look);
    return ok ? 0 : pin_oci_fail(options, &err);
}

static json_t *collect(const struct pin_oci_options *options, struct pin_error *err) {
    struct pin_oci_host host = PIN_OCI_HOST_NONE;
    json_t *list = json_array();
    if (!pin_oci_open_host(options, &host, err))
        return list;
    PIN_CLOSE int again = openat(host.root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = again < 0 ? NULL : fdopendir(again);
    if (directory != NULL)
        (void)pin_steal_fd(&again);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        struct pin_container container;
        struct pin_error gone = {0}; /* removed since, or no container */
        if (entry->d_name[0] != '.' &&
            pin_container_open(host.root, entry->d_name, false, &container, &gone)) {
            json_array_append_new(
                list, pin_container_state(&container, pin_container_status(&container, &host.cgroups), true));
            pin_container_close(&container);
        }
    }
    if (directory != NULL)
        (void)closedir(directory);
    pin_oci_close_host(&host);
    return list;
}

static const char *field(const json_t *state, const char *name) {
    return json_string_value(json_object_get(state, name));
}

static void print_table(const json_t *list, bool quiet) {
    size_t index;
    const json_t *state;
    if (!quiet)
        (void)printf("%-24s %-8s %-10s %-32s %-32s %s\n", "ID", "PID", "STATUS", "BUNDLE", "CREATED",
                     "OWNER");
    json_array_foreach(list, index, state) {
        if (quiet)
            (void)printf("%s\n", field(state, "id"));
        else
            (void)printf("%-24s %-8d %-10s %-32s %-32s %s\n", field(state, "id"),
                         (int)json_integer_value(json_object_get(state, "pid")), field(state, "status"),
                         field(state, "bundle"), field(state, "created"), field(state, "owner"));
    }
}

int pin_oci_list(const struct pin_oci_options *options, char **arguments, size_t count) {
    struct pin_error err = {0};
    (void)arguments;
    (void)count;
    json_t *list = collect(options, &err);
    if (pin_is_set(&err)) {
        json_decref(list);
        return pin_oci_fail(options, &err);
    }
    if (options->format != NULL && strcmp(options->format, "json") == 0) {
        print_json(list, JSON_COMPACT);
        return 0;
    }
    print_table(list, options->quiet);
    json_decref(list);
    return 0;
}
