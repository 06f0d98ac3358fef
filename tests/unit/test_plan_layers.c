#include <stdio.h>

#include <linux/mount.h>

#include "base/units.h"
#include "images/image_root.h"
#include "tests/unit/plan_fixture.h"

static const char *layers[PIN_PLAN_LAYERS_MAX + 1];

/* The bundle of `true` in an image of so many layers, under the tool profile with these fields. */
static void resolve(struct fixture *fixture, const char *fields, size_t count) {
    const struct pin_image_config config = {
        .workdir = "/srv//./app/", .volumes = (const char *[]){"/data/v", "/a/../b", "/"},
               .volume_count = 3
    };
    char text[512];
    (void)snprintf(text, sizeof(text), "{\"pinfold\": 1, \"name\": \"t\"%s}", fields);
    fixture->request.image = "box";
    narrow(fixture, text);
    for (size_t i = 0; i < PIN_COUNT(layers); i++)
        layers[i] = "/store/layer";
    fixture->rootfs = (struct pin_rootfs){.kind = PIN_ROOTFS_LAYERS, .layers = layers, .layer_count = count};
    pin_image_complete(&fixture->arena, "name", &config, &fixture->rootfs);
    fixture->bundle = pin_resolve(fixture->effective, &fixture->request, &fixture->rootfs, &fixture->found);
    assert_non_null(fixture->bundle);
}

static struct pin_plan *plan_for(struct fixture *fixture, const char *fields, size_t count,
                                 const struct pin_host *host) {
    resolve(fixture, fields, count);
    fixture->plan = pin_plan_make(fixture->bundle, host, &fixture->found);
    return fixture->plan;
}

