#include "bundle_fixture.h"

static void a_plain_run_has_every_wall(void **state) {
    (void)state;
    struct pin_policy *tool = body("\"name\": \"t\"");
    struct pin_request request = plain_request();
    struct pin_bundle *bundle = resolved(tool, &request);
    assert_int_equal(bundle->process.uid, 1000);
    assert_int_equal(bundle->process.gid, 1000);
    assert_true(bundle->process.no_new_privileges);
    assert_true(bundle->process.has_capabilities);
    for (size_t i = 0; i < PIN_CAP_SET_COUNT; i++)
        assert_int_equal(bundle->process.capabilities[i], 0);
    for (size_t i = 0; i < PIN_NS_COUNT; i++) {
        assert_true(bundle->namespaces[i].present);
        assert_null(bundle->namespaces[i].path);
    }
    assert_true(bundle->root.read_only);
    assert_true(bundle->seccomp.present);
    assert_int_not_equal(bundle->seccomp.default_action, PIN_FILTER_ALLOW);
    assert_true(bundle->ext.landlock.enabled);
    assert_true(has_text(bundle->masked_paths, bundle->masked_path_count, "/proc/kcore"));
    assert_true(has_text(bundle->readonly_paths, bundle->readonly_path_count, "/proc/sys"));
    assert_int_equal(bundle->uid_map_count + bundle->gid_map_count, 0);
    assert_string_equal(bundle->hostname, "pinfold");
    assert_string_equal(bundle->process.cwd, "/tmp");
    pin_bundle_free(bundle);
    pin_policy_free(tool);
}

static void the_roots_binds_come_first_and_are_read_only(void **state) {
    (void)state;
    struct pin_policy *tool = body("\"name\": \"t\"");
    struct pin_request request = plain_request();
    struct pin_bundle *bundle = resolved(tool, &request);
    assert_string_equal(bundle->mounts[0].destination, "/usr");
    assert_string_equal(bundle->mounts[0].source, "/usr");
    assert_true(has_text(bundle->mounts[0].options, bundle->mounts[0].option_count, "rro"));
    assert_ptr_equal(bundle->rootfs, &small_root);
    pin_bundle_free(bundle);
    pin_policy_free(tool);
}

struct workspace_row {
    enum pin_access granted, asked;
    const char *option; /* of the bind; NULL: there is none */
    bool writable;      /* to Landlock */
};

static void a_workspace_is_mounted_as_granted(void **state) {
    (void)state;
    static const struct workspace_row rows[] = {
        {PIN_ACCESS_WRITE, PIN_ACCESS_NONE,  "rw",  true },
        {PIN_ACCESS_WRITE, PIN_ACCESS_WRITE, "rw",  true },
        {PIN_ACCESS_WRITE, PIN_ACCESS_READ,  "rro", false},
        {PIN_ACCESS_WRITE, PIN_ACCESS_COW,   NULL,  true },
        {PIN_ACCESS_COW,   PIN_ACCESS_NONE,  NULL,  true },
        {PIN_ACCESS_READ,  PIN_ACCESS_NONE,  "rro", false},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_policy *tool = body("\"name\": \"t\"");
        tool->filesystem.workspace = rows[i].granted;
        struct pin_request request = plain_request();
        request.workspace.source = "/srv/project";
        request.workspace.access = rows[i].asked;
        struct pin_bundle *bundle = resolved(tool, &request);
        const struct pin_bundle_mount *mount = mount_at(bundle, "/workspace");
        assert_int_equal(mount != NULL, rows[i].option != NULL);
        if (mount != NULL)
            assert_true(has_text(mount->options, mount->option_count, rows[i].option));
        assert_string_equal(bundle->ext.workspace.source, "/srv/project");
        assert_int_equal(has_text(bundle->ext.landlock.write, bundle->ext.landlock.write_count, "/workspace"),
                         rows[i].writable);
        assert_string_equal(bundle->process.cwd, "/workspace");
        assert_int_equal(bundle->ext.workspace.size_bytes != 0,
                         bundle->ext.workspace.access == PIN_ACCESS_COW);
        pin_bundle_free(bundle);
        pin_policy_free(tool);
    }
}

static void without_a_workspace_nothing_is_mounted_or_writable_there(void **state) {
    (void)state;
    struct pin_policy *tool = body("\"name\": \"t\"");
    struct pin_request request = plain_request();
    struct pin_bundle *bundle = resolved(tool, &request);
    assert_null(mount_at(bundle, "/workspace"));
    assert_false(has_text(bundle->ext.landlock.write, bundle->ext.landlock.write_count, "/workspace"));
    pin_bundle_free(bundle);
    pin_policy_free(tool);
}

