/* The ring of a layer's bytes: nothing is lost, doubled or waited for in vain, whoever is the slowest. */
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "images/store/layer_pipe.h"

struct source {
    size_t pieces, size; /* how many, of how many bytes each */
    size_t given;
    bool fails; /* after them, where others end */
    bool slow;
};

static void pause_us(long us) {
    const struct timespec time = {.tv_nsec = us * 1000};
    (void)nanosleep(&time, NULL);
}

static ptrdiff_t give(void *context, void *to, size_t room, uint64_t *taken, struct pin_error *err) {
    struct source *source = context;
    *taken = source->given;
    if (source->given == source->pieces && source->fails)
        (void)pin_fail(err, PIN_ERROR_SYSTEM, "the disk is gone");
    if (source->given == source->pieces)
        return source->fails ? -1 : 0;
    if (source->size > room)
        abort(); /* cmocka's assertions are for the thread of the test */
    if (source->slow)
        pause_us(50);
    memset(to, (int)(source->given % 251), source->size);
    source->given++;
    return (ptrdiff_t)source->size;
}

static void expected_digest(const struct source *source, char digest[PIN_DIGEST_TEXT]) {
    uint8_t hash[PIN_SHA256_SIZE];
    size_t whole = source->pieces * source->size;
    uint8_t *bytes = malloc(whole + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < source->pieces; i++)
        memset(bytes + i * source->size, (int)(i % 251), source->size);
    pin_sha256(bytes, whole, hash);
    (void)pin_digest_print(digest, hash);
    free(bytes);
}

/* Takes at most `most` pieces; how many there were. */
static size_t take(struct pin_layer_pipe *pipe, size_t most, bool slow, struct pin_error *err) {
    struct pin_layer_piece piece;
    size_t count = 0;
    while (count < most && pin_layer_pipe_take(pipe, &piece, err) && piece.size > 0) {
        assert_int_equal(((const uint8_t *)piece.data)[piece.size - 1], count % 251);
        assert_int_equal(piece.taken, count);
        count++;
        if (slow)
            pause_us(50);
    }
    return count;
}

static void every_count_of_pieces_comes_through_in_order(void **state) {
    (void)state;
    for (size_t pieces = 0; pieces < 70; pieces++) {
        for (int who = 0; who < 3; who++) {
            struct source source = {.pieces = pieces, .size = 1000, .slow = who == 1};
            struct pin_error err = {0};
            char digest[PIN_DIGEST_TEXT], expected[PIN_DIGEST_TEXT];
            struct pin_layer_pipe *pipe = pin_layer_pipe_open(give, &source, true, &err);
            assert_int_equal(take(pipe, SIZE_MAX, who == 2, &err), pieces);
            pin_layer_pipe_digest(pipe, digest);
            pin_layer_pipe_close(pipe);
            expected_digest(&source, expected);
            assert_string_equal(digest, expected);
        }
    }
}

static void pieces_that_take_long_to_hash_are_not_overwritten(void **state) {
    (void)state;
    struct source source = {.pieces = 300, .size = PIN_LAYER_PIPE_PIECE};
    struct pin_error err = {0};
    char digest[PIN_DIGEST_TEXT], expected[PIN_DIGEST_TEXT];
    struct pin_layer_pipe *pipe = pin_layer_pipe_open(give, &source, true, &err);
    assert_int_equal(take(pipe, SIZE_MAX, false, &err), source.pieces);
    pin_layer_pipe_digest(pipe, digest);
    pin_layer_pipe_close(pipe);
    expected_digest(&source, expected);
    assert_string_equal(digest, expected);
}

static void without_a_digest_all_comes_through_as_well(void **state) {
    (void)state;
    for (size_t pieces = 0; pieces < 70; pieces++) {
        for (int who = 0; who < 3; who++) {
            struct source source = {.pieces = pieces, .size = 1000, .slow = who == 1};
            struct pin_error err = {0};
            struct pin_layer_pipe *pipe = pin_layer_pipe_open(give, &source, false, &err);
            assert_int_equal(take(pipe, SIZE_MAX, who == 2, &err), pieces);
            pin_layer_pipe_close(pipe);
        }
    }
}

static void the_sources_error_comes_after_what_it_gave(void **state) {
    (void)state;
    for (size_t pieces = 0; pieces < 40; pieces++) {
        struct source source = {.pieces = pieces, .size = 10, .fails = true};
        struct pin_error err = {0};
        struct pin_layer_pipe *pipe = pin_layer_pipe_open(give, &source, true, &err);
        assert_int_equal(take(pipe, SIZE_MAX, false, &err), pieces);
        assert_string_equal(err.message, "the disk is gone");
        pin_layer_pipe_close(pipe);
    }
}

static void a_caller_that_stops_anywhere_ends_the_threads(void **state) {
    (void)state;
    for (size_t most = 0; most < 40; most++) {
        struct source source = {.pieces = 100, .size = 1000, .slow = most % 2 == 1};
        struct pin_error err = {0};
        struct pin_layer_pipe *pipe = pin_layer_pipe_open(give, &source, true, &err);
        assert_int_equal(take(pipe, most, false, &err), most);
        pin_layer_pipe_close(pipe);
        assert_true(source.given < source.pieces); /* it was full, and so the source wasn't asked again */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_count_of_pieces_comes_through_in_order),
        cmocka_unit_test(pieces_that_take_long_to_hash_are_not_overwritten),
        cmocka_unit_test(without_a_digest_all_comes_through_as_well),
        cmocka_unit_test(the_sources_error_comes_after_what_it_gave),
        cmocka_unit_test(a_caller_that_stops_anywhere_ends_the_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
