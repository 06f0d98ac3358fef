#include <stdio.h>
#include <sys/resource.h>

#include <linux/mount.h>
#include <sched.h>

#include "tests/unit/plan_fixture.h"

/* A plan for `true` under a policy given as text. */
static void plan_for(struct fixture *fixture, const char *policy, const struct pin_host *host) {
    struct pin_error err = {0};
    struct pin_rootfs_identity identity = {1000, 1000, "pinfold"};
    narrow(fixture, policy);
    assert_true(pin_rootfs_host(&fixture->arena, &identity, &fixture->rootfs, &err));
    fixture->bundle = pin_resolve(fixture->effective, &fixture->request, &fixture->rootfs, &fixture->found);
    assert_non_null(fixture->bundle);
    fixture->plan = pin_plan_make(fixture->bundle, host, &fixture->found);
}

static const char tool[] = "{\"pinfold\": 1, \"name\": \"t\"}";

static void a_sandbox_of_root_has_a_range_of_its_own(void **state) {
    struct fixture *fixture = *state;
    plan_for(fixture, tool, &root_host);
    assert_true(fixture->plan->ranged);
    assert_int_equal(fixture->plan->uid_maps[0].count, 65536);
    assert_true(fixture->plan->may_set_groups);
}

static void a_sandbox_of_a_user_maps_that_users_id_alone(void **state) {
    struct fixture *fixture = *state;
    plan_for(fixture, tool, &user_host);
    assert_false(fixture->plan->ranged);
    assert_int_equal(fixture->plan->uid_map_count, 1);
    assert_int_equal(fixture->plan->uid_maps[0].inside, 1000);
    assert_int_equal(fixture->plan->uid_maps[0].outside, 1234);
    assert_int_equal(fixture->plan->uid_maps[0].count, 1);
    assert_int_equal(fixture->plan->gid_maps[0].outside, 1235);
}

static void every_namespace_is_new(void **state) {
    struct fixture *fixture = *state;
    plan_for(fixture, tool, &root_host);
    const uint64_t all = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                         CLONE_NEWUTS | CLONE_NEWCGROUP | 0x80;
    assert_true((fixture->plan->clone_flags & all) == all);
}

static void a_kernel_without_time_namespaces_gets_none(void **state) {
    struct fixture *fixture = *state;
    struct pin_host host = root_host;
    host.time_namespaces = false;
    plan_for(fixture, tool, &host);
    assert_non_null(fixture->plan);
    assert_true((fixture->plan->clone_flags & 0x80) == 0);
}

static void no_capability_is_in_any_set_and_privileges_are_locked(void **state) {
    struct fixture *fixture = *state;
    plan_for(fixture, tool, &root_host);
    for (int set = 0; set < PIN_CAP_SET_COUNT; set++)
        assert_true(fixture->plan->capabilities[set] == 0);
    assert_true(fixture->plan->no_new_privileges && fixture->plan->lock_securebits);
    assert_true(fixture->plan->forbid_user_namespaces);
}

static void a_protection_that_the_host_lacks_is_a_refusal(void **state) {
    struct fixture *fixture = *state;
    struct pin_host host = root_host;
    host.lacks = 1u << PIN_PROTECT_PIDS | 1u << PIN_PROTECT_LANDLOCK;
    host.lacks_hint = "delegate them";
    plan_for(fixture, tool, &host);
    assert_null(fixture->plan);
    assert_int_equal(fixture->found.count, 2);
    assert_non_null(strstr(fixture->found.list[0].message, "pids"));
    assert_string_equal(fixture->found.list[0].hint, "delegate them");
}

static const struct pin_plan_rlimit *find_rlimit(const struct pin_plan *plan, int resource) {
    for (size_t i = 0; i < plan->rlimit_count; i++)
        if (plan->rlimits[i].resource == resource)
            return &plan->rlimits[i];
    return NULL;
}

