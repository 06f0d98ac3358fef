/* Hosts that don't exist, or not here: the texts are of Debian 12, Ubuntu 20.04, docker, podman and a user
 * session. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/names.h"
#include "policy/policy.h"
#include "runtime/build/cgroup/facts.h"

#define V2_MOUNT                                                                                             \
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"                                                \
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 "                \
    "rw,nsdelegate,memory_recursiveprot\n"

#define HYBRID_MOUNTS                                                                                        \
    "31 23 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755\n"                \
    "32 31 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate\n"              \
    "33 31 0:28 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,xattr,name=systemd\n"        \
    "36 31 0:32 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:15 - cgroup cgroup rw,cpu,cpuacct\n"           \
    "37 31 0:33 / /sys/fs/cgroup/memory rw,nosuid shared:16 - cgroup cgroup rw,memory\n"                     \
    "38 31 0:34 / /sys/fs/cgroup/pids rw,nosuid shared:17 - cgroup cgroup rw,pids\n"                         \
    "39 31 0:35 / /sys/fs/cgroup/net_cls,net_prio rw shared:18 - cgroup cgroup rw,net_cls,net_prio\n"        \
    "40 31 0:36 / /sys/fs/cgroup/blkio rw shared:19 - cgroup cgroup rw,blkio\n"

#define HYBRID_OWN                                                                                           \
    "12:pids:/user.slice/user-1000.slice/session-2.scope\n9:memory:/user.slice\n"                            \
    "4:cpu,cpuacct:/user.slice\n1:name=systemd:/user.slice/user-1000.slice/session-2.scope\n"                \
    "0::/user.slice/user-1000.slice/session-2.scope\n"

static struct pin_cgroup_facts parse(const char *mounts, const char *own, bool privileged) {
    struct pin_cgroup_facts facts;
    pin_cgroup_facts_parse(mounts, own, privileged, "pinfold", &facts);
    return facts;
}

static void a_v2_host_has_one_hierarchy(void **state) {
    (void)state;
    struct pin_cgroup_facts facts = parse(V2_MOUNT, "0::/user.slice/user-0.slice/session-1.scope\n", true);
    assert_int_equal(facts.kind, PIN_CGROUP_V2);
    assert_int_equal(facts.count, 1);
    assert_string_equal(facts.hierarchies[0].base, "/sys/fs/cgroup");
    assert_null(pin_cgroup_facts_of(&facts, PIN_CGROUP_MEMORY));
    pin_cgroup_facts_unified(&facts, "cpuset cpu io memory hugetlb pids rdma misc\n");
    assert_ptr_equal(pin_cgroup_facts_of(&facts, PIN_CGROUP_MEMORY), &facts.hierarchies[0]);
    assert_ptr_equal(pin_cgroup_facts_of(&facts, PIN_CGROUP_IO), &facts.hierarchies[0]);
    assert_null(pin_cgroup_facts_of(&facts, PIN_CGROUP_FREEZER));
    assert_int_equal(pin_cgroup_facts_lack(&facts, NULL), 0);
}

static void a_users_base_is_the_own_group(void **state) {
    (void)state;
    struct pin_cgroup_facts facts =
        parse(V2_MOUNT, "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service\n", false);
    assert_string_equal(facts.hierarchies[0].base,
                        "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/x.service");
}

static void a_command_in_our_leaf_has_its_base_above(void **state) {
    (void)state;
    struct pin_cgroup_facts facts = parse(V2_MOUNT, "0::/a.scope/pinfold-self\n", false);
    assert_string_equal(facts.hierarchies[0].base, "/sys/fs/cgroup/a.scope");
}

static void a_hybrid_host_uses_controllers_where_they_are(void **state) {
    (void)state;
    struct pin_cgroup_facts facts = parse(HYBRID_MOUNTS, HYBRID_OWN, true);
    pin_cgroup_facts_unified(&facts, "hugetlb memory\n");
    assert_int_equal(facts.kind, PIN_CGROUP_HYBRID);
    const struct pin_cgroup_hierarchy *cpu = pin_cgroup_facts_of(&facts, PIN_CGROUP_CPU);
    assert_string_equal(cpu->base, "/sys/fs/cgroup/cpu,cpuacct");
    assert_ptr_equal(cpu, pin_cgroup_facts_of(&facts, PIN_CGROUP_CPUACCT));
    assert_string_equal(pin_cgroup_facts_of(&facts, PIN_CGROUP_MEMORY)->base, "/sys/fs/cgroup/memory");
    assert_string_equal(pin_cgroup_facts_of(&facts, PIN_CGROUP_IO)->base, "/sys/fs/cgroup/blkio");
    assert_true(pin_cgroup_facts_of(&facts, PIN_CGROUP_HUGETLB)->v2);
    assert_int_equal(facts.count, 6); /* a hierarchy without controllers is none of ours */
}

