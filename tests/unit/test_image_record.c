/* Records of images: written and read back the same, and nothing else taken for one. */
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "images/image_config.h"

#define DIGEST(digit) "sha256:" digit digit digit digit digit digit digit digit
#define EIGHT(digit) digit digit digit digit digit digit digit digit
#define A DIGEST(EIGHT("a"))
#define B DIGEST(EIGHT("b"))

/* openssl genpkey -algorithm ED25519, its public half, and openssl's SHA-256 of the DER form */
static const char key[] = "-----BEGIN PUBLIC KEY-----\n"
                          "MCowBQYDK2VwAyEArRDKboK7RCIbOfeheWxKDGHmu/v+tFezuDosnneUX6k=\n"
                          "-----END PUBLIC KEY-----\n";
static const char key_digest[] = "sha256:900c88ff9ca24f347424c4f6265e9b906ec06f2d5c79d9c1c012929436a8131e";

static struct pin_image_config sample(void) {
    static const char *env[] = {"PATH=/bin", "EMPTY="}, *command[] = {"/bin/sh", "-c", "true"},
                      *signed_by[] = {key_digest};
    static struct pin_image_label labels[] = {
        {"tenant", "a \"b\""}
    };
    static struct pin_image_layer layers[] = {
        {A, B, "type",  1, 2,                 3, {0}},
        {B, A, "type2", 4, UINT64_C(1) << 40, 6, {0}}
    };
    static struct pin_image_history history[] = {
        {"RUN x", NULL,   true },
        {NULL,    "note", false}
    };
    return (struct pin_image_config){
        .manifest = A,
        .manifest_type = "m",
        .manifest_bytes = 7,
        .config = B,
        .config_bytes = 8,
        .user = "u:g",
        .workdir = "/w",
        .architecture = "amd64",
        .env = env,
        .env_count = 2,
        .command = command,
        .command_count = 3,
        .labels = labels,
        .label_count = 1,
        .layers = layers,
        .layer_count = 2,
        .history = history,
        .history_count = 2,
        .signed_by = signed_by,
        .signed_by_count = 1,
    };
}

static void a_record_is_read_back_as_it_was_written(void **state) {
    (void)state;
    struct pin_error err = {0};
    struct pin_arena arena = {0};
    struct pin_image_config image = sample(), back;
    char *text = pin_image_record_print(&image, &err);
    assert_non_null(text);
    assert_true(pin_image_record_parse(&arena, text, strlen(text), &back, &err));
    char *again = pin_image_record_print(&back, &err);
    assert_string_equal(text, again);
    assert_string_equal(back.layers[1].diff_id, B);
    assert_true(back.layers[1].unpacked_bytes == UINT64_C(1) << 40);
    assert_string_equal(back.labels[0].value, "a \"b\"");
    assert_null(back.os);
    free(text);
    free(again);
    pin_arena_free(&arena);
}

static void a_record_cut_short_is_none(void **state) {
    (void)state;
    struct pin_error err = {0};
    struct pin_image_config image = sample();
    char *text = pin_image_record_print(&image, &err);
    for (size_t size = 0; size < strlen(text); size++) {
        struct pin_arena arena = {0};
        struct pin_error why = {0};
        struct pin_image_config back = {.user = "untouched"};
        assert_false(pin_image_record_parse(&arena, text, size, &back, &why));
        assert_string_equal(back.user, "untouched");
        assert_int_equal(why.kind, PIN_ERROR_SYNTAX);
        pin_arena_free(&arena);
    }
    free(text);
}

static void other_json_is_no_record(void **state) {
    (void)state;
    static const char *const rows[] = {
        "[]",
        "{}",
        "{\"pinfold_image\":2}",
        "{\"pinfold_image\":1}",
        "{\"pinfold_image\":1,\"pinfold_image\":1}",
        "{\"pinfold_image\":1,\"manifest\":\"sha256:../x\"}",
        "null",
        "1",
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_arena arena = {0};
        struct pin_error err = {0};
        struct pin_image_config image;
        assert_false(pin_image_record_parse(&arena, rows[i], strlen(rows[i]), &image, &err));
        pin_arena_free(&arena);
    }
}

static void a_key_is_known_by_the_digest_of_its_der_form(void **state) {
    (void)state;
    struct pin_image_config image = sample();
    assert_true(pin_image_signed_with(&image, key));
    char other[sizeof(key)];
    memcpy(other, key, sizeof(key));
    other[60] = other[60] == 'A' ? 'B' : 'A'; /* another key */
    assert_false(pin_image_signed_with(&image, other));
    static const char *const rows[] = {"", "-----BEGIN PUBLIC KEY-----",
                                       "-----END PUBLIC KEY-----\n-----BEGIN PUBLIC KEY-----",
                                       "-----BEGIN PUBLIC KEY-----\n!!!!\n-----END PUBLIC KEY-----",
                                       "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----"};
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        assert_false(pin_image_signed_with(&image, rows[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_read_back_as_it_was_written),
        cmocka_unit_test(a_record_cut_short_is_none),
        cmocka_unit_test(other_json_is_no_record),
        cmocka_unit_test(a_key_is_known_by_the_digest_of_its_der_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