static struct pin_host with_files(uint64_t hard, bool raises) {
    struct pin_host host = root_host;
    for (size_t i = 0; i < PIN_COUNT(host.hard_limits); i++)
        host.hard_limits[i] = UINT64_MAX;
    host.hard_limits[RLIMIT_NOFILE] = hard;
    host.raises_limits = raises;
    return host;
}

static void a_limit_above_the_callers_own_is_a_refusal(void **state) {
    struct fixture *fixture = *state;
    struct pin_host host = with_files(100, false);
    plan_for(fixture, "{\"pinfold\": 1, \"extends\": [\"tool\"]}", &host);
    assert_null(fixture->plan);
    assert_string_equal(fixture->found.list[0].pointer, "/resources/files");
    assert_non_null(strstr(fixture->found.list[0].message, "hard limit is 100"));
}

static void a_limit_above_the_callers_own_is_raised_by_those_who_may(void **state) {
    struct fixture *fixture = *state;
    struct pin_host host = with_files(100, true);
    plan_for(fixture, "{\"pinfold\": 1, \"extends\": [\"tool\"]}", &host);
    const struct pin_plan_rlimit *files = find_rlimit(fixture->plan, RLIMIT_NOFILE);
    assert_true(files->raised && files->hard == 1024);
    assert_false(find_rlimit(fixture->plan, RLIMIT_CORE)->raised);
}

static void where_the_policy_sets_no_limit_the_callers_own_stays(void **state) {
    struct fixture *fixture = *state;
    struct pin_host host = with_files(100, false);
    plan_for(fixture, "{\"pinfold\": 1, \"extends\": [\"tool\"], \"resources\": {\"files\": 1048576}}",
             &host);
    const struct pin_plan_rlimit *files = find_rlimit(fixture->plan, RLIMIT_NOFILE);
    assert_true(!files->raised && files->hard == 100 && files->soft == 100);
}

static void an_optional_protection_that_the_host_lacks_is_reported_missing(void **state) {
    struct fixture *fixture = *state;
    struct pin_host host = root_host;
    host.lacks = 1u << PIN_PROTECT_PIDS;
    plan_for(fixture, "{\"pinfold\": 1, \"name\": \"t\", \"optional\": [\"pids\"]}", &host);
    assert_non_null(fixture->plan);
    assert_int_equal(fixture->plan->missing, 1u << PIN_PROTECT_PIDS);
}

#define OPTIONAL ", \"optional\": [\"secret-memory\"]"
#define SWAPS ", \"resources\": {\"swap\": \"1MiB\"}"

static void where_a_host_swaps_secrets_need_memory_that_is_never_in_it(void **unused) {
    static const char *const secrets[] = {"KEY"};
    static const uint32_t bit = 1u << PIN_PROTECT_SECRET_MEMORY;
    static const struct {
        const char *rest;
        size_t secrets;
        bool swaps, lacks, planned;
        uint32_t missing;
    } rows[] = {
        {"",             1, false, false, true,  0  },
        {"",             1, true,  false, true,  0  },
        {"",             1, true,  true,  false, 0  },
        {"",             0, true,  true,  true,  0  },
        {SWAPS,          1, false, false, true,  0  },
        {SWAPS,          1, true,  false, false, 0  },
        {SWAPS,          0, true,  false, true,  0  },
        {OPTIONAL,       1, true,  true,  true,  bit},
        {OPTIONAL,       1, true,  false, true,  0  },
        {SWAPS OPTIONAL, 1, true,  false, true,  bit},
    };
    (void)unused;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        char policy[256];
        void *state;
        struct pin_host host = root_host;
        host.swaps = rows[i].swaps;
        host.lacks = rows[i].lacks ? bit : 0;
        assert_int_equal(set_up(&state), 0);
        struct fixture *fixture = state;
        fixture->request.secrets = secrets;
        fixture->request.secret_count = rows[i].secrets;
        fixture->request.hands_secrets = true;
        (void)snprintf(policy, sizeof(policy), "{\"pinfold\": 1, \"name\": \"t\", \"secrets\": [\"KEY\"]%s}",
                       rows[i].rest);
        plan_for(fixture, policy, &host);
        assert_int_equal(fixture->plan != NULL, rows[i].planned);
        if (rows[i].planned)
            assert_int_equal(fixture->plan->missing, rows[i].missing);
        else
            assert_non_null(strstr(fixture->found.list[0].message, "secret-memory"));
        assert_int_equal(tear_down(&state), 0);
    }
}

