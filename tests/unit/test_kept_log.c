#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
    assert_int_equal(fstat(place->log.file.fd, &info), 0);
    assert_int_equal(ftruncate(place->log.file.fd, info.st_size - 1), 0);
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

/* A record as the writer makes it, with a number of the forger's choice. */
static size_t forge(struct place *place, uint64_t sequence, uint8_t *to, size_t room) {
    struct pin_log other = {0};
    struct pin_error err = {0};
    static const char name[] = "forger";
    assert_int_equal(mkdirat(place->folder, name, 0700), 0);
    int folder = openat(place->folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(pin_log_open(&other, folder, 4096, &err));
    other.sequence = sequence - 1;
    assert_true(pin_log_write(&other, PIN_LOG_STDOUT, 7, "forged", 6));
    ssize_t got = pread(other.file.fd, to, room, 0);
    pin_log_close(&other);
    assert_int_equal(unlinkat(folder, "log.1", 0), 0);
    (void)close(folder);
    assert_int_equal(unlinkat(place->folder, name, AT_REMOVEDIR), 0);
    assert_true(got > 0);
    return (size_t)got;
}

/* Bytes from inside stand where the next record will: none of them is read as one. */
static void what_a_file_held_before_is_no_record(void **state) {
    struct place *place = *state;
    struct pin_log_reader reader;
    struct pin_log_record record;
    struct pin_error err = {0};
    uint8_t text[3000], one[64];
    uint64_t last = 0;
    place->log.file_max = sizeof(text) + PIN_LOG_HEAD;
    /* one record a file; the third stands in the first one's, behind a cut, and ends where this one says so
     */
    size_t forged = forge(place, 5, one, sizeof(one));
    memset(text, 'z', sizeof(text));
    for (size_t at = 0; at + forged <= sizeof(text); at += 3 * forged)
        memcpy(text + at, one, forged);
    size_t cut = PIN_LOG_HEAD + strlen("{\"records\":1}"),
           size = PIN_LOG_HEAD + 3 * forged * 4 - cut - PIN_LOG_HEAD;
    assert_true(pin_log_write(&place->log, PIN_LOG_STDOUT, 7, text, sizeof(text)));
    assert_true(pin_log_write(&place->log, PIN_LOG_STDOUT, 7, text, sizeof(text)));
    assert_true(pin_log_write(&place->log, PIN_LOG_STDOUT, 7, text, size)); /* 3 is the cut, 4 this */
    assert_int_equal(place->log.sequence, 4);
    assert_int_equal(place->log.size, PIN_LOG_HEAD + 3 * forged * 4);
    assert_true(place->log.file.stale > place->log.size + forged);
    assert_true(pin_log_reader_open(&reader, place->folder, &err));
    while (pin_log_reader_next(&reader, &record))
        last = record.sequence;
    assert_int_equal(last, 4);
    /* without the end that the writer has put there, the forged one would be the fifth */
    assert_int_equal(pwrite(place->log.file.fd, one, 4, (off_t)place->log.size), 4);
    assert_true(pin_log_reader_next(&reader, &record));
    assert_int_equal(record.sequence, 5);
    pin_log_reader_close(&reader);
}

/* Each write is followed by reads of some readers, whose places in the files differ. */
static void readers_of_files_that_are_written_over_lose_nothing_unsaid(void **state) {
    struct place *place = *state;
    enum { READERS = 5 };
    struct pin_log_reader readers[READERS];
    uint64_t told[READERS] = {0};
    struct pin_log_record record;
    struct pin_error err = {0};
    static char text[200000];
    place->log.file_max = 300000;
    for (int i = 0; i < READERS; i++)
        assert_true(pin_log_reader_open(&readers[i], place->folder, &err));
    for (int round = 0; round < 400; round++) {
        size_t size = (size_t)((round * 7919) % (round % 3 == 0 ? 200000 : 300)) + 1;
        memset(text, 'a' + round % 26, size);
        assert_true(pin_log_write(&place->log, PIN_LOG_STDOUT, 7, text, size));
        if (round % 17 == 0)
            pin_log_rest(&place->log);
        for (int i = 0; i < READERS; i++)
            for (int n = 0; n < i * i && pin_log_reader_next(&readers[i], &record); n++) {
                told[i] += readers[i].missing + (told[i] == 0 ? record.sequence : 1);
                assert_int_equal(told[i], record.sequence);
                for (size_t at = 1; record.kind == PIN_LOG_STDOUT && at < record.size; at++)
                    assert_int_equal(record.payload[at], record.payload[0]);
            }
    }
    for (int i = 0; i < READERS; i++) {
        while (pin_log_reader_next(&readers[i], &record))
            told[i] += readers[i].missing + (told[i] == 0 ? record.sequence : 1);
        assert_int_equal(told[i], place->log.sequence);
        pin_log_reader_close(&readers[i]);
    }
}

static void a_killed_rotation_hides_nothing(void **state) {
    struct place *place = *state;
    struct pin_log_reader reader;
    struct pin_log_record record;
    struct pin_error err = {0};
    char text[3000];
    memset(text, 'y', sizeof(text));
    for (int i = 0; i < 5; i++)
        assert_true(pin_log_write(&place->log, PIN_LOG_STDOUT, 7, text, sizeof(text)));
    assert_true(pin_log_file_begin_again(&place->log.older)); /* and then the writer dies */
    assert_int_equal(renameat(place->folder, "log.0", place->folder, "other"), 0);
    assert_int_equal(renameat(place->folder, "log.1", place->folder, "log.0"), 0);
    assert_int_equal(renameat(place->folder, "other", place->folder, "log.1"), 0);
    assert_true(pin_log_reader_open(&reader, place->folder, &err));
    uint64_t last = 0;
    while (pin_log_reader_next(&reader, &record))
        last = record.sequence;
    assert_int_equal(last, place->log.sequence);
    pin_log_reader_close(&reader);
}

static void what_could_not_be_written_is_told_when_there_is_room_again(void **state) {
    struct place *place = *state;
    struct pin_log_reader reader;
    struct pin_log_record record;
    struct pin_error err = {0};
    struct rlimit before, none;
    write_text(place, "one");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = place->log.size + 10; /* in the middle of the next record */
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_false(pin_log_write(&place->log, PIN_LOG_STDOUT, 7, "two", 3));
    assert_false(pin_log_write(&place->log, PIN_LOG_STDOUT, 7, "three", 5));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    write_text(place, "four");
    assert_true(pin_log_reader_open(&reader, place->folder, &err));
    expect(&reader, 1, "one");
    assert_true(pin_log_reader_next(&reader, &record));
    assert_int_equal(record.kind, PIN_LOG_CUT);
    assert_memory_equal(record.payload, "{\"unwritten\":2}", record.size);
    expect(&reader, 3, "four");
    pin_log_reader_close(&reader);
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
        IN_PLACE(what_a_file_held_before_is_no_record),
        IN_PLACE(readers_of_files_that_are_written_over_lose_nothing_unsaid),
        IN_PLACE(a_killed_rotation_hides_nothing),
        IN_PLACE(what_could_not_be_written_is_told_when_there_is_room_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