static void layers_are_read_only_and_bring_neither_set_id_programs_nor_devices(void **state) {
    const struct pin_plan *plan = plan_for(*state, "", 3, &root_host);
    assert_non_null(plan);
    assert_int_equal(plan->root, PIN_ROOT_FROM_LAYERS);
    assert_int_equal(plan->layer_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(plan->layers[i].attributes,
                         MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
        assert_int_equal(plan->layers[i].idmap, PIN_IDMAP_SANDBOX);
    }
}

static void a_users_layers_are_not_idmapped(void **state) {
    const struct pin_plan *plan = plan_for(*state, "", 1, &user_host);
    assert_non_null(plan);
    assert_int_equal(plan->layers[0].idmap, PIN_IDMAP_NONE);
}

static void assert_map(const struct pin_id_map *map, uint32_t inside, uint32_t outside, uint32_t count) {
    assert_int_equal(map->inside, inside);
    assert_int_equal(map->outside, outside);
    assert_int_equal(map->count, count);
}

static const struct pin_host host_with_ids = {
    .uid = 1234,
    .gid = 77,
    .landlock_abi = 7,
    .raises_limits = true,
    .subuids = {100000, 65536},
    .subgids = {200000, 65536}
};

static void many_ids_of_an_ordinary_user_lie_around_the_users_own(void **state) {
    const struct pin_plan *plan = plan_for(*state, ", \"identity\": {\"ids\": 65536}", 1, &host_with_ids);
    assert_non_null(plan);
    assert_int_equal(plan->uid_map_count, 3);
    assert_map(&plan->uid_maps[0], 0, 100000, 1000);
    assert_map(&plan->uid_maps[1], 1000, 1234, 1);
    assert_map(&plan->uid_maps[2], 1001, 101000, 64535);
    assert_map(&plan->gid_maps[1], 1000, 77, 1);
}

static void the_users_own_ids_may_be_the_first_or_the_last(void **state) {
    const struct pin_plan *plan =
        plan_for(*state, ", \"identity\": {\"ids\": 10, \"user\": 0, \"group\": 9}", 1, &host_with_ids);
    assert_non_null(plan);
    assert_int_equal(plan->uid_map_count, 2);
    assert_map(&plan->uid_maps[0], 0, 1234, 1);
    assert_map(&plan->uid_maps[1], 1, 100000, 9);
    assert_int_equal(plan->gid_map_count, 2);
    assert_map(&plan->gid_maps[0], 0, 200000, 9);
    assert_map(&plan->gid_maps[1], 9, 77, 1);
}

static void a_read_only_root_is_sealed_and_has_room_for_mount_points(void **state) {
    const struct pin_plan *plan = plan_for(*state, "", 1, &root_host);
    assert_true(plan->root_read_only);
    assert_int_equal(plan->upper_bytes, 4 * PIN_MIB);
}

static void an_overlay_root_is_as_large_as_the_policy_says(void **state) {
    const struct pin_plan *plan =
        plan_for(*state, ", \"filesystem\": {\"root\": \"overlay\", \"root_size\": \"7MiB\"}", 1, &root_host);
    assert_false(plan->root_read_only);
    assert_int_equal(plan->upper_bytes, 7 * PIN_MIB);
}

#define ON_DISK(size)                                                                                        \
    ", \"filesystem\": {\"root\": \"overlay\", \"root_storage\": \"disk\", \"root_size\": " size "}"

static void a_root_on_disk_is_as_large_as_the_policy_says(void **state) {
    const struct pin_plan *plan = plan_for(*state, ON_DISK("\"7MiB\""), 1, &root_host);
    assert_non_null(plan);
    assert_true(plan->upper_on_disk);
    assert_int_equal(plan->upper_bytes, 7 * PIN_MIB);
}

static void a_root_that_is_only_read_has_no_disk(void **state) {
    const struct pin_plan *plan =
        plan_for(*state, ", \"filesystem\": {\"root_storage\": \"disk\"}", 1, &root_host);
    assert_non_null(plan);
    assert_false(plan->upper_on_disk);
}

static void a_root_on_disk_is_refused_where_nobody_could_hold_it_to_its_size(void **state) {
    static const struct {
        const char *size;
        const struct pin_host *host;
        const char *pointer;
    } rows[] = {
        {ON_DISK("\"7MiB\""),      &host_with_ids, "/filesystem/root_storage"},
        {ON_DISK("\"unlimited\""), &root_host,     "/filesystem/root_size"   },
        {ON_DISK("0"),             &root_host,     "/filesystem/root_size"   },
        {ON_DISK("4194303"),       &root_host,     "/filesystem/root_size"   },
        {ON_DISK("8796093022209"), &root_host,     "/filesystem/root_size"   },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct fixture *fixture = *state;
        assert_null(plan_for(fixture, rows[i].size, 1, rows[i].host));
        assert_int_equal(fixture->found.count, 1);
        assert_string_equal(fixture->found.list[0].pointer, rows[i].pointer);
        clear(fixture);
    }
}

static void too_many_layers_are_refused(void **state) {
    struct fixture *fixture = *state;
    assert_null(plan_for(fixture, "", PIN_PLAN_LAYERS_MAX + 1, &root_host));
}

static void no_layers_are_refused(void **state) {
    struct fixture *fixture = *state;
    assert_null(plan_for(fixture, "", 0, &root_host));
}

static const struct pin_op *find_op(const struct pin_plan *plan, const char *target) {
    for (size_t i = 0; i < plan->op_count; i++)
        if (strcmp(plan->ops[i].target, target) == 0)
            return &plan->ops[i];
    return NULL;
}

static void what_the_image_may_lack_is_made_where_nothing_is(void **state) {
    static const struct {
        const char *target;
        enum pin_op_kind kind;
    } rows[] = {
        {"etc/hosts",       PIN_OP_FILE     },
        {"etc/resolv.conf", PIN_OP_FILE     },
        {"etc/hostname",    PIN_OP_FILE     },
        {"srv/app",         PIN_OP_DIRECTORY},
        {"data/v",          PIN_OP_DIRECTORY},
    };
    const struct pin_plan *plan = plan_for(*state, "", 1, &root_host);
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        const struct pin_op *op = find_op(plan, rows[i].target);
        assert_non_null(op);
        assert_int_equal(op->kind, rows[i].kind);
        assert_true(op->make_target);
    }
    assert_null(find_op(plan, "b"));
    assert_null(find_op(plan, "a/../b"));
    assert_null(find_op(plan, ""));
}

