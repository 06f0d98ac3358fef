/* The documents of an image: sound ones are read, doubtful ones refused. */
#include "tests/unit/test.h"

#include <string.h>

#include "images/store/oci.h"
#include "images/store/signature.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DESCRIPTOR(type, extra)                                                                              \
    "{\"mediaType\":\"" type "\",\"digest\":\"sha256:" HEX "\",\"size\":5" extra "}"
#define M "application/vnd.oci.image.manifest.v1+json"

static void an_index_gives_the_manifest_of_the_platform(void **state) {
    (void)state;
    static const char text[] = "{\"schemaVersion\":2,\"manifests\":[" DESCRIPTOR(
        M,
        ",\"platform\":{\"os\":\"linux\","
        "\"architecture\":\"arm64\",\"variant\":"
        "\"v8\"}") "," DESCRIPTOR(M,
                                  ",\"platform\""
                                  ":{\"os\":"
                                  "\"linux\","
                                  "\"architectur"
                                  "e\":\"arm\","
                                  "\"variant\":"
                                  "\"v6\"}") "," DESCRIPTOR(M,
                                                            ",\"platform\":{\"os\":\"linux\","
                                                            "\"architecture\":\"arm\",\"variant\":"
                                                            "\"v7\"}") "," DESCRIPTOR(M, ","
                                                                                         "\"platform\":{"
                                                                                         "\"os\":"
                                                                                         "\"windows\","
                                                                                         "\"architecture\":"
                                                                                         "\"amd64\"}") "]}";
    static const struct {
        const char *platform;
        int chosen;
    } rows[] = {
        {"linux/arm64",    0 },
        {"linux/arm64/v8", 0 },
        {"linux/arm/v7",   2 },
        {"linux/arm",      1 },
        {"windows/amd64",  3 },
        {"linux/amd64",    -1},
        {"linux/arm64/v9", -1}
    };
    struct pin_arena arena = {0};
    struct pin_error err = {0};
    struct pin_oci_index index;
    assert_true(pin_oci_index_parse(&arena, text, strlen(text), &index, &err));
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_oci_platform platform;
        assert_true(pin_oci_platform_parse(&arena, rows[i].platform, &platform));
        const struct pin_oci_descriptor *chosen = pin_oci_index_choose(&index, &platform);
        assert_int_equal(chosen == NULL ? -1 : (int)(chosen - index.manifests), rows[i].chosen);
    }
    pin_arena_free(&arena);
}

static void platforms_have_two_or_three_parts(void **state) {
    (void)state;
    static const char *const rows[] = {"",          "linux",          "linux/",       "/amd64",
                                       "linux//v7", "linux/arm/v7/x", "lin ux/amd64", "../x"};
    struct pin_arena arena = {0};
    struct pin_oci_platform platform;
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        assert_false(pin_oci_platform_parse(&arena, rows[i], &platform));
    pin_arena_free(&arena);
}

static void a_manifest_gives_configuration_and_layers(void **state) {
    (void)state;
    static const char text[] =
        "{\"schemaVersion\":2,\"config\":" DESCRIPTOR("c", "") ",\"layers\":[" DESCRIPTOR(
            "l", ",\"annotations\":{\"dev.cosignproject.cosign/signature\":\"c2ln\"}") "]}";
    struct pin_arena arena = {0};
    struct pin_error err = {0};
    struct pin_oci_manifest manifest;
    assert_true(pin_oci_manifest_parse(&arena, text, strlen(text), &manifest, &err));
    assert_int_equal(manifest.layer_count, 1);
    assert_string_equal(manifest.config.digest, "sha256:" HEX);
    assert_string_equal(manifest.layers[0].signature, "c2ln");
    assert_string_equal(manifest.media_type, M);
    pin_arena_free(&arena);
}

