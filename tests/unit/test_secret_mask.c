/* Where chunks end makes no difference, and no whole value comes through. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/secrets/mask.h"

struct kept {
    char text[4096];
    size_t size;
};

static void keep(void *self, const uint8_t *data, size_t size) {
    struct kept *kept = self;
    assert_true(kept->size + size < sizeof(kept->text));
    memcpy(kept->text + kept->size, data, size);
    kept->size += size;
    kept->text[kept->size] = '\0';
}

/* Secrets by the way that a caller has: variables. */
static struct pin_mask *mask_of(const char *const *values, size_t count) {
    struct pin_secrets secrets = {0};
    struct pin_error err = {0};
    static char specs[8][32], variables[8][64];
    const char *spec_list[8], *variable_list[8];
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(specs[i], sizeof(specs[i]), "S%zu", i);
        (void)snprintf(variables[i], sizeof(variables[i]), "S%zu=PIN_MASK_%zu", i, i);
        assert_int_equal(setenv(strchr(variables[i], '=') + 1, values[i], 1), 0);
        spec_list[i] = specs[i];
        variable_list[i] = variables[i];
    }
    assert_true(pin_secrets_find(&secrets, spec_list, count, variable_list, count, &err));
    struct pin_mask *mask = pin_mask_new(&secrets, &err);
    assert_non_null(mask);
    pin_secrets_free(&secrets);
    return mask;
}

static struct kept masked(const struct pin_mask *mask, const char *text, size_t chunk) {
    struct kept kept = {0};
    const struct pin_mask_sink sink = {&kept, keep};
    struct pin_mask_stream *stream = pin_mask_stream_new(mask, &sink);
    size_t size = strlen(text);
    assert_non_null(stream);
    for (size_t at = 0; at < size; at += chunk)
        pin_mask_stream_feed(stream, (const uint8_t *)text + at, size - at < chunk ? size - at : chunk);
    pin_mask_stream_end(stream);
    pin_mask_stream_free(stream);
    return kept;
}

static void values_are_masked_wherever_chunks_end(void **state) {
    (void)state;
    static const char *const values[] = {"hunter2", "aabaab", "aabaabaac", "say \"x\"\nend"};
    static const struct {
        const char *text, *masked;
    } cases[] = {
        {"",                                 ""                 },
        {"plain text",                       "plain text"       },
        {"hunter2",                          "***"              },
        {"a hunter2 b hunter2",              "a *** b ***"      },
        {"hunter2hunter2",                   "***"              },
        {"hunter",                           "hunter"           },
        {"hunthunter2",                      "hunt***"          },
        {"hunter hunter2 hunter",            "hunter *** hunter"},
        {"aaabaab",                          "a***"             },
        {"aabaabaab",                        "***"              },
        {"aabaabaac!",                       "***!"             },
        {"aabaaaabaaab",                     "aabaaaabaaab"     },
        {"say \"x\"\nend",                   "***"              },
        {"say \"x\"\r\nend",                 "***"              },
        {"{\"k\": \"say \\\"x\\\"\\nend\"}", "{\"k\": \"***\"}" },
    };
    struct pin_mask *mask = mask_of(values, PIN_COUNT(values));
    for (size_t i = 0; i < PIN_COUNT(cases); i++)
        for (size_t chunk = 1; chunk < 32; chunk++)
            assert_string_equal(masked(mask, cases[i].text, chunk).text, cases[i].masked);
    pin_mask_free(mask);
}

static void nothing_is_held_back_that_cant_become_a_value(void **state) {
    (void)state;
    static const char *const values[] = {"hunter2"};
    struct pin_mask *mask = mask_of(values, 1);
    struct kept kept = {0};
    const struct pin_mask_sink sink = {&kept, keep};
    struct pin_mask_stream *stream = pin_mask_stream_new(mask, &sink);
    pin_mask_stream_feed(stream, (const uint8_t *)"prompt> ", 8);
    assert_string_equal(kept.text, "prompt> ");
    pin_mask_stream_feed(stream, (const uint8_t *)"hunt", 4);
    assert_string_equal(kept.text, "prompt> ");
    pin_mask_stream_feed(stream, (const uint8_t *)"!", 1);
    assert_string_equal(kept.text, "prompt> hunt!");
    pin_mask_stream_free(stream);
    pin_mask_free(mask);
}

static void bytes_at_once_are_masked_as_a_stream_is(void **state) {
    (void)state;
    static const char *const values[] = {"hunter2"};
    struct pin_mask *mask = mask_of(values, 1);
    size_t size;
    uint8_t *bytes = pin_mask_bytes(mask, (const uint8_t *)"x hunter2 y", 11, &size);
    assert_non_null(bytes);
    assert_int_equal(size, 7);
    assert_memory_equal(bytes, "x *** y", 7);
    free(bytes);
    pin_mask_free(mask);
}

static void an_error_is_masked_in_each_of_its_texts_and_within_its_room(void **state) {
    (void)state;
    static const char *const values[] = {"abcd"};
    struct pin_mask *mask = mask_of(values, 1);
    struct pin_error err = {0};
    pin_mask_error(mask, &err);
    assert_false(pin_is_set(&err));
    (void)pin_fail(&err, PIN_ERROR_NOT_FOUND, "execute '/abcd': nothing");
    (void)pin_point(&err, "/abcd");
    (void)pin_hint(&err, "not abcd");
    pin_mask_error(NULL, &err);
    assert_string_equal(err.message, "execute '/abcd': nothing");
    pin_mask_error(mask, &err);
    assert_string_equal(err.message, "execute '/***': nothing");
    assert_string_equal(err.pointer, "/***");
    assert_string_equal(err.hint, "not ***");
    pin_mask_free(mask);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_masked_wherever_chunks_end),
        cmocka_unit_test(nothing_is_held_back_that_cant_become_a_value),
        cmocka_unit_test(bytes_at_once_are_masked_as_a_stream_is),
        cmocka_unit_test(an_error_is_masked_in_each_of_its_texts_and_within_its_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