static void a_unit_of_systemd_s_is_in_every_hierarchy_of_a_hybrid_host(void **state) {
    (void)state;
    struct pin_cgroup_facts facts = parse(HYBRID_MOUNTS, HYBRID_OWN, true);
    assert_string_equal(facts.tracking.mount, "/sys/fs/cgroup/systemd");
    pin_cgroup_facts_at_top(&facts);
    assert_true(facts.in_unit);
    assert_int_equal(facts.count, 7);
    for (size_t i = 0; i < facts.count; i++) {
        assert_true(facts.hierarchies[i].usable);
        assert_string_equal(facts.hierarchies[i].base, facts.hierarchies[i].mount);
    }
    facts = parse(V2_MOUNT, "0::/\n", true);
    pin_cgroup_facts_at_top(&facts);
    assert_false(facts.in_unit);
    assert_int_equal(facts.count, 1);
}

static void a_line_of_a_process_is_found_below_its_mount(void **state) {
    (void)state;
    struct pin_cgroup_hierarchy whole = {.shown = "/"}, part = {.shown = "/docker/1"};
    assert_string_equal(pin_cgroup_below_mount(&whole, "/a.slice/b.scope"), "/a.slice/b.scope");
    assert_string_equal(pin_cgroup_below_mount(&whole, "/"), "");
    assert_string_equal(pin_cgroup_below_mount(&part, "/docker/1/a.slice"), "/a.slice");
    assert_null(pin_cgroup_below_mount(&part, "/docker/12/a.slice"));
    assert_null(pin_cgroup_below_mount(&part, ""));
}

static void a_v1_host_has_no_unified_hierarchy(void **state) {
    (void)state;
    struct pin_cgroup_facts facts =
        parse("38 31 0:34 / /cg/pids rw - cgroup cgroup rw,pids\n", "2:pids:/x\n", false);
    assert_int_equal(facts.kind, PIN_CGROUP_V1);
    assert_int_equal(facts.unified, -1);
    assert_string_equal(facts.hierarchies[0].base, "/cg/pids/x");
    pin_cgroup_facts_unified(&facts, "memory");
    assert_null(pin_cgroup_facts_of(&facts, PIN_CGROUP_MEMORY));
    assert_int_equal(pin_cgroup_facts_lack(&facts, NULL) & 1u << PIN_PROTECT_MEMORY,
                     1u << PIN_PROTECT_MEMORY);
}

static void a_container_sees_its_group_as_the_top(void **state) {
    (void)state;
    static const char mounts[] = /* docker on a v1 host, the host's cgroup namespace */
        "1 2 0:34 /docker/0123abcd /sys/fs/cgroup/pids ro,nosuid master:17 - cgroup cgroup rw,pids\n"
        "1 2 0:35 /docker/0123abcd /sys/fs/cgroup/memory rw,nosuid master:18 - cgroup cgroup rw,memory\n";
    static const char own[] = "12:pids:/docker/0123abcd\n9:memory:/docker/0123abcd/sub\n";
    struct pin_cgroup_facts facts = parse(mounts, own, false);
    assert_true(facts.hierarchies[0].read_only);
    assert_false(facts.hierarchies[0].usable);
    assert_string_equal(facts.hierarchies[0].base, "");
    assert_string_equal(facts.hierarchies[1].base, "/sys/fs/cgroup/memory/sub");
    facts = parse(mounts, "12:pids:/\n9:memory:/docker/0123abcdef\n", false);
    assert_false(facts.hierarchies[1].usable); /* a longer name isn't below a shorter one */
}

static void a_group_above_the_namespace_is_no_base(void **state) {
    (void)state;
    struct pin_cgroup_facts facts = parse(V2_MOUNT, "0::/../../init.scope\n", false);
    assert_false(facts.hierarchies[0].usable);
    assert_string_equal(facts.hierarchies[0].own, "");
}

static void the_usual_place_wins_over_other_mounts(void **state) {
    (void)state;
    struct pin_cgroup_facts facts =
        parse("29 23 0:26 / /var/lib/box/cgroup rw - cgroup2 cgroup2 rw\n" V2_MOUNT
              "31 23 0:26 / /srv/box/sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
              "0::/\n", false);
    assert_int_equal(facts.count, 1);
    assert_string_equal(facts.hierarchies[0].base, "/sys/fs/cgroup");
}

static void blanks_in_mount_points_are_decoded(void **state) {
    (void)state;
    struct pin_cgroup_facts facts =
        parse("1 2 0:1 / /my\\040c\\134g rw - cgroup2 none rw\n", "0::/a\n", false);
    assert_string_equal(facts.hierarchies[0].base, "/my c\\g/a");
}