/* A bundle's own directory is never written to. */
static void a_writable_root_directory_is_the_layer_of_an_overlay(void **state) {
    struct fixture *fixture = *state;
    resolve(fixture, ", \"filesystem\": {\"root\": \"overlay\", \"root_size\": \"7MiB\"}", 1);
    fixture->bundle->rootfs = NULL;
    fixture->bundle->directory = "/bundle";
    fixture->bundle->root.path = "rootfs";
    fixture->plan = pin_plan_make(fixture->bundle, &root_host, &fixture->found);
    assert_non_null(fixture->plan);
    assert_int_equal(fixture->plan->root, PIN_ROOT_FROM_LAYERS);
    assert_int_equal(fixture->plan->layer_count, 1);
    assert_string_equal(fixture->plan->layers[0].source, "/bundle/rootfs");
    assert_int_equal(fixture->plan->upper_bytes, 7 * PIN_MIB);
}

static void labels_of_an_image_become_annotations_but_for_ours(void **state) {
    static const struct pin_pair labels[] = {
        {"maintainer",         "x"       },
        {"io.pinfold.policy",  "strict"  },
        {"",                   "nameless"},
        {"io.pinfold-not-our", "theirs"  }
    };
    struct fixture *fixture = *state;
    fixture->request.image_labels = labels;
    fixture->request.image_label_count = PIN_COUNT(labels);
    resolve(fixture, "", 1);
    assert_int_equal(fixture->bundle->annotation_count, 2);
    assert_string_equal(fixture->bundle->annotations[0].key, "maintainer");
    assert_string_equal(fixture->bundle->annotations[1].key, "io.pinfold-not-our");
    assert_int_equal(fixture->bundle->ext.label_count, 0);
}

static void a_rule_without_a_signature_is_preferred(void **state) {
    static const char policy[] =
        "{\"pinfold\": 1, \"name\": \"t\", \"images\": [{\"pattern\": \"b*\", \"require_signature\": true, "
        "\"keys\": [\"/k\"]}, \"box\"]}";
    struct fixture *fixture = *state;
    fixture->policy = pin_policy_parse("test.json", policy, strlen(policy), &fixture->found);
    assert_non_null(fixture->policy);
    assert_false(pin_request_image_rule(fixture->policy, "box", NULL)->require_signature);
    assert_true(pin_request_image_rule(fixture->policy, "bax", NULL)->require_signature);
    assert_null(pin_request_image_rule(fixture->policy, "cox", NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(layers_are_read_only_and_bring_neither_set_id_programs_nor_devices),
        TEST(a_users_layers_are_not_idmapped),
        TEST(many_ids_of_an_ordinary_user_lie_around_the_users_own),
        TEST(the_users_own_ids_may_be_the_first_or_the_last),
        TEST(a_read_only_root_is_sealed_and_has_room_for_mount_points),
        TEST(an_overlay_root_is_as_large_as_the_policy_says),
        TEST(a_root_on_disk_is_as_large_as_the_policy_says),
        TEST(a_root_that_is_only_read_has_no_disk),
        TEST(a_root_on_disk_is_refused_where_nobody_could_hold_it_to_its_size),
        TEST(too_many_layers_are_refused),
        TEST(no_layers_are_refused),
        TEST(what_the_image_may_lack_is_made_where_nothing_is),
        TEST(a_writable_root_directory_is_the_layer_of_an_overlay),
        TEST(labels_of_an_image_become_annotations_but_for_ours),
        TEST(a_rule_without_a_signature_is_preferred),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