static void doubtful_manifests_are_refused(void **state) {
    (void)state;
    static const char *const rows[] = {
        "{}",
        "{\"schemaVersion\":2}",
        "{\"schemaVersion\":2,\"config\":" DESCRIPTOR("c", "") "}",
        "{\"schemaVersion\":\"2\",\"config\":" DESCRIPTOR("c", "") ",\"layers\":[]}",
        "{\"schemaVersion\":2,\"config\":" DESCRIPTOR("c", "") ",\"layers\":[],\"manifests\":[]}",
        "{\"schemaVersion\":2,\"config\":" DESCRIPTOR("c", "") ",\"layers\":[],\"fsLayers\":[]}",
        "{\"schemaVersion\":2,\"mediaType\":\"x\",\"config\":" DESCRIPTOR("c", "") ",\"layers\":[]}",
        "{\"schemaVersion\":2,\"config\":" DESCRIPTOR("c", ",\"urls\":[\"http://x\"]") ",\"layers\":[]}",
        "{\"schemaVersion\":2,\"config\":" DESCRIPTOR("c", "") ",\"layers\":[],\"layers\":[]}",
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_arena arena = {0};
        struct pin_error err = {0};
        struct pin_oci_manifest manifest;
        if (pin_oci_manifest_parse(&arena, rows[i], strlen(rows[i]), &manifest, &err))
            fail_msg("taken: %s", rows[i]);
        pin_arena_free(&arena);
    }
}

static void a_configuration_says_how_to_run(void **state) {
    (void)state;
    static const char text[] =
        "{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{\"User\":\"web\",\"Env\":[\"A=b\"],"
        "\"Entrypoint\":[\"/e\"],"
        "\"Cmd\":[\"c\",\"d\"],\"WorkingDir\":\"/w\",\"Labels\":{\"k\":\"v\"},\"Volumes\":{\"/"
        "data\":{}},\"ExposedPorts\":"
        "{\"80/"
        "tcp\":{}},\"StopSignal\":\"SIGINT\"},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:" HEX
        "\"]},"
        "\"history\":[{\"created_by\":\"x\",\"empty_layer\":true}]}";
    struct pin_arena arena = {0};
    struct pin_error err = {0};
    struct pin_image_config image;
    assert_true(pin_oci_config_parse(&arena, text, strlen(text), &image, &err));
    assert_string_equal(image.user, "web");
    assert_string_equal(image.env[0], "A=b");
    assert_string_equal(image.entrypoint[0], "/e");
    assert_int_equal(image.command_count, 2);
    assert_string_equal(image.volumes[0], "/data");
    assert_string_equal(image.stop_signal, "SIGINT");
    assert_string_equal(image.labels[0].key, "k");
    assert_true(image.history[0].empty_layer);
    assert_int_equal(image.layer_count, 1);
    pin_arena_free(&arena);
}

static void nulls_in_a_configuration_are_absent(void **state) {
    (void)state;
    static const char text[] =
        "{\"config\":{\"User\":null,\"Env\":null,\"Cmd\":null,\"Labels\":null,\"Volumes\":null},"
        "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}";
    struct pin_arena arena = {0};
    struct pin_error err = {0};
    struct pin_image_config image;
    assert_true(pin_oci_config_parse(&arena, text, strlen(text), &image, &err));
    assert_string_equal(image.user, "");
    assert_int_equal(image.env_count, 0);
    pin_arena_free(&arena);
}

static void a_payload_names_the_image_that_it_signs(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"{\"critical\":{\"image\":{\"docker-manifest-digest\":\"sha256:" HEX
         "\"},\"type\":\"cosign container image signature\"}}",                              true },
        {"{\"critical\":{\"image\":{\"docker-manifest-digest\":\"sha256:" HEX "\"},\"type\":\"x\"}}", false},
        {"{\"critical\":{\"image\":{\"docker-manifest-digest\":\"sha256:x\"},\"type\":\"cosign container "
         "image signature\"}}",                                                              false},
        {"{\"optional\":{}}",                                                                         false},
        {"",                                                                                          false},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        char digest[PIN_DIGEST_TEXT] = "";
        assert_int_equal(pin_signature_payload(rows[i].text, strlen(rows[i].text), digest), rows[i].good);
        assert_string_equal(digest, rows[i].good ? "sha256:" HEX : "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_gives_the_manifest_of_the_platform),
        cmocka_unit_test(platforms_have_two_or_three_parts),
        cmocka_unit_test(a_manifest_gives_configuration_and_layers),
        cmocka_unit_test(doubtful_manifests_are_refused),
        cmocka_unit_test(a_configuration_says_how_to_run),
        cmocka_unit_test(nulls_in_a_configuration_are_absent),
        cmocka_unit_test(a_payload_names_the_image_that_it_signs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
