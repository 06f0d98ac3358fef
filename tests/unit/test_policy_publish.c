#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/names.h"
#include "policy/publish.h"

static void each_place_is_read_in_its_one_spelling(void **state) {
    (void)state;
    static const struct {
        const char *text;
        struct pin_publish is;
    } rows[] = {
        {"1=127.0.0.1:0",         {1, PIN_PUBLISH_LOOPBACK, 0, ""}        },
        {"65535=127.0.0.1:65535", {65535, PIN_PUBLISH_LOOPBACK, 65535, ""}},
        {"8080=[::1]:80",         {8080, PIN_PUBLISH_LOOPBACK_V6, 80, ""} },
        {"3000=unix:web",         {3000, PIN_PUBLISH_UNIX, 0, "web"}      },
        {"3000=unix:a.b_c-0",     {3000, PIN_PUBLISH_UNIX, 0, "a.b_c-0"}  },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_publish read;
        assert_true(pin_publish_parse(rows[i].text, &read));
        assert_int_equal(read.port, rows[i].is.port);
        assert_int_equal(read.at, rows[i].is.at);
        assert_int_equal(read.host_port, rows[i].is.host_port);
        assert_string_equal(read.name, rows[i].is.name);
    }
}

static void whatever_else_is_refused_and_changes_nothing(void **state) {
    (void)state;
    static const char *const rows[] = {
        "",
        "=",
        "80",
        "80=",
        "0=127.0.0.1:1",
        "080=127.0.0.1:1",
        "65536=127.0.0.1:1",
        "99999=127.0.0.1:1",
        "100000=127.0.0.1:1",
        "+1=127.0.0.1:1",
        "-1=127.0.0.1:1",
        " 1=127.0.0.1:1",
        "1 =127.0.0.1:1",
        "1=127.0.0.1",
        "1=127.0.0.1:",
        "1=127.0.0.1:01",
        "1=127.0.0.1:00",
        "1=127.0.0.1:65536",
        "1=127.0.0.1:1 ",
        "1=127.0.0.1:1=1",
        "1=127.0.0.2:1",
        "1=127.1:1",
        "1=0.0.0.0:1",
        "1=localhost:1",
        "1=::1:1",
        "1=[::1]:",
        "1=[::1]1",
        "1=[::]:1",
        "1=[::ffff:127.0.0.1]:1",
        "1=unix:",
        "1=unix:.",
        "1=unix:..",
        "1=unix:a..b",
        "1=unix:a/b",
        "1=unix:/a",
        "1=unix:-a",
        "1=unix:a b",
        "1=UNIX:a",
        "1=unix:a\n",
        "1=tcp:1",
        "*",
        "*=unix:a",
        "1=*",
    };
    struct pin_publish kept = {.port = 7};
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (pin_publish_parse(rows[i], &kept) || kept.port != 7)
            fail_msg("'%s' was taken", rows[i]);
    char name[PIN_PUBLISH_NAME + 8] = "1=unix:";
    memset(name + 7, 'x', PIN_PUBLISH_NAME - 1);
    assert_true(pin_publish_parse(name, &kept));
    name[7 + PIN_PUBLISH_NAME - 1] = 'x';
    assert_false(pin_publish_parse(name, &kept));
}

static void a_grant_covers_its_own_place_and_port_zero_every_port_of_it(void **state) {
    (void)state;
    static const struct {
        const char *outer, *inner;
        bool covers;
    } rows[] = {
        {"80=127.0.0.1:0",  "80=127.0.0.1:0",  true },
        {"80=127.0.0.1:0",  "80=127.0.0.1:81", true },
        {"80=127.0.0.1:81", "80=127.0.0.1:0",  false},
        {"80=127.0.0.1:81", "80=127.0.0.1:82", false},
        {"80=127.0.0.1:0",  "81=127.0.0.1:0",  false},
        {"80=127.0.0.1:0",  "80=[::1]:0",      false},
        {"80=127.0.0.1:0",  "80=unix:a",       false},
        {"80=unix:a",       "80=unix:a",       true },
        {"80=unix:a",       "80=unix:b",       false},
        {"80=unix:a",       "80=127.0.0.1:0",  false},
        {"*",               "80=unix:a",       true },
        {"80=unix:a",       "*",               false},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (pin_publish_covers(rows[i].outer, rows[i].inner) != rows[i].covers)
            fail_msg("'%s' and '%s'", rows[i].outer, rows[i].inner);
}

static void two_collide_that_are_at_one_place(void **state) {
    (void)state;
    static const struct {
        const char *one, *other;
        bool collide;
    } rows[] = {
        {"80=127.0.0.1:1", "81=127.0.0.1:1", true },
        {"80=127.0.0.1:0", "81=127.0.0.1:0", false},
        {"80=127.0.0.1:1", "80=[::1]:1",     false},
        {"80=unix:a",      "81=unix:a",      true },
        {"80=unix:a",      "80=unix:b",      false},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_publish one, other;
        assert_true(pin_publish_parse(rows[i].one, &one) && pin_publish_parse(rows[i].other, &other));
        assert_int_equal(pin_publish_collides(&one, &other), rows[i].collide);
        assert_int_equal(pin_publish_collides(&other, &one), rows[i].collide);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_place_is_read_in_its_one_spelling),
        cmocka_unit_test(whatever_else_is_refused_and_changes_nothing),
        cmocka_unit_test(a_grant_covers_its_own_place_and_port_zero_every_port_of_it),
        cmocka_unit_test(two_collide_that_are_at_one_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
