/* Names of users and groups in files that mean harm. */
#include "tests/unit/test.h"

#include <string.h>

#include "base/users.h"

static const char passwd[] =
    "# a comment\nroot:x:0:0:::\n\nweb:x:33:44::/:/bin/sh\nbad:x:4294967296:0::\nminus:x:-1:0\n"
    "hex:x:0x0:0\nempty:x::0\nshort:x\nweb:x:0:0:twice\nbad:x:9:8\nspace:x: 5:5\nlone:x:12\n"
    "last:x:7:8";
static const char groups[] = "root:x:0:\ndata:x:55:web\nlarge:x:4294967295:\ndata:x:0:\n";

static void a_user_is_split_from_its_group_or_refused(void **state) {
    static const struct {
        const char *text, *user, *group; /* user NULL: refused */
    } rows[] = {
        {"web",       "web", ""    },
        {"33",        "33",  ""    },
        {"web:data",  "web", "data"},
        {"33:44",     "33",  "44"  },
        {"",          NULL,  NULL  },
        {":",         NULL,  NULL  },
        {":data",     NULL,  NULL  },
        {"web:",      NULL,  NULL  },
        {"a:b:c",     NULL,  NULL  },
        {"web::",     NULL,  NULL  },
        {"web\nroot", NULL,  NULL  },
        {"web:a\nb",  NULL,  NULL  },
    };
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_user_name name;
        assert_int_equal(pin_user_split(rows[i].text, &name), rows[i].user != NULL);
        if (rows[i].user == NULL)
            continue;
        assert_string_equal(name.user, rows[i].user);
        assert_string_equal(name.group, rows[i].group);
    }
}

static void a_name_too_long_for_anybody_is_refused(void **state) {
    char text[2 * PIN_USER_NAME_SIZE + 2];
    struct pin_user_name name;
    (void)state;
    memset(text, 'a', sizeof(text));
    text[PIN_USER_NAME_SIZE - 1] = '\0';
    assert_true(pin_user_split(text, &name));
    text[PIN_USER_NAME_SIZE - 1] = 'a';
    text[PIN_USER_NAME_SIZE] = '\0';
    assert_false(pin_user_split(text, &name));
    text[1] = ':';
    assert_true(pin_user_split(text, &name));
    text[PIN_USER_NAME_SIZE] = 'a';
    text[PIN_USER_NAME_SIZE + 2] = '\0';
    assert_false(pin_user_split(text, &name));
}

static void users_are_found_by_name_and_number(void **state) {
    static const struct {
        const char *user;
        bool found, has_gid;
        uint32_t uid, gid;
    } rows[] = {
        {"root",        true,  true,  0,          0 },
        {"web",         true,  true,  33,         44}, /* the first line counts */
        {"33",          true,  true,  33,         44},
        {"last",        true,  true,  7,          8 },
        {"lone",        true,  false, 12,         0 },
        {"bad",         true,  true,  9,          8 }, /* the first sound one */
        {"1000",        true,  false, 1000,       0 },
        {"4294967294",  true,  false, 4294967294, 0 },
        {"4294967295",  false, false, 0,          0 },
        {"minus",       false, false, 0,          0 },
        {"hex",         false, false, 0,          0 },
        {"empty",       false, false, 0,          0 },
        {"short",       false, false, 0,          0 },
        {"space",       false, false, 0,          0 },
        {"nobody",      false, false, 0,          0 },
        {"we",          false, false, 0,          0 },
        {"webs",        false, false, 0,          0 },
        {"# a comment", false, false, 0,          0 },
        {"-1",          false, false, 0,          0 },
        {" 0",          false, false, 0,          0 },
    };
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        uint32_t uid = 99, gid = 99;
        bool has_gid = false;
        if (pin_user_find(passwd, rows[i].user, &uid, &gid, &has_gid) != rows[i].found)
            fail_msg("'%s'", rows[i].user);
        if (!rows[i].found)
            assert_int_equal(uid, 99);
        else
            assert_int_equal(uid, rows[i].uid);
        assert_int_equal(has_gid, rows[i].has_gid);
        if (has_gid)
            assert_int_equal(gid, rows[i].gid);
    }
}

static void groups_are_found_by_name_and_number(void **state) {
    uint32_t gid = 99;
    (void)state;
    assert_false(pin_group_find(groups, "none", &gid));
    assert_false(pin_group_find(groups, "large", &gid));
    assert_int_equal(gid, 99);
    assert_true(pin_group_find(groups, "data", &gid));
    assert_int_equal(gid, 55);
    assert_true(pin_group_find(NULL, "7", &gid));
    assert_int_equal(gid, 7);
}

static void without_a_file_only_numbers_stand_for_somebody(void **state) {
    uint32_t uid = 99, gid = 99;
    bool has_gid = true;
    (void)state;
    assert_false(pin_user_find(NULL, "root", &uid, &gid, &has_gid));
    assert_true(pin_user_find(NULL, "5", &uid, &gid, &has_gid));
    assert_int_equal(uid, 5);
    assert_false(has_gid);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_user_is_split_from_its_group_or_refused),
        cmocka_unit_test(a_name_too_long_for_anybody_is_refused),
        cmocka_unit_test(users_are_found_by_name_and_number),
        cmocka_unit_test(groups_are_found_by_name_and_number),
        cmocka_unit_test(without_a_file_only_numbers_stand_for_somebody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
