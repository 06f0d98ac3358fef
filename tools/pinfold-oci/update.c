#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/build/cgroup/oci.h"
#include "runtime/bundle/bundle_read.h"
#include "runtime/bundle/engine_law.h"
#include "tools/pinfold-oci/ceiling.h"
#include "tools/pinfold-oci/common.h"
#include "tools/pinfold-oci/log.h"

static bool read_resources(const char *path, struct pin_bundle *bundle, struct pin_findings *found) {
    struct pin_error err = {0};
    size_t size;
    PIN_FREE char *text = strcmp(path, "-") == 0
                              ? pin_read_all(STDIN_FILENO, PIN_BUNDLE_BYTES_MAX, &size, &err)
                              : pin_read_file_at(AT_FDCWD, path, PIN_BUNDLE_BYTES_MAX, &size, &err);
    if (text == NULL) {
        pin_find_error(found, &err);
        return false;
    }
    return pin_bundle_parse_resources(bundle, path, text, size, found);
}

struct number { /* an option, and where it goes */
    const char *const *text;
    int64_t *value;
    bool *given;
    int64_t least; /* -1: a limit, and -1 is none */
};

/* 0 leaves it as it is, as in runc. */
static bool take_numbers(const struct number *numbers, size_t count, struct pin_error *err) {
    for (size_t i = 0; i < count; i++) {
        const char *text = *numbers[i].text;
        char *end;
        if (text == NULL)
            continue;
        errno = 0;
        long long value = strtoll(text, &end, 10);
        bool plain = isdigit((unsigned char)text[text[0] == '-']); /* strtoll(3) takes blanks and signs */
        if (!plain || errno != 0 || *end != '\0' || value < numbers[i].least)
            return pin_fail(err, PIN_ERROR_USAGE, "invalid value '%.40s'", text);
        *numbers[i].value = value;
        *numbers[i].given = value != 0;
    }
    return true;
}

static bool take_options(const struct pin_oci_options *options, struct pin_bundle_resources *to,
                         struct pin_error *err) {
    int64_t shares = 0, period = 0, burst = 0, rt_period = 0, weight = 0;
    const struct number numbers[] = {
        {&options->memory,             &to->memory,      &to->has_memory,       -1},
        {&options->memory_reservation, &to->reservation, &to->has_reservation,  -1},
        {&options->memory_swap,        &to->swap,        &to->has_swap,         -1},
        {&options->cpu_quota,          &to->cpu_quota,   &to->has_cpu_quota,    -1},
        {&options->cpu_period,         &period,          &to->has_cpu_period,   0 },
        {&options->cpu_share,          &shares,          &to->has_cpu_shares,   0 },
        {&options->cpu_burst,          &burst,           &to->has_cpu_burst,    0 },
        {&options->cpu_idle,           &to->cpu_idle,    &to->has_cpu_idle,     0 },
        {&options->cpu_rt_period,      &rt_period,       &to->has_rt_period,    0 },
        {&options->cpu_rt_runtime,     &to->rt_runtime,  &to->has_rt_runtime,   -1},
        {&options->pids_limit,         &to->pids,        &to->has_pids,         -1},
        {&options->blkio_weight,       &weight,          &to->has_blkio_weight, 0 },
    };
    if (!take_numbers(numbers, PIN_COUNT(numbers), err))
        return false;
    if (weight > UINT16_MAX)
        return pin_fail(err, PIN_ERROR_USAGE, "invalid value '%.40s'", options->blkio_weight);
    to->cpu_period = (uint64_t)period;
    to->cpu_shares = (uint64_t)shares;
    to->cpu_burst = (uint64_t)burst;
    to->rt_period = (uint64_t)rt_period;
    to->blkio_weight = (uint16_t)weight;
    to->cpuset_cpus = options->cpuset_cpus;
    to->cpuset_mems = options->cpuset_mems;
    return true;
}

static bool is_admitted(const struct pin_container *container, struct pin_bundle *bundle,
                        struct pin_findings *found) {
    struct pin_policy *policy = pin_oci_ceiling_kept(container, found);
    bool ok = policy == NULL ? !pin_found_any(found) : pin_bundle_admit_update(bundle, policy, found);
    pin_policy_free(policy);
    return ok;
}

/* Version 2 would kill what no longer fits: whoever asks so wants to be told instead. */
static bool check_usage(const struct pin_cgroup *group, const struct pin_bundle_resources *resources,
                        struct pin_error *err) {
    uint64_t used;
    if (!resources->check_before_update || !resources->has_memory || resources->memory < 0)
        return true;
    if (!pin_cgroup_memory_now(group, &used, err))
        return false;
    if (used <= (uint64_t)resources->memory)
        return true;
    (void)pin_fail(err, PIN_ERROR_REFUSED, "memory limit %lld is below the current usage, %llu",
                   (long long)resources->memory, (unsigned long long)used);
    return pin_point(err, "/memory/limit");
}

static bool apply(struct pin_oci_host *host, const struct pin_container *container,
                  const struct pin_bundle_resources *resources, struct pin_error *err) {
    if (pin_container_status(container, &host->cgroups) == PIN_STATUS_STOPPED)
        return pin_fail(err, PIN_ERROR_INVALID, "container not running");
    PIN_CGROUP struct pin_cgroup *group = pin_container_cgroup(container, &host->cgroups, err);
    if (group == NULL)
        return pin_is_set(err) ? false
                               : pin_fail(err, PIN_ERROR_UNSUPPORTED, "the container is in no cgroup");
    return check_usage(group, resources, err) && pin_cgroup_apply_oci(group, resources, err) &&
           (resources->device_count == 0 || pin_container_set_devices(resources, group, err));
}

int pin_oci_update(const struct pin_oci_options *options, char **arguments, size_t count) {
    static struct pin_findings found;
    struct pin_oci_host host = PIN_OCI_HOST_NONE;
    struct pin_container container = PIN_CONTAINER_NONE;
    struct pin_error err = {0};
    struct pin_bundle *bundle = pin_bundle_new();
    (void)count;
    bool ok = pin_oci_open_container(options, arguments[0], true, &host, &container, &err) &&
              (options->resources != NULL ? read_resources(options->resources, bundle, &found)
                                          : take_options(options, &bundle->resources, &err)) &&
              is_admitted(&container, bundle, &found) && apply(&host, &container, &bundle->resources, &err);
    pin_bundle_free(bundle);
    pin_container_close(&container);
    pin_oci_close_host(&host);
    if (ok)
        return 0;
    return pin_is_set(&err) ? pin_oci_fail(options, &err) : pin_oci_fail_findings(options, &found);
}
