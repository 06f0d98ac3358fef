#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/state/record.h"
#include "runtime/state/scratch.h"
#include "runtime/state/slot_table.h"
#include "state_fixture.h"

struct cleaned {
    uint32_t count, last;
    bool fail;
};

static bool count_clean(void *context, int state_dir, uint32_t number, struct pin_error *err) {
    struct cleaned *cleaned = context;
    (void)state_dir;
    cleaned->count++;
    cleaned->last = number;
    return !cleaned->fail || pin_fail(err, PIN_ERROR_BUSY, "a process is still there");
}

static struct pin_sweep sweep(int dir, struct cleaned *cleaned) {
    struct pin_error err = {0};
    struct pin_sweep done;
    assert_true(pin_state_sweep(dir, count_clean, cleaned, &done, &err));
    return done;
}

static struct pin_slot claim(int dir) {
    struct pin_error err = {0};
    struct pin_slot slot = PIN_SLOT_NONE;
    if (!pin_slot_claim(dir, &slot, &err))
        fail_msg("%s", err.message);
    return slot;
}

static bool exists(int dir, const char *format, uint32_t number) {
    char path[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(path, sizeof(path), format, number);
#pragma GCC diagnostic pop
    return faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Without the lock that all share, 64 random slots of 4091 in each of two directories meet more often than
 * not: 64 * 64 / 4091. */
static void two_state_directories_never_give_the_same_ids(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    struct pin_slot slots[128];
    bool seen[PIN_SLOT_COUNT] = {false};
    if (geteuid() != 0)
        skip();
    int other = pin_state_folder(fixture->dir, "other", true, &err);
    assert_true(other >= 0);
    for (size_t i = 0; i < PIN_COUNT(slots); i++) {
        slots[i] = claim(i % 2 == 0 ? fixture->dir : other);
        assert_false(seen[slots[i].number]);
        seen[slots[i].number] = true;
    }
    for (size_t i = 0; i < PIN_COUNT(slots); i++)
        assert_true(pin_slot_release(&slots[i], &err));
    (void)close(other);
}

static void live_slots_are_never_given_twice_and_never_swept(void **state) {
    struct fixture *fixture = *state;
    struct pin_slot slots[64];
    bool seen[PIN_SLOT_COUNT] = {false};
    for (size_t i = 0; i < PIN_COUNT(slots); i++) {
        slots[i] = claim(fixture->dir);
        assert_false(seen[slots[i].number]);
        seen[slots[i].number] = true;
    }
    struct cleaned cleaned = {0};
    struct pin_sweep done = sweep(fixture->dir, &cleaned);
    assert_int_equal(cleaned.count, 0);
    assert_int_equal(done.live, PIN_COUNT(slots));
    assert_int_equal(done.cleared, 0);
    struct pin_error err = {0};
    for (size_t i = 0; i < PIN_COUNT(slots); i++)
        assert_true(pin_slot_release(&slots[i], &err));
    assert_int_equal(sweep(fixture->dir, &cleaned).live, 0);
}

static void a_dead_owners_slot_is_swept_once(void **state) {
    struct fixture *fixture = *state;
    struct pin_slot slot = claim(fixture->dir);
    struct cleaned cleaned = {0};
    uint32_t number = slot.number;
    pin_slot_close(&slot);
    assert_int_equal(sweep(fixture->dir, &cleaned).cleared, 1);
    assert_int_equal(cleaned.last, number);
    assert_int_equal(sweep(fixture->dir, &cleaned).cleared, 0);
    assert_int_equal(cleaned.count, 1);
}

static void a_slot_that_cannot_be_cleared_stays_claimed_and_is_named(void **state) {
    struct fixture *fixture = *state;
    struct pin_slot slot = claim(fixture->dir);
    struct cleaned cleaned = {.fail = true};
    pin_slot_close(&slot);
    struct pin_sweep done = sweep(fixture->dir, &cleaned);
    assert_int_equal(done.cleared, 0);
    assert_int_equal(done.left.count, 1);
    assert_int_equal(done.left.list[0].kind, PIN_ERROR_BUSY);
    cleaned.fail = false;
    assert_int_equal(sweep(fixture->dir, &cleaned).cleared, 1);
}

static void release_and_sweep_take_record_and_scratch_with_them(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    static const struct pin_slot_record record = {.cgroup = "/x"};
    for (int swept = 0; swept < 2; swept++) {
        struct pin_slot slot = claim(fixture->dir);
        uint32_t number = slot.number;
        int scratch = pin_scratch_make(fixture->dir, number, &err);
        assert_true(scratch >= 0);
        assert_int_equal(mkdirat(scratch, "upper", 0), 0);
        (void)close(scratch);
        assert_true(pin_slot_record_write(fixture->dir, number, &record, &err));
        if (swept) {
            struct cleaned cleaned = {0};
            pin_slot_close(&slot);
            assert_int_equal(sweep(fixture->dir, &cleaned).cleared, 1);
        } else {
            assert_true(pin_slot_release(&slot, &err));
        }
        assert_false(exists(fixture->dir, "records/%u", number));
        assert_false(exists(fixture->dir, "scratch/%u", number));
    }
}

static void liveness_is_the_lock_and_not_the_byte(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    bool live = false, repaired = false;
    struct pin_slot slot = claim(fixture->dir);
    uint32_t number = slot.number;
    uint8_t claimed = 0, left = 0;
    int table = pin_slot_table_open(fixture->dir, &repaired, &err);
    assert_true(table >= 0);
    assert_true(pin_slot_table_get(table, number, &claimed, &err));
    assert_true(pin_slot_table_is_locked(table, number, &live, &err));
    assert_true(live);
    pin_slot_close(&slot);
    assert_true(pin_slot_table_get(table, number, &left, &err));
    assert_int_equal(left, claimed);
    assert_true(pin_slot_table_is_locked(table, number, &live, &err));
    assert_false(live);
    pin_close_fd(&table);
}

static void a_killed_owner_at_any_moment_leaves_a_slot_that_the_sweep_frees(void **state) {
    struct fixture *fixture = *state;
    for (unsigned round = 0; round < 60; round++) {
        int ready[2];
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        pid_t child = fork();
        if (child == 0) {
            struct pin_error err = {0};
            struct pin_slot slot = PIN_SLOT_NONE;
            pin_ignore(write(ready[1], "x", 1));
            for (;;)
                if (!pin_slot_claim(fixture->dir, &slot, &err) || !pin_slot_release(&slot, &err))
                    _exit(1);
        }
        char byte;
        assert_int_equal(read(ready[0], &byte, 1), 1);
        for (volatile unsigned spin = 0; spin < round * 5000; spin++) /* another moment each time */
            ;
        assert_int_equal(kill(child, SIGKILL), 0);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        (void)close(ready[0]);
        (void)close(ready[1]);
        struct cleaned cleaned = {0};
        struct pin_sweep done = sweep(fixture->dir, &cleaned);
        assert_int_equal(done.live, 0);
        assert_int_equal(done.left.count, 0);
        assert_false(done.repaired);
        assert_true(done.cleared <= 1);
    }
}

static bool is_locked(int table) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = PIN_SLOT_COUNT, .l_len = 1};
    assert_int_equal(fcntl(table, F_OFD_GETLK, &lock), 0);
    return lock.l_type != F_UNLCK;
}

