#include "tools/pinfold/front.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "policy/policy_order.h"
#include "policy/policy_read.h"
#include "policy/profile.h"
#include "policy/site.h"
#include "runtime/build/cgroup/cgroup.h"
#include "runtime/bundle/bundle_ceiling.h"
#include "runtime/bundle/bundle_read.h"
#include "runtime/bundle/resolve.h"
#include "runtime/host/libexec.h"
#include "runtime/secrets/locked.h"
#include "runtime/state/state_dir.h"
#include "tools/pinfold/front_image.h"

const char *const pin_front_frames[] = {"none", "fd", "stdout", "stdout-letta", NULL};
static const uint32_t frames_values[] = {PIN_FRAMES_NONE, PIN_FRAMES_FD, PIN_FRAMES_STDOUT,
                                         PIN_FRAMES_STDOUT_LETTA};

const char *const pin_front_on_exit[] = {"discard", "keep", "merge", NULL};
static const enum pin_on_exit on_exit_values[] = {PIN_ON_EXIT_DISCARD, PIN_ON_EXIT_KEEP, PIN_ON_EXIT_MERGE};

/* "K=V" at the first "="; the key may not be empty. */
static bool split_pair(struct pin_front *front, const char *text, const char *option, struct pin_pair *pair,
                       struct pin_findings *found) {
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        (void)pin_find(found, PIN_ERROR_USAGE, option, "write NAME=VALUE", "%s '%.60s' has no name and value",
                       option, text);
        return false;
    }
    pair->key = pin_arena_strndup(&front->arena, text, (size_t)(equals - text));
    pair->value = equals + 1;
    return true;
}

/* As with options that are taken once: nothing that was asked for is dropped in silence. */
static bool is_new(const struct pin_pair *pairs, size_t count, const char *key, const char *option,
                   struct pin_findings *found) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(pairs[i].key, key) == 0) {
            (void)pin_find(found, PIN_ERROR_USAGE, option, "leave one of them out",
                           "%s '%.60s' is given twice", option, key);
            return false;
        }
    return true;
}

static const struct pin_pair *split_pairs(struct pin_front *front, const struct pin_texts *texts,
                                          const char *option, size_t *count, struct pin_findings *found) {
    struct pin_pair *pairs = pin_arena_array(&front->arena, texts->count + 1, sizeof(*pairs));
    *count = 0;
    for (size_t i = 0; i < texts->count; i++)
        if (split_pair(front, texts->items[i], option, &pairs[*count], found) &&
            is_new(pairs, *count, pairs[*count].key, option, found))
            (*count)++;
    return pairs;
}

static void put_over(struct pin_front *front, const struct pin_pair *pairs, size_t count) {
    struct pin_request *request = &front->request;
    struct pin_pair *all = pin_arena_array(&front->arena, request->env_count + count, sizeof(*all));
    if (request->env_count > 0)
        memcpy(all, request->env, request->env_count * sizeof(*all));
    memcpy(all + request->env_count, pairs, count * sizeof(*all));
    request->env = all;
    request->env_count += count;
}

static bool ends_with(const char *text, size_t length, const char *end) {
    size_t size = strlen(end);
    return length >= size && memcmp(text + length - size, end, size) == 0;
}

/* An absolute path whose end is a name: "dir/", "dir/." and "." would step through a link that `open` must
 * not follow. */
static const char *absolute(struct pin_front *front, const char *path, size_t length,
                            struct pin_findings *found) {
    char here[PATH_MAX];
    while (length > 1 && (path[length - 1] == '/' || ends_with(path, length, "/.")))
        length--;
    if (length == 0 || path[0] == '/')
        return pin_arena_strndup(&front->arena, path, length);
    if (getcwd(here, sizeof(here)) == NULL) {
        struct pin_error err = {0};
        (void)pin_fail_errno(&err, "find the working directory");
        (void)pin_hint(&err, "name '%.100s' by a path from /", path);
        pin_find_error(found, &err);
        return NULL;
    }
    if (length == 1 && path[0] == '.')
        return pin_arena_strdup(&front->arena, here);
    return pin_arena_printf(&front->arena, "%s/%.*s", strcmp(here, "/") == 0 ? "" : here, (int)length, path);
}

