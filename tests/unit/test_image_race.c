/* A blob that somebody changes while it is copied into the store: what is kept is what was hashed, ten
 * thousand times. Beside it a reader that hashes first and copies then, which keeps the other bytes. */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "images/remove.h"
#include "images/store/blob.h"
#include "images/store/hash.h"

#define SIZE ((size_t)8192)
#define ROUNDS 10000

struct race {
    char folder[32];
    struct pin_image_store store;
    struct pin_store_work work;
    int blob; /* what is raced for */
    char good[SIZE], evil[SIZE];
    char digest[PIN_DIGEST_TEXT]; /* of `good` */
    atomic_bool stop;
    pthread_t writer;
};

static void *flip(void *context) {
    struct race *race = context;
    bool written = true;
    while (written && !atomic_load(&race->stop))
        written = pwrite(race->blob, race->evil, SIZE, 0) == (ssize_t)SIZE &&
                  pwrite(race->blob, race->good, SIZE, 0) == (ssize_t)SIZE;
    return NULL;
}

static int begin(void **state) {
    struct race *race = calloc(1, sizeof(*race));
    struct pin_error err = {0};
    struct stat shared;
    uint64_t size;
    assert_non_null(race);
    *race = (struct race){.store = PIN_IMAGE_STORE_NONE, .work = PIN_STORE_WORK_NONE};
    /* a store is synced for every blob, which a tmpfs does for nothing */
    (void)strcpy(race->folder, stat("/dev/shm", &shared) == 0 ? "/dev/shm/pinfold-race-XXXXXX"
                                                              : "/tmp/pinfold-race-XXXXXX");
    assert_non_null(mkdtemp(race->folder));
    assert_int_equal(setenv("PINFOLD_IMAGES", race->folder, 1), 0);
    assert_true(pin_image_store_open(&race->store, true, &err));
    assert_true(pin_store_work_begin(&race->work, &race->store, PIN_STORE_SHARED, 10, &err));
    memset(race->good, 'g', SIZE);
    memset(race->evil, 'e', SIZE);
    race->blob = memfd_create("blob", MFD_CLOEXEC);
    assert_int_equal(pwrite(race->blob, race->good, SIZE, 0), SIZE);
    assert_true(pin_hash_file(race->blob, race->digest, &size, &err));
    assert_int_equal(pthread_create(&race->writer, NULL, flip, race), 0);
    *state = race;
    return 0;
}

static int end(void **state) {
    struct race *race = *state;
    struct pin_error err = {0};
    atomic_store(&race->stop, true);
    (void)pthread_join(race->writer, NULL);
    pin_store_work_end(&race->work);
    pin_image_store_close(&race->store);
    assert_true(pin_remove_tree(AT_FDCWD, race->folder, &err));
    (void)close(race->blob);
    free(race);
    return 0;
}

static void what_is_kept_is_what_was_hashed(void **state) {
    struct race *race = *state;
    size_t kept = 0, refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct pin_error err = {0};
        if (!pin_store_add_blob(&race->work, race->blob, race->digest, SIZE, &err)) {
            assert_int_equal(err.kind, PIN_ERROR_INVALID);
            refused++;
            continue;
        }
        kept++;
        assert_true(pin_store_check_blob(&race->store, race->digest, SIZE));
        assert_true(pin_store_discard(&race->work, "blobs", race->digest + strlen("sha256:"), &err));
    }
    assert_true(kept > 0 && refused > 0); /* or there was no race */
}

/* The control: one who asks for the digest of the file, and then copies it. */
static void who_checks_first_keeps_other_bytes(void **state) {
    const struct race *race = *state;
    size_t fooled = 0;
    for (int round = 0; fooled == 0 && round < 1000 * ROUNDS; round++) {
        struct pin_error err = {0};
        char found[PIN_DIGEST_TEXT], copy[SIZE];
        uint64_t size;
        assert_true(pin_hash_file(race->blob, found, &size, &err));
        if (strcmp(found, race->digest) != 0)
            continue;
        assert_int_equal(pread(race->blob, copy, SIZE, 0), SIZE);
        fooled += memcmp(copy, race->good, SIZE) != 0;
    }
    assert_true(fooled > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_kept_is_what_was_hashed, begin, end),
        cmocka_unit_test_setup_teardown(who_checks_first_keeps_other_bytes, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
