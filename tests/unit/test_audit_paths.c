/* What the auditor says of paths, against the mounts and Landlock rules that a run would have. */
#include "audit_fixture.h"

#include "policy/audit/paths.h"
#include "policy/checks.h"
#include "policy_random.h"
#include "runtime/bundle/resolve.h"

static const char *const paths[] = {
    "/",           "/tmp",     "/tmp/x",     "/tmp/x/y",   "/workspace",     "/workspace/a",
    "/workspaces", "/var",     "/var/lib",   "/var/lib/x", "/var/log",       "/m",
    "/m/a",        "/m/a/b",   "/mm",        "/opt/data",  "/opt",           "/etc/passwd",
    "/usr/bin",    "/dev/shm", "/dev/shm/x", "/dev/shmx",  "/proc/self/mem", "/data",
};

static const char *option_of(const struct pin_bundle_mount *mount, const char *name) {
    for (size_t i = 0; i < mount->option_count; i++)
        if (strcmp(mount->options[i], name) == 0)
            return mount->options[i];
    return NULL;
}

/* The mount that was made last over the path. */
static const struct pin_bundle_mount *last_mount(const struct pin_bundle *bundle, const char *path) {
    const struct pin_bundle_mount *last = NULL;
    for (size_t i = 0; i < bundle->mount_count; i++)
        if (pin_path_beneath(path, bundle->mounts[i].destination))
            last = &bundle->mounts[i];
    return last;
}

static bool mount_writes(const struct pin_bundle *bundle, const struct pin_policy *policy, const char *path) {
    const struct pin_bundle_mount *mount = last_mount(bundle, path);
    bool cow = policy->filesystem.workspace == PIN_ACCESS_COW && pin_path_beneath(path, "/workspace");
    if (cow && (mount == NULL || strcmp(mount->destination, "/") == 0))
        return true; /* ext.workspace makes it */
    if (mount == NULL)
        return policy->filesystem.root == PIN_ROOT_OVERLAY;
    return option_of(mount, "rro") == NULL;
}

static bool landlock_writes(const struct pin_bundle *bundle, const char *path) {
    for (size_t i = 0; i < bundle->ext.landlock.write_count; i++)
        if (pin_path_beneath(path, bundle->ext.landlock.write[i]))
            return true;
    return false;
}

static struct pin_bundle *resolve(const struct pin_policy *policy, struct pin_findings *found) {
    static const char *const args[] = {"true", NULL};
    static const struct pin_rootfs rootfs = {.kind = PIN_ROOTFS_DIRECTORY, .directory = "/nowhere"};
    struct pin_request request = {.args = args, .arg_count = 1};
    if (policy->filesystem.workspace != PIN_ACCESS_NONE) {
        request.workspace.source = "/srv/work";
        request.workspace.access = policy->filesystem.workspace;
    }
    return pin_resolve(policy, &request, &rootfs, found);
}

static void compare(const struct pin_policy *policy, const struct pin_bundle *bundle, const char *path) {
    struct pin_path_fate fate = pin_path_judge(policy, path);
    bool layer = mount_writes(bundle, policy, path), landlock = landlock_writes(bundle, path);
    const struct pin_bundle_mount *mount = last_mount(bundle, path);
    bool scratch = mount != NULL && strcmp(mount->type != NULL ? mount->type : "", "tmpfs") == 0 &&
                   strcmp(mount->destination, "/dev") != 0;
    bool workspace = fate.layer == PIN_PATH_WORKSPACE; /* a copy-on-write one is no mount of the list */
    if (!workspace && scratch != (fate.layer == PIN_PATH_SCRATCH))
        fail_msg("'%s': %s, and a run would have %s", path, pin_path_layer_name(fate.layer),
                 scratch ? "a tmpfs" : "none");
    if (fate.layer_writes != layer || fate.landlock_writes != landlock)
        fail_msg("'%s': layer %d (%s), Landlock %d; a run would have %d, %d", path, fate.layer_writes,
                 pin_path_layer_name(fate.layer), fate.landlock_writes, layer, landlock);
}

static void fates_are_those_of_a_run(void **state) {
    (void)state;
    struct random random = {2463534242u};
    int compared = 0;
    for (int i = 0; i < 2000; i++) {
        struct pin_findings found = {0};
        struct pin_policy *policy = random_policy(&random, 50);
        struct pin_bundle *bundle = resolve(policy, &found);
        for (size_t j = 0; bundle != NULL && j < sizeof(paths) / sizeof(paths[0]); j++)
            compare(policy, bundle, paths[j]);
        compared += bundle != NULL;
        pin_bundle_free(bundle);
        pin_policy_free(policy);
    }
    assert_true(compared > 1000);
}

static void memory_of_its_own_is_where_it_is_listed(void **state) {
    (void)state;
    static const char *const rows[] = {
        "\"write\": [\"/tmp\"]",
        "\"write\": [\"/dev/shm\"]",
        "\"write\": [\"/\", \"/dev/shm\"], \"root\": \"overlay\"",
        "\"write\": [\"/tmp\", \"/var\"], \"root\": \"overlay\"",
        "\"write\": [\"/tmp/x\", \"/tmp\"]",
        "\"write\": [\"/tmp\", \"/dev/shm\"], \"tmp\": 0",
        "\"write\": [\"/m\", \"/m/a\"], \"mounts\": [{\"source\": \"/s\", \"target\": \"/m/a\"}]",
        "\"write\": [], \"workspace\": {\"access\": \"read-only\"}",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        PIN_ARENA struct pin_arena arena = {0};
        struct pin_findings found = {0};
        struct pin_policy *policy = policy_of(pin_arena_printf(&arena, "\"filesystem\": {%s}", rows[i]));
        struct pin_bundle *bundle = resolve(policy, &found);
        assert_non_null(bundle);
        for (size_t j = 0; j < sizeof(paths) / sizeof(paths[0]); j++)
            compare(policy, bundle, paths[j]);
        pin_bundle_free(bundle);
        pin_policy_free(policy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fates_are_those_of_a_run),
        cmocka_unit_test(memory_of_its_own_is_where_it_is_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