static void every_writable_path_has_a_capped_tmpfs(void **state) {
    (void)state;
    struct pin_policy *policy =
        body("\"filesystem\": {\"tmp\": \"8MiB\", \"write\": [\"/tmp\", \"/dev/shm\", \"/home/tool\"]}");
    struct pin_request request = plain_request();
    struct pin_bundle *bundle = resolved(policy, &request);
    static const char *const paths[] = {"/tmp", "/dev/shm", "/home/tool"};
    for (size_t i = 0; i < PIN_COUNT(paths); i++) {
        const struct pin_bundle_mount *mount = mount_at(bundle, paths[i]);
        assert_non_null(mount);
        assert_string_equal(mount->type, "tmpfs");
        assert_true(has_text(mount->options, mount->option_count, "size=8388608"));
    }
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

/* A tmpfs of size 0 would be one without a limit. */
static void no_tmp_means_no_tmpfs(void **state) {
    (void)state;
    struct pin_policy *policy = body("\"name\": \"t\"");
    policy->filesystem.tmp_bytes = 0;
    struct pin_request request = plain_request();
    struct pin_bundle *bundle = resolved(policy, &request);
    assert_null(mount_at(bundle, "/tmp"));
    assert_null(mount_at(bundle, "/dev/shm"));
    assert_string_equal(bundle->process.cwd, "/");
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

static void mounts_of_the_policy_come_last_and_keep_their_access(void **state) {
    (void)state;
    struct pin_policy *policy =
        body("\"filesystem\": {\"write\": [\"/tmp\", \"/data\"], \"mounts\": ["
             "{\"source\": \"/srv/models\", \"target\": \"/models\", \"access\": \"read-only\"},"
             "{\"source\": \"/srv/data\", \"target\": \"/data\", \"access\": \"read-write\"}]}");
    struct pin_request request = plain_request();
    request.workspace.source = "/srv/project";
    struct pin_bundle *bundle = resolved(policy, &request);
    const struct pin_bundle_mount *models = mount_at(bundle, "/models"), *data = mount_at(bundle, "/data");
    assert_ptr_equal(data, &bundle->mounts[bundle->mount_count - 1]); /* and no tmpfs stands for /data */
    assert_string_equal(data->type, "bind");
    assert_true(has_text(data->options, data->option_count, "rw"));
    assert_true(has_text(models->options, models->option_count, "rro"));
    assert_true(mount_at(bundle, "/workspace") < models);
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

static void an_overlay_root_is_capped_and_has_no_tmpfs_but_tmp(void **state) {
    (void)state;
    struct pin_policy *policy = body("\"filesystem\": {\"root\": \"overlay\", \"root_size\": \"32MiB\", "
                                     "\"write\": [\"/\", \"/tmp\", \"/opt\"]}");
    struct pin_request request = plain_request();
    struct pin_bundle *bundle = resolved(policy, &request);
    assert_false(bundle->root.read_only);
    assert_true(bundle->ext.root_overlay.enabled);
    assert_int_equal(bundle->ext.root_overlay.size_bytes, 32 * 1024 * 1024);
    assert_non_null(mount_at(bundle, "/tmp"));
    assert_null(mount_at(bundle, "/opt"));
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

struct variable_row {
    const char *what, *expected; /* NULL: the name is not in it */
    const char *set, *pass, *image, *host;
    const struct pin_pair *request; /* two of them; the end is a NULL key */
};

static void check_variable(const struct variable_row *row) {
    char text[512];
    (void)snprintf(text, sizeof(text),
                   "\"environment\": {\"set\": {%s}, \"pass\": [%s], \"refuse\": [\"BAD*\"]}",
                   row->set != NULL ? row->set : "", row->pass != NULL ? row->pass : "");
    struct pin_policy *policy = body(text);
    const char *host[] = {row->host, NULL}, *image[] = {row->image};
    struct pin_request request = plain_request();
    request.host_env = host;
    request.image_env = image;
    request.image_env_count = row->image != NULL;
    request.env = row->request;
    request.env_count = row->request[1].key != NULL ? 2 : row->request[0].key != NULL;
    struct pin_bundle *bundle = resolved(policy, &request);
    const char *name = row->what, *value = NULL;
    size_t length = strlen(name);
    for (size_t i = 0; i < bundle->process.env_count; i++)
        if (strncmp(bundle->process.env[i], name, length) == 0 && bundle->process.env[i][length] == '=')
            value = bundle->process.env[i] + length + 1;
    if ((value == NULL) != (row->expected == NULL) || (value != NULL && strcmp(value, row->expected) != 0))
        fail_msg("%s is '%s', not '%s'", name, value != NULL ? value : "unset",
                 row->expected != NULL ? row->expected : "unset");
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

static void layers_of_the_environment_lie_in_their_order(void **state) {
    (void)state;
    static const char set[] = "\"A\": \"set\"", pass[] = "\"A\"", image[] = "A=image", host[] = "A=host";
    static const struct pin_pair none[2],
        asked[2] =
            {
                {"A", "asked"}
    },
        empty[2] = {{"A", ""}}, gone[2] = {{"A", NULL}}, equals[2] = {{"A", "b=c"}},
        twice[2] = {{"A", "first"}, {"A", "last"}};
    static const struct variable_row rows[] = {
        {"A",    "set",   set,               NULL,       NULL,     NULL,     none  },
        {"A",    "image", set,               NULL,       image,    NULL,     none  },
        {"A",    "host",  set,               pass,       image,    host,     none  },
        {"A",    "set",   set,               NULL,       NULL,     host,     none  }, /* not passed */
        {"A",    "asked", set,               pass,       NULL,     host,     asked },
        {"A",    "last",  NULL,              NULL,       NULL,     NULL,     twice },
        {"A",    NULL,    set,               NULL,       NULL,     NULL,     gone  },
        {"A",    "",      NULL,              NULL,       NULL,     NULL,     empty },
        {"A",    "b=c",   NULL,              NULL,       NULL,     NULL,     equals},
        {"AB",   NULL,    NULL,              pass,       NULL,     "AB=x",   none  },
        {"B",    NULL,    NULL,              NULL,       NULL,     "B=x",    none  },
        {"BAD1", NULL,    "\"BAD1\": \"x\"", NULL,       NULL,     NULL,     none  },
        {"BAD1", NULL,    NULL,              NULL,       "BAD1=x", NULL,     none  },
        {"BAD1", NULL,    NULL,              "\"BAD1\"", NULL,     "BAD1=x", none  },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        check_variable(&rows[i]);
}

static void limits_become_resources(void **state) {
    (void)state;
    struct pin_policy *policy =
        body("\"resources\": {\"memory\": \"64MiB\", \"swap\": \"16MiB\", \"cpus\": 0.5, \"pids\": 7, "
             "\"files\": 99, \"core\": 0, \"wall_time\": \"3s\", \"stdout\": \"2KiB\"}");
    struct pin_request request = plain_request();
    struct pin_bundle *bundle = resolved(policy, &request);
    const struct pin_bundle_resources *resources = &bundle->resources;
    assert_int_equal(resources->memory, 64 << 20);
    assert_int_equal(resources->swap, 80 << 20); /* OCI counts both */
    assert_int_equal(resources->cpu_quota, 50000);
    assert_int_equal(resources->cpu_period, 100000);
    assert_int_equal(resources->pids, 7);
    assert_string_equal(bundle->process.rlimits[0].type, "RLIMIT_NOFILE");
    assert_int_equal(bundle->process.rlimits[0].hard, 99);
    assert_int_equal(bundle->ext.wall_time_ns, 3000000000);
    assert_int_equal(bundle->ext.stdout_bytes, 2048);
    assert_true(bundle->ext.cpu_time_ns == PIN_UNLIMITED);
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

static void without_limits_there_are_no_resources(void **state) {
    (void)state;
    struct pin_policy *policy = body("\"resources\": {\"memory\": \"unlimited\", \"swap\": \"unlimited\", "
                                     "\"cpus\": \"unlimited\", \"pids\": \"unlimited\"}");
    struct pin_request request = plain_request();
    struct pin_bundle *bundle = resolved(policy, &request);
    assert_false(bundle->resources.has_memory || bundle->resources.has_swap || bundle->resources.has_pids ||
                 bundle->resources.has_cpu_quota);
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_run_has_every_wall),
        cmocka_unit_test(the_roots_binds_come_first_and_are_read_only),
        cmocka_unit_test(a_workspace_is_mounted_as_granted),
        cmocka_unit_test(without_a_workspace_nothing_is_mounted_or_writable_there),
        cmocka_unit_test(every_writable_path_has_a_capped_tmpfs),
        cmocka_unit_test(no_tmp_means_no_tmpfs),
        cmocka_unit_test(mounts_of_the_policy_come_last_and_keep_their_access),
        cmocka_unit_test(an_overlay_root_is_capped_and_has_no_tmpfs_but_tmp),
        cmocka_unit_test(layers_of_the_environment_lie_in_their_order),
        cmocka_unit_test(limits_become_resources),
        cmocka_unit_test(without_limits_there_are_no_resources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