static void a_host_without_cgroups_is_no_error(void **state) {
    (void)state;
    const char *hint = NULL;
    struct pin_cgroup_facts facts = parse("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "", true);
    assert_int_equal(facts.kind, PIN_CGROUP_NONE);
    assert_int_equal(facts.count, 0);
    facts.swap = true;
    assert_int_equal(pin_cgroup_facts_lack(&facts, &hint), 0xf);
    assert_non_null(hint);
    facts.swap = false; /* then no swap limit is needed */
    assert_int_equal(pin_cgroup_facts_lack(&facts, &hint), 0xf & ~(1u << PIN_PROTECT_SWAP));
}

static void nonsense_is_passed_over(void **state) {
    (void)state;
    static const char *const mounts[] = {
        "",
        "\n\n\n",
        "cgroup2",
        "1 2 0:1 / /x rw - cgroup2",
        "1 2 0:1 / /x rw - cgroup2 none",
        "1 2 0:1 / /x rw cgroup2 none rw",
        "1 2 0:1 relative /x rw - cgroup2 none rw",
        "1 2 0:1 / relative rw - cgroup2 none rw",
        "1 2 0:1 / /x rw - cgroup none rw,name=systemd",
        "1 2 0:1 / /x rw - cgroup none rw,memoryless",
        "- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - -",
    };
    for (size_t i = 0; i < PIN_COUNT(mounts); i++)
        assert_int_equal(parse(mounts[i], ":::\n0:\n0::\n7\n::/\n", false).count, 0);
}

static void paths_that_are_too_long_are_no_base(void **state) {
    (void)state;
    static char own[2000] = "0::/";
    memset(own + 4, 'x', sizeof(own) - 6);
    own[sizeof(own) - 2] = '\n';
    struct pin_cgroup_facts facts = parse(V2_MOUNT, own, false);
    assert_false(facts.hierarchies[0].usable);
    own[4 + 505] = '\n'; /* fits by itself, but not below the mount */
    own[4 + 506] = '\0';
    facts = parse(V2_MOUNT, own, false);
    assert_false(facts.hierarchies[0].usable);
    assert_string_equal(facts.hierarchies[0].base, "");
}

static void many_mounts_do_not_overflow(void **state) {
    (void)state;
    static char mounts[64 * 80];
    size_t used = 0;
    for (unsigned i = 1; i < 64; i++)
        used += (size_t)snprintf(mounts + used, sizeof(mounts) - used,
                                 "1 2 0:1 / /c%u rw - cgroup c rw%s%s%s%s%s%s\n", i, i & 1 ? ",cpu" : "",
                                 i & 2 ? ",pids" : "", i & 4 ? ",memory" : "", i & 8 ? ",blkio" : "",
                                 i & 16 ? ",devices" : "", i & 32 ? ",freezer" : "");
    assert_int_equal(parse(mounts, "", true).count, PIN_CGROUP_HIERARCHIES);
}

static void every_controller_has_a_name_that_is_found(void **state) {
    (void)state;
    for (int c = 0; c < PIN_CGROUP_CONTROLLER_COUNT; c++) {
        char line[128];
        const char *name = pin_cgroup_controller_name((enum pin_cgroup_controller)c, false);
        (void)snprintf(line, sizeof(line), "1 2 0:1 / /x rw - cgroup none rw,%s\n", name);
        struct pin_cgroup_facts facts = parse(line, "", true);
        assert_int_equal(facts.where[c], 0);
        assert_int_equal(facts.hierarchies[0].controllers, 1u << c);
    }
}

static void the_facts_of_this_host_can_be_had(void **state) {
    (void)state;
    struct pin_error err = {0};
    struct pin_cgroup_facts facts;
    assert_true(pin_cgroup_facts_get("pinfold", &facts, &err));
    assert_true(facts.kind < PIN_CGROUP_KIND_COUNT);
    assert_non_null(pin_cgroup_kind_name(facts.kind));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_v2_host_has_one_hierarchy),
        cmocka_unit_test(a_users_base_is_the_own_group),
        cmocka_unit_test(a_command_in_our_leaf_has_its_base_above),
        cmocka_unit_test(a_hybrid_host_uses_controllers_where_they_are),
        cmocka_unit_test(a_unit_of_systemd_s_is_in_every_hierarchy_of_a_hybrid_host),
        cmocka_unit_test(a_line_of_a_process_is_found_below_its_mount),
        cmocka_unit_test(a_v1_host_has_no_unified_hierarchy),
        cmocka_unit_test(a_container_sees_its_group_as_the_top),
        cmocka_unit_test(a_group_above_the_namespace_is_no_base),
        cmocka_unit_test(the_usual_place_wins_over_other_mounts),
        cmocka_unit_test(blanks_in_mount_points_are_decoded),
        cmocka_unit_test(a_host_without_cgroups_is_no_error),
        cmocka_unit_test(nonsense_is_passed_over),
        cmocka_unit_test(paths_that_are_too_long_are_no_base),
        cmocka_unit_test(many_mounts_do_not_overflow),
        cmocka_unit_test(every_controller_has_a_name_that_is_found),
        cmocka_unit_test(the_facts_of_this_host_can_be_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
