#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/kept/log_read.h"
#include "test.h"

struct place {
    char path[64];
    int folder;
    struct pin_log log;
};

static int open_place(void **state) {
    struct place *place = calloc(1, sizeof(*place));
    struct pin_error err = {0};
    assert_non_null(place);
    (void)snprintf(place->path, sizeof(place->path), "/tmp/pinfold-log-XXXXXX");
    assert_non_null(mkdtemp(place->path));
    place->folder = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(pin_log_open(&place->log, place->folder, 4096, &err));
    *state = place;
    return 0;
}

static int close_place(void **state) {
    struct place *place = *state;
    pin_log_close(&place->log);
    (void)unlinkat(place->folder, "log.0", 0);
    (void)unlinkat(place->folder, "log.1", 0);
    (void)close(place->folder);
    (void)rmdir(place->path);
    free(place);
    return 0;
}

static void write_text(struct place *place, const char *text) {
    assert_true(pin_log_write(&place->log, PIN_LOG_STDOUT, 7, text, strlen(text)));
}

static void expect(struct pin_log_reader *reader, uint64_t sequence, const char *text) {
    struct pin_log_record record;
    assert_true(pin_log_reader_next(reader, &record));
    assert_int_equal(record.sequence, sequence);
    assert_int_equal(record.exec, 7);
    assert_int_equal(record.size, strlen(text));
    assert_memory_equal(record.payload, text, record.size);
}

static void records_come_back_in_their_order_while_more_are_written(void **state) {
    struct place *place = *state;
    struct pin_log_reader reader;
    struct pin_log_record record;
    struct pin_error err = {0};
    write_text(place, "one");
    write_text(place, "two");
    assert_true(pin_log_reader_open(&reader, place->folder, &err));
    expect(&reader, 1, "one");
    expect(&reader, 2, "two");
    assert_false(pin_log_reader_next(&reader, &record));
    write_text(place, "three");
    expect(&reader, 3, "three");
    pin_log_reader_close(&reader);
}

static void more_than_a_record_holds_becomes_several(void **state) {
    struct place *place = *state;
    struct pin_log_reader reader;
    struct pin_log_record record;
    struct pin_error err = {0};
    static char text[150000];
    size_t total = 0;
    memset(text, 'x', sizeof(text));
    place->log.file_max = PIN_LOG_FILE_MAX;
    assert_true(pin_log_write(&place->log, PIN_LOG_STDERR, 1, text, sizeof(text)));
    assert_true(pin_log_reader_open(&reader, place->folder, &err));
    while (pin_log_reader_next(&reader, &record))
        total += record.size;
    assert_int_equal(total, sizeof(text));
    assert_int_equal(place->log.sequence, 3);
    pin_log_reader_close(&reader);
}

static void rotation_keeps_two_files_and_tells_what_is_gone(void **state) {
    struct place *place = *state;
    struct pin_log_reader reader;
    struct pin_log_record record;
    struct pin_error err = {0};
    char text[1001];
    uint64_t last = 0, first = 0, cuts = 0;
    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (int i = 0; i < 40; i++)
        write_text(place, text);
    assert_true(pin_log_reader_open(&reader, place->folder, &err));
    while (pin_log_reader_next(&reader, &record)) {
        first = first == 0 ? record.sequence : first;
        assert_true(last == 0 || record.sequence == last + 1);
        last = record.sequence;
        cuts += record.kind == PIN_LOG_CUT;
    }
    assert_int_equal(last, place->log.sequence);
    assert_true(first > 1 && cuts > 0);
    pin_log_reader_close(&reader);
}

static void a_reader_that_was_overtaken_says_how_many_it_missed(void **state) {
    struct place *place = *state;
    struct pin_log_reader reader;
    struct pin_log_record record;
    struct pin_error err = {0};
    char text[1001];
    uint64_t missing = 0, seen = 0;
    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    write_text(place, text);
    assert_true(pin_log_reader_open(&reader, place->folder, &err));
    assert_true(pin_log_reader_next(&reader, &record));
    for (int i = 0; i < 40; i++)
        write_text(place, text);
    for (seen = 1; pin_log_reader_next(&reader, &record); seen++)
        missing += reader.missing;
    assert_true(missing > 0);
    assert_int_equal(seen + missing, place->log.sequence);
    pin_log_reader_close(&reader);
}

static void a_torn_end_hides_nothing_that_came_before(void **state) {
    struct place *place = *state;
    struct pin_log_reader reader;
    struct pin_log_record record;
    struct pin_error err = {0};
    struct stat info;
    write_text(place, "whole");
    write_text(place, "torn");
    assert_int_equal(fstat(place->log.file, &info), 0);
    assert_int_equal(ftruncate(place->log.file, info.st_size - 1), 0);
    assert_true(pin_log_reader_open(&reader, place->folder, &err));
    expect(&reader, 1, "whole");
    assert_false(pin_log_reader_next(&reader, &record));
    pin_log_reader_close(&reader);
}

static void a_flipped_bit_anywhere_is_found(void **state) {
    struct place *place = *state;
    struct pin_log_record record;
    uint8_t bytes[PIN_LOG_HEAD + 5];
    write_text(place, "whole");
    int fd = openat(place->folder, "log.1", O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, bytes, sizeof(bytes)), sizeof(bytes));
    (void)close(fd);
    assert_int_equal(pin_log_parse(bytes, sizeof(bytes), &record), sizeof(bytes));
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(pin_log_parse(bytes, sizeof(bytes), &record), 0);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

int main(void) {
#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, open_place, close_place)
    const struct CMUnitTest tests[] = {
        IN_PLACE(records_come_back_in_their_order_while_more_are_written),
        IN_PLACE(more_than_a_record_holds_becomes_several),
        IN_PLACE(rotation_keeps_two_files_and_tells_what_is_gone),
        IN_PLACE(a_reader_that_was_overtaken_says_how_many_it_missed),
        IN_PLACE(a_torn_end_hides_nothing_that_came_before),
        IN_PLACE(a_flipped_bit_anywhere_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