static const struct pin_op *find_op(const struct pin_plan *plan, enum pin_op_kind kind, const char *target) {
    for (size_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].kind == kind && strcmp(plan->ops[i].target, target) == 0)
            return &plan->ops[i];
    return NULL;
}

static void host_directories_are_read_only_and_without_set_id_programs(void **state) {
    struct fixture *fixture = *state;
    plan_for(fixture, tool, &root_host);
    const struct pin_op *usr = find_op(fixture->plan, PIN_OP_BIND, "usr");
    assert_non_null(usr);
    const uint64_t needed = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    assert_true((usr->attributes & needed) == needed);
    assert_true(fixture->plan->root_read_only);
}

static void dev_has_eight_nodes_at_most(void **state) {
    struct fixture *fixture = *state;
    plan_for(fixture, tool, &root_host);
    size_t nodes = 0;
    for (size_t i = 0; i < fixture->plan->op_count; i++) {
        const struct pin_op *op = &fixture->plan->ops[i];
        nodes += op->kind == PIN_OP_BIND && strncmp(op->target, "dev/", 4) == 0;
    }
    assert_int_equal(nodes, 6);
    assert_non_null(find_op(fixture->plan, PIN_OP_FILESYSTEM, "dev/pts"));
}

static void a_mount_that_shows_pinfolds_own_state_is_refused(void **state) {
    struct fixture *fixture = *state;
    plan_for(
        fixture,
        "{\"pinfold\": 1, \"name\": \"t\", \"filesystem\": {\"mounts\": [{\"source\": \"/run\", \"target\": "
        "\"/mnt\", \"access\": \"read-write\"}]}}",
        &root_host);
    assert_null(fixture->plan);
    assert_non_null(strstr(fixture->found.list[0].message, "pinfold's own state"));
}

static void what_the_builder_does_not_carry_out_is_refused_by_name(void **state) {
    struct fixture *fixture = *state;
    plan_for(fixture, tool, &root_host);
    static struct pin_pair sysctl = {"net.ipv4.ip_forward", "1"};
    fixture->bundle->sysctls = &sysctl;
    fixture->bundle->sysctl_count = 1;
    fixture->bundle->cgroups_path = "/machine.slice/x";
    fixture->bundle->resources.has_cpu_shares = true;
    fixture->bundle->rootfs_propagation = "shared";
    assert_null(pin_plan_make(fixture->bundle, &root_host, &fixture->found));
    assert_int_equal(fixture->found.count, 4);
    assert_string_equal(fixture->found.list[0].pointer, "/linux/sysctl");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_sandbox_of_root_has_a_range_of_its_own),
        TEST(a_sandbox_of_a_user_maps_that_users_id_alone),
        TEST(every_namespace_is_new),
        TEST(a_kernel_without_time_namespaces_gets_none),
        TEST(no_capability_is_in_any_set_and_privileges_are_locked),
        TEST(a_protection_that_the_host_lacks_is_a_refusal),
        TEST(a_limit_above_the_callers_own_is_a_refusal),
        TEST(a_limit_above_the_callers_own_is_raised_by_those_who_may),
        TEST(where_the_policy_sets_no_limit_the_callers_own_stays),
        TEST(an_optional_protection_that_the_host_lacks_is_reported_missing),
        cmocka_unit_test(where_a_host_swaps_secrets_need_memory_that_is_never_in_it),
        TEST(host_directories_are_read_only_and_without_set_id_programs),
        TEST(dev_has_eight_nodes_at_most),
        TEST(a_mount_that_shows_pinfolds_own_state_is_refused),
        TEST(what_the_builder_does_not_carry_out_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
