/* The watch over a layer's tar: what is refused doesn't depend on where the pieces end. The tars themselves
 * are in tests/integration/hostile_images.py, beside the readers that they divide. */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "images/store/tar_check.h"

#define BLOCK 512

struct tar {
    uint8_t bytes[40 * BLOCK];
    size_t size;
};

static uint8_t *add_block(struct tar *tar) {
    uint8_t *block = tar->bytes + tar->size;
    tar->size += BLOCK;
    assert_true(tar->size <= sizeof(tar->bytes));
    return block;
}

static void add(struct tar *tar, const char *name, char kind, unsigned size, const char *content) {
    uint8_t *header = add_block(tar);
    memcpy(header, name, strlen(name));
    (void)snprintf((char *)header + 124, 12, "%011o", size);
    header[156] = (uint8_t)kind;
    for (unsigned at = 0; at < size; at += BLOCK)
        (void)add_block(tar);
    memcpy(header + BLOCK, content, strlen(content));
}

/* In pieces of `piece` bytes; a message, or NULL. */
static const char *check(const struct tar *tar, size_t piece, struct pin_error *err) {
    struct pin_tar_check *check = pin_tar_check_new();
    bool sound = true;
    for (size_t at = 0; sound && at < tar->size; at += piece)
        sound =
            pin_tar_check_feed(check, tar->bytes + at, tar->size - at < piece ? tar->size - at : piece, err);
    pin_tar_check_free(check);
    return sound ? NULL : err->message;
}

static void where_pieces_end_does_not_matter(void **state) {
    (void)state;
    static const struct {
        const char *extended;
        char kind;
        const char *name;
        unsigned size;
        bool sound;
    } rows[] = {
        {NULL,                              '0', "file", 1000, true },
        {NULL,                              '0', "d/",   0,    true },
        {NULL,                              '0', "d/",   1000, false},
        {NULL,                              '5', "d",    0,    true },
        {NULL,                              '5', "d",    1,    false},
        {NULL,                              '2', "l",    1,    false},
        {NULL,                              'Z', "z",    0,    false},
        {"12 path=a/\n",                    '0', "file", 0,    false}, /* the length is one too much */
        {"11 path=a/\n",                    '0', "file", 0,    true },
        {"11 path=a/\n",                    '0', "file", 4,    false},
        {"10 path=a\n",                     '0', "d/",   4,    true }, /* the longer name counts */
        {"13 size=1000\n",                  '0', "file", 1000, true },
        {"13 size=1001\n",                  '0', "file", 1000, false},
        {"13 size=-100\n",                  '0', "file", 100,  false},
        {"30 SCHILY.xattr.user.x=path=a\n", '0', "file", 4,    true },
        {"9 path=\n",                       '0', "file", 4,    false},
        {"0 path=a\n",                      '0', "file", 4,    false},
        {"99 path=a\n",                     '0', "file", 4,    false},
        {"path=a\n",                        '0', "file", 4,    false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct tar *tar = calloc(1, sizeof(*tar));
        if (rows[i].extended != NULL)
            add(tar, "pax", 'x', (unsigned)strlen(rows[i].extended), rows[i].extended);
        add(tar, rows[i].name, rows[i].kind, rows[i].size, "");
        add(tar, "last", 0, 10, "");
        for (size_t piece = 1; piece < tar->size + 200; piece += piece < 600 ? 37 : 300) {
            struct pin_error err = {0};
            const char *message = check(tar, piece, &err);
            if ((message == NULL) != rows[i].sound)
                fail_msg("row %zu, pieces of %zu: %s", i, piece, message == NULL ? "sound" : message);
        }
        free(tar);
    }
}

static void what_follows_the_end_is_no_part_of_it(void **state) {
    (void)state;
    struct tar *tar = calloc(1, sizeof(*tar));
    struct pin_error err = {0};
    add(tar, "file", '0', 600, "");
    (void)add_block(tar);
    add(tar, "link", '2', 600, "");
    assert_null(check(tar, tar->size, &err));
    free(tar);
}

/* A file's own bytes, looking like a header that would be refused, are only looked at where they are one. */
static void content_is_not_read_as_headers(void **state) {
    (void)state;
    struct tar *tar = calloc(1, sizeof(*tar)), *inner = calloc(1, sizeof(*inner));
    struct pin_error err = {0};
    add(inner, "link", '2', 600, "");
    add(tar, "file", '0', BLOCK, "");
    memcpy(tar->bytes + BLOCK, inner->bytes, BLOCK);
    assert_null(check(tar, tar->size, &err));
    assert_non_null(check(inner, inner->size, &err));
    free(inner);
    free(tar);
}

static void an_extended_header_is_no_larger_than_a_mebibyte(void **state) {
    (void)state;
    struct tar *tar = calloc(1, sizeof(*tar));
    struct pin_error err = {0};
    add(tar, "pax", 'x', 0, "");
    (void)snprintf((char *)tar->bytes + 124, 12, "%011o", (1U << 20) + 1);
    assert_non_null(check(tar, tar->size, &err));
    free(tar);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_pieces_end_does_not_matter),
        cmocka_unit_test(what_follows_the_end_is_no_part_of_it),
        cmocka_unit_test(content_is_not_read_as_headers),
        cmocka_unit_test(an_extended_header_is_no_larger_than_a_mebibyte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