static void take_workspace(struct pin_front *front, const struct pin_front_options *options,
                           struct pin_findings *found) {
    struct pin_request *request = &front->request;
    if (options->workspace == NULL) {
        if (options->on_exit >= 0)
            (void)pin_find(found, PIN_ERROR_USAGE, "--on-exit", "add --workspace DIR:cow",
                           "--on-exit needs a copy-on-write workspace");
        return;
    }
    size_t length = strlen(options->workspace);
    request->workspace.access = PIN_ACCESS_WRITE;
    if (ends_with(options->workspace, length, ":ro")) {
        request->workspace.access = PIN_ACCESS_READ;
        length -= 3;
    } else if (ends_with(options->workspace, length, ":cow")) {
        request->workspace.access = PIN_ACCESS_COW;
        length -= 4;
    }
    const char *word = strrchr(options->workspace, ':');
    if (word != NULL && request->workspace.access == PIN_ACCESS_WRITE &&
        access(options->workspace, F_OK) != 0)
        (void)pin_find(found, PIN_ERROR_USAGE, "--workspace", "write DIR, DIR:ro or DIR:cow",
                       "'%.20s' is no way to show a workspace", word);
    else if (length == 0)
        (void)pin_find(found, PIN_ERROR_USAGE, "--workspace", "name a directory",
                       "--workspace names no directory");
    else
        request->workspace.source = absolute(front, options->workspace, length, found);
    if (options->on_exit >= 0 && request->workspace.access != PIN_ACCESS_COW)
        (void)pin_find(found, PIN_ERROR_USAGE, "--on-exit", "add :cow to the workspace",
                       "--on-exit needs a copy-on-write workspace");
    if (options->on_exit >= 0)
        request->workspace.on_exit = on_exit_values[options->on_exit];
}

static void take_window(struct pin_request *request) {
    struct winsize size;
    if (isatty(STDIN_FILENO) && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 &&
        size.ws_col > 0) {
        request->rows = size.ws_row;
        request->columns = size.ws_col;
    } else {
        request->rows = 24;
        request->columns = 80;
    }
}

static void take_secret_variables(struct pin_front *front, const struct pin_front_options *options,
                                  struct pin_findings *found) {
    size_t count;
    front->secret_variables = options->secret_variables.items;
    front->secret_variable_count = options->secret_variables.count;
    (void)split_pairs(front, &options->secret_variables, "--secret-from-env", &count, found);
}

static bool take_request(struct pin_front *front, const struct pin_front_options *options, char **args,
                         size_t arg_count, struct pin_findings *found) {
    struct pin_request *request = &front->request;
    request->image = options->image;
    request->args = (const char *const *)args;
    request->arg_count = arg_count;
    request->env = split_pairs(front, &options->env, "--env", &request->env_count, found);
    if (options->env_over_count > 0)
        put_over(front, options->env_over, options->env_over_count);
    request->env_under = options->env_under;
    request->env_under_count = options->env_under_count;
    request->labels = split_pairs(front, &options->labels, "--label", &request->label_count, found);
    request->host_env = (const char *const *)environ;
    request->egress = options->egress.items;
    request->egress_count = options->egress.count;
    request->publish = options->publish.items;
    request->publish_count = options->publish.count;
    request->secrets = options->secrets.items;
    request->secret_count = options->secrets.count;
    take_secret_variables(front, options, found);
    request->has_memory = options->memory.given;
    request->memory_bytes = options->memory.value;
    request->has_cpus = options->cpus.given;
    request->millicpus = (uint32_t)options->cpus.value;
    request->has_pids = options->pids.given;
    request->pids = options->pids.value;
    request->has_wall_time = options->timeout.given;
    request->wall_time_ns = options->timeout.value;
    if (options->frames >= 0) {
        request->has_frames = true;
        request->frames =
            frames_values[options->frames] | (options->letta_frames ? (uint32_t)PIN_FRAMES_STDOUT_LETTA : 0);
    }
    request->tty = options->tty;
    if (options->tty)
        take_window(request);
    take_workspace(front, options, found);
    return !pin_found_any(found);
}

static bool take_host_image(struct pin_front *front, struct pin_findings *found) {
    struct pin_error err = {0};
    struct pin_rootfs_identity identity = {front->effective->identity.user, front->effective->identity.group,
                                           PIN_DEFAULT_HOSTNAME};
    if (pin_rootfs_host(&front->arena, &identity, &front->rootfs, &err))
        return true;
    pin_find_error(found, &err);
    return false;
}

/* A bundle from outside brings its own root and command; the policy is its ceiling. */
static bool admit_bundle(struct pin_front *front, const struct pin_front_options *options,
                         struct pin_findings *found) {
    if (options->image != NULL) {
        (void)pin_find(found, PIN_ERROR_USAGE, "--image", "leave one of them out",
                       "--image and --bundle exclude each other");
        return false;
    }
    front->bundle = pin_bundle_read(options->bundle, found);
    return front->bundle != NULL && pin_bundle_admit(front->bundle, front->ceiling, &front->request, found);
}

static bool resolve_request(struct pin_front *front, struct pin_findings *found) {
    bool host = !pin_front_has_image(front);
    if (!host && !pin_front_take_image(front, found))
        return false;
    if (front->request.arg_count == 0) {
        (void)pin_find(found, PIN_ERROR_USAGE, "", "write it after --", "there is no command to run");
        return false;
    }
    front->effective = pin_request_narrow(front->ceiling, &front->request, found);
    if (front->effective == NULL || (host && !take_host_image(front, found)))
        return false;
    front->bundle = pin_resolve(front->effective, &front->request, &front->rootfs, found);
    return front->bundle != NULL;
}