/* Killed in the middle of making a child, before the child could close anything. The control is a lock that a
 * descriptor holds: it lives on in the child's copy. */
static void an_owner_is_dead_whatever_its_child_has_of_it(void **state) {
    struct fixture *fixture = *state;
    int ready[2];
    pid_t child = 0;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t owner = fork();
    if (owner == 0) {
        struct pin_slot slot = claim(fixture->dir);
        int control = openat(fixture->dir, "slots", O_RDWR | O_CLOEXEC);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = PIN_SLOT_COUNT, .l_len = 1};
        child = fcntl(control, F_OFD_SETLK, &lock) == 0 && slot.table >= 0 ? fork() : -1;
        if (child != 0)
            pin_ignore(write(ready[1], &child, sizeof(child)));
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(ready[0], &child, sizeof(child)), sizeof(child));
    assert_true(child > 0);
    int table = openat(fixture->dir, "slots", O_RDWR | O_CLOEXEC);
    struct cleaned cleaned = {0};
    assert_int_equal(sweep(fixture->dir, &cleaned).live, 1);
    assert_int_equal(kill(owner, SIGKILL), 0);
    assert_int_equal(waitpid(owner, NULL, 0), owner);
    assert_true(is_locked(table));
    assert_int_equal(sweep(fixture->dir, &cleaned).cleared, 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    (void)close(table);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static void concurrent_commands_share_the_table(void **state) {
    struct fixture *fixture = *state;
    pid_t children[8];
    for (size_t i = 0; i < PIN_COUNT(children); i++) {
        children[i] = fork();
        if (children[i] != 0)
            continue;
        for (unsigned round = 0; round < 200; round++) {
            struct pin_error err = {0};
            struct pin_slot slot = PIN_SLOT_NONE;
            struct cleaned cleaned = {0};
            struct pin_sweep done;
            char mark[32];
            if (!pin_slot_claim(fixture->dir, &slot, &err))
                _exit(1);
            (void)snprintf(mark, sizeof(mark), "mark-%u", slot.number);
            if (mkdirat(fixture->dir, mark, 0700) != 0) /* the slot would have two owners */
                _exit(2);
            if (!pin_state_sweep(fixture->dir, count_clean, &cleaned, &done, &err) || cleaned.count != 0)
                _exit(3);
            if (unlinkat(fixture->dir, mark, AT_REMOVEDIR) != 0 || !pin_slot_release(&slot, &err))
                _exit(4);
        }
        _exit(0);
    }
    for (size_t i = 0; i < PIN_COUNT(children); i++) {
        int status = 0;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
}

static void a_full_table_is_said_to_be_full(void **state) {
    struct fixture *fixture = *state;
    struct pin_slot slot = claim(fixture->dir);
    static uint8_t ones[PIN_SLOT_COUNT];
    memset(ones, 1, sizeof(ones));
    assert_int_equal(pwrite(slot.table, ones, sizeof(ones), 0), sizeof(ones));
    struct pin_slot other = PIN_SLOT_NONE;
    struct pin_error err = {0};
    assert_false(pin_slot_claim(fixture->dir, &other, &err));
    assert_int_equal(err.kind, PIN_ERROR_EXHAUSTED);
    assert_int_equal(other.table, -1);
    pin_slot_close(&slot);
}

static void a_torn_table_is_rebuilt_and_every_slot_proved_free(void **state) {
    struct fixture *fixture = *state;
    static const off_t sizes[] = {0, 1, 4090, 4092, 100000};
    for (size_t i = 0; i < PIN_COUNT(sizes); i++) {
        int table = openat(fixture->dir, "slots", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        assert_int_equal(ftruncate(table, sizes[i]), 0);
        (void)close(table);
        struct cleaned cleaned = {0};
        struct pin_sweep done = sweep(fixture->dir, &cleaned);
        assert_true(done.repaired);
        assert_int_equal(cleaned.count, PIN_SLOT_COUNT);
        assert_int_equal(done.cleared, PIN_SLOT_COUNT);
        struct pin_slot slot = claim(fixture->dir);
        struct pin_error err = {0};
        assert_true(pin_slot_release(&slot, &err));
    }
}

static void a_torn_table_with_live_owners_is_left_alone(void **state) {
    struct fixture *fixture = *state;
    struct pin_slot slot = claim(fixture->dir);
    assert_int_equal(ftruncate(slot.table, 7), 0);
    struct pin_error err = {0};
    struct cleaned cleaned = {0};
    struct pin_sweep done;
    assert_false(pin_state_sweep(fixture->dir, count_clean, &cleaned, &done, &err));
    assert_int_equal(err.kind, PIN_ERROR_BUSY);
    assert_int_equal(cleaned.count, 0);
    pin_slot_close(&slot);
    assert_int_equal(sweep(fixture->dir, &cleaned).cleared, PIN_SLOT_COUNT);
}

static void garbage_in_the_table_is_swept_like_dead_slots(void **state) {
    struct fixture *fixture = *state;
    struct pin_slot slot = claim(fixture->dir);
    static uint8_t garbage[PIN_SLOT_COUNT];
    for (size_t i = 0; i < sizeof(garbage); i++)
        garbage[i] = (uint8_t)(i * 37 + 11);
    assert_int_equal(pwrite(slot.table, garbage, sizeof(garbage), 0), sizeof(garbage));
    struct cleaned cleaned = {0};
    struct pin_sweep done = sweep(fixture->dir, &cleaned);
    assert_int_equal(done.left.count + done.left.dropped, 0);
    assert_true(cleaned.count > PIN_SLOT_COUNT - 32);
    struct pin_error err = {0};
    assert_true(pin_slot_release(&slot, &err));
    assert_int_equal(sweep(fixture->dir, &cleaned).cleared, 0);
}

static void refuses_table(struct fixture *fixture) {
    struct pin_error err = {0};
    struct pin_slot slot = PIN_SLOT_NONE;
    assert_false(pin_slot_claim(fixture->dir, &slot, &err));
    assert_string_equal(err.pointer, "slots");
    assert_string_not_equal(err.hint, "");
    assert_int_equal(unlinkat(fixture->dir, "slots", 0), 0);
}

static void a_table_that_is_a_link_is_not_followed(void **state) {
    struct fixture *fixture = *state;
    int victim = openat(fixture->dir, "victim", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    (void)close(victim);
    assert_int_equal(symlinkat("victim", fixture->dir, "slots"), 0);
    refuses_table(fixture);
    struct stat facts;
    assert_int_equal(fstatat(fixture->dir, "victim", &facts, 0), 0);
    assert_int_equal(facts.st_size, 0);
}

static void a_table_that_others_own_or_write_is_refused(void **state) {
    struct fixture *fixture = *state;
    struct pin_slot slot = claim(fixture->dir);
    pin_slot_close(&slot);
    assert_int_equal(fchmodat(fixture->dir, "slots", 0622, 0), 0);
    refuses_table(fixture);
    assert_int_equal(mkfifoat(fixture->dir, "slots", 0600), 0);
    refuses_table(fixture);
    slot = claim(fixture->dir);
    pin_slot_close(&slot);
    assert_int_equal(linkat(fixture->dir, "slots", fixture->dir, "second", 0), 0);
    refuses_table(fixture);
    if (geteuid() != 0)
        return; /* only root can give a file away */
    slot = claim(fixture->dir);
    pin_slot_close(&slot);
    assert_int_equal(fchownat(fixture->dir, "slots", 4242, 4242, 0), 0);
    refuses_table(fixture);
}

static void id_ranges_are_disjoint_and_below_the_next_assigned_one(void **state) {
    (void)state;
    assert_int_equal(pin_slot_id_base(0), 1879048192);
    assert_int_equal(pin_slot_id_base(1) - pin_slot_id_base(0), PIN_SLOT_IDS);
    assert_true(pin_slot_id_base(PIN_SLOT_COUNT - 1) + (PIN_SLOT_IDS - 1) < 0x7FFE0000u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STATE_TEST(two_state_directories_never_give_the_same_ids),
        STATE_TEST(live_slots_are_never_given_twice_and_never_swept),
        STATE_TEST(a_dead_owners_slot_is_swept_once),
        STATE_TEST(a_slot_that_cannot_be_cleared_stays_claimed_and_is_named),
        STATE_TEST(release_and_sweep_take_record_and_scratch_with_them),
        STATE_TEST(liveness_is_the_lock_and_not_the_byte),
        STATE_TEST(a_killed_owner_at_any_moment_leaves_a_slot_that_the_sweep_frees),
        STATE_TEST(an_owner_is_dead_whatever_its_child_has_of_it),
        STATE_TEST(concurrent_commands_share_the_table),
        STATE_TEST(a_full_table_is_said_to_be_full),
        STATE_TEST(a_torn_table_is_rebuilt_and_every_slot_proved_free),
        STATE_TEST(a_torn_table_with_live_owners_is_left_alone),
        STATE_TEST(garbage_in_the_table_is_swept_like_dead_slots),
        STATE_TEST(a_table_that_is_a_link_is_not_followed),
        STATE_TEST(a_table_that_others_own_or_write_is_refused),
        cmocka_unit_test(id_ranges_are_disjoint_and_below_the_next_assigned_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
