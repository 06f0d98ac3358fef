#include "tools/pinfold-oci/ceiling.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/user_namespace.h"
#include "policy/policy_file.h"
#include "policy/policy_order.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"
#include "policy/site.h"
#include "runtime/build/hooks.h"
#include "runtime/bundle/engine_law.h"
#include "runtime/host/libexec.h"

#define KEPT "policy.json"

const char *pin_oci_ceiling_source(const struct pin_oci_options *options) {
    if (options->policy != NULL)
        return options->policy;
    /* a link that leads nowhere is there: it is refused when it is read */
    return faccessat(AT_FDCWD, PIN_OCI_SITE_POLICY, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT
               ? PIN_OCI_SITE_POLICY
               : NULL;
}

static struct pin_policy *load(const char *name, const struct pin_policy *site, struct pin_findings *found) {
    struct pin_policy *policy = pin_policy_load(name, found);
    if (policy != NULL && pin_site_apply(policy, site, found))
        return policy;
    pin_policy_free(policy);
    return NULL;
}

/* What a bundle chooses for itself is a request as well: never more than the operator's. */
static bool choose_below(const char *name, const struct pin_policy *site, struct pin_policy **policy,
                         struct pin_findings *found) {
    struct pin_policy *chosen = load(name, site, found);
    bool ok = chosen != NULL && (*policy == NULL || pin_policy_narrower(chosen, *policy, found));
    if (chosen != NULL && !ok)
        (void)pin_find(found, PIN_ERROR_REFUSED, "config.json /annotations/io.pinfold.policy",
                       "name a policy that is at most the operator's",
                       "the policy '%.64s' grants more than '%.64s'", chosen->name, (*policy)->name);
    if (ok) {
        pin_policy_free(*policy);
        *policy = chosen;
        return true;
    }
    pin_policy_free(chosen);
    return false;
}

bool pin_oci_ceiling_choose(const struct pin_oci_options *options, const struct pin_bundle *bundle,
                            struct pin_policy **policy, struct pin_findings *found) {
    const char *operators = pin_oci_ceiling_source(options);
    const char *asked = bundle->ext.present ? NULL : bundle->ext.policy_name;
    *policy = NULL;
    if (operators == NULL && asked == NULL)
        return true;
    size_t before = found->count + found->dropped;
    struct pin_policy *site = pin_site_load(NULL, found), *chosen = NULL;
    bool ok = found->count + found->dropped == before;
    if (ok && operators != NULL)
        ok = (chosen = load(operators, site, found)) != NULL;
    if (ok && asked != NULL)
        ok = choose_below(asked, site, &chosen, found);
    pin_policy_free(site);
    if (ok)
        *policy = chosen;
    else
        pin_policy_free(chosen);
    return ok;
}

/* What is judged is what will be run. One that isn't there can't be run either. */
static void resolve_hooks(struct pin_bundle *bundle) {
    for (int stage = 0; stage < PIN_HOOK_STAGE_COUNT; stage++)
        for (size_t i = 0; i < bundle->hook_count[stage]; i++) {
            struct pin_bundle_hook *hook = &bundle->hooks[stage][i];
            PIN_FREE char *file = hook->path != NULL ? realpath(hook->path, NULL) : NULL;
            if (file != NULL)
                hook->path = pin_arena_strdup(&bundle->arena, file);
        }
}

bool pin_oci_ceiling_admit(struct pin_bundle *bundle, const struct pin_policy *policy,
                           const struct pin_oci_place *place, struct pin_findings *found) {
    char broker[PATH_MAX];
    struct pin_error unfound = {0};
    const struct pin_engine_caller caller = {.on_host = !pin_in_user_namespace(),
                                             .has_broker =
                                                 pin_libexec_find("pinfold-broker", broker, &unfound),
                                             .systemd = place->systemd,
                                             .cgroup = place->cgroup,
                                             .own = place->own};
    resolve_hooks(bundle);
    return pin_bundle_admit_engine(bundle, policy, &caller, found);
}

bool pin_oci_ceiling_keep(const struct pin_container *container, const struct pin_policy *policy,
                          struct pin_error *err) {
    if (policy == NULL)
        return true;
    PIN_BUFFER struct pin_buffer text = {0};
    pin_policy_write(policy, &text);
    PIN_CLOSE int file =
        openat(container->dir, KEPT, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return pin_fail_errno(err, "keep a copy of the policy");
    return pin_write_all(file, text.data, text.size, err);
}

struct pin_policy *pin_oci_ceiling_kept(const struct pin_container *container, struct pin_findings *found) {
    struct pin_error err = {0};
    size_t size;
    PIN_FREE char *text = pin_read_file_at(container->dir, KEPT, PIN_POLICY_FILE_MAX, &size, &err);
    if (text != NULL)
        return pin_policy_parse(KEPT, text, size, found);
    if (err.os_errno != ENOENT)
        pin_find_error(found, &err);
    return NULL;
}

static bool are_hooks_admitted(struct pin_bundle *bundle, const struct pin_container *container,
                               struct pin_findings *found) {
    struct pin_policy *policy = pin_oci_ceiling_kept(container, found);
    if (policy != NULL) {
        resolve_hooks(bundle);
        (void)pin_bundle_admit_hooks(bundle, policy, found);
    }
    pin_policy_free(policy);
    return !pin_found_any(found);
}

bool pin_oci_ceiling_run_hooks(const struct pin_container *container, enum pin_status status,
                               enum pin_hook_stage stage, const struct pin_hook_watch *watch,
                               struct pin_error *err) {
    static struct pin_findings found;
    struct pin_bundle *bundle = pin_oci_read_config(container, &found);
    bool ok =
        bundle != NULL && (bundle->hook_count[stage] == 0 || are_hooks_admitted(bundle, container, &found));
    if (!ok)
        (void)pin_fail_findings(err, &found);
    if (ok && bundle->hook_count[stage] > 0) {
        json_t *state = pin_container_state(container, status, false);
        PIN_FREE char *text = json_dumps(state, JSON_COMPACT);
        json_decref(state);
        ok = pin_hooks_run(bundle, stage, text != NULL ? text : "{}", watch, err);
    }
    pin_bundle_free(bundle);
    return ok;
}