/* What pinfold has made itself is no wish of the caller's: it needs no grant, and is read-only. */
static void show_layers(struct pin_policy *policy, const struct pin_front_options *options) {
    size_t count = policy->filesystem.mount_count;
    struct pin_mount_rule *mounts =
        pin_arena_array(&policy->arena, count + options->layer_count + 1, sizeof(*mounts));
    for (size_t i = 0; i < count; i++)
        mounts[i] = policy->filesystem.mounts[i];
    for (size_t i = 0; i < options->layer_count; i++)
        mounts[count + i] = options->layers[i];
    policy->filesystem.mounts = mounts;
    policy->filesystem.mount_count = count + options->layer_count;
}

static struct pin_policy *load_ceiling(const struct pin_front_options *options, struct pin_findings *found) {
    const char *name = options->policy != NULL ? options->policy : "tool";
    if (options->policy_text != NULL)
        return pin_policy_parse(options->policy, options->policy_text, strlen(options->policy_text), found);
    struct pin_policy *profile = pin_profile_load(name);
    return profile != NULL ? profile : pin_policy_load(name, found);
}

/* The policy below the site's ceiling, with the site's floor. */
static bool load_policy(struct pin_front *front, const struct pin_front_options *options,
                        struct pin_findings *found) {
    front->ceiling = load_ceiling(options, found);
    if (front->ceiling == NULL)
        return false;
    struct pin_policy *site = pin_site_load(options->site, found);
    if (options->adjust != NULL && !pin_found_any(found))
        options->adjust(options->adjust_self, front->ceiling, site);
    bool ok = !pin_found_any(found) && pin_site_apply(front->ceiling, site, found);
    if (ok && options->narrow != NULL)
        options->narrow(front->ceiling);
    pin_policy_free(site);
    if (ok && options->layer_count > 0)
        show_layers(front->ceiling, options);
    return ok;
}

bool pin_front_bundle(struct pin_front *front, const struct pin_front_options *options, char **args,
                      size_t arg_count, struct pin_findings *found) {
    if (!load_policy(front, options, found) || !take_request(front, options, args, arg_count, found))
        return false;
    return options->bundle != NULL ? admit_bundle(front, options, found) : resolve_request(front, found);
}

void pin_front_judge_swap(struct pin_host *host, const struct pin_cgroup_facts *cgroups) {
    const struct pin_cgroup_hierarchy *memory = pin_cgroup_facts_of(cgroups, PIN_CGROUP_MEMORY);
    bool bounded = memory != NULL && memory->usable && memory->v2; /* v1 bounds the sum, and swaps at will */
    host->swaps = cgroups->swap;
    if (host->swaps && !(bounded && pin_locked_has_no_limit()))
        host->lacks |= 1u << PIN_PROTECT_SECRET_MEMORY;
}

static bool gather_facts(struct pin_front *front, struct pin_error *err) {
    char tag[PIN_STATE_TAG];
    front->cgroups = pin_arena_alloc(&front->arena, sizeof(*front->cgroups));
    pin_host_get(&front->host);
    front->state_dir = pin_state_open(err);
    if (front->state_dir < 0 || !pin_state_tag(front->state_dir, tag, err) ||
        !pin_cgroup_facts_get(tag, front->cgroups, err))
        return false;
    char scope[PATH_MAX];
    struct pin_error unfound = {0}; /* then no scope is asked for */
    bool asks = !front->host.privileged && pin_libexec_find("pinfold-scope", scope, &unfound);
    pin_cgroup_prepare(front->cgroups, asks ? scope : NULL);
    front->host.lacks |= pin_cgroup_facts_lack(front->cgroups, &front->host.lacks_hint);
    pin_front_judge_swap(&front->host, front->cgroups);
    if (front->host.privileged || front->bundle->ext.ids <= 1)
        return true;
    return pin_host_subids("/etc/subuid", front->host.uid, &front->host.subuids, err) &&
           pin_host_subids("/etc/subgid", front->host.uid, &front->host.subgids, err);
}

bool pin_front_plan(struct pin_front *front, struct pin_findings *found) {
    struct pin_error err = {0};
    if (!gather_facts(front, &err)) {
        pin_find_error(found, &err);
        return false;
    }
    front->plan = pin_plan_make(front->bundle, &front->host, found);
    return front->plan != NULL;
}

void pin_front_free(struct pin_front *front) {
    pin_plan_free(front->plan);
    pin_bundle_free(front->bundle);
    pin_policy_free(front->effective);
    pin_policy_free(front->ceiling);
    pin_secrets_free(&front->sealed);
    pin_arena_free(&front->arena);
    pin_close_fd(&front->state_dir);
    pin_close_fd(&front->image_hold);
}
