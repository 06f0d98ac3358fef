/* Requirements of pip and npm: one canonical text, and nothing that an installer could take for more. */
#include "tests/unit/test.h"

#include <string.h>

#include "runtime/tool/requirement.h"

#define SHA256 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SHA512_BASE64                                                                                        \
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="

struct row {
    enum pin_installer installer;
    const char *text, *name, *canonical;
};

static void a_requirement_has_one_canonical_text(void **state) {
    (void)state;
    static const struct row rows[] = {
        {PIN_INSTALLER_PIP, "six",                                                    "six",               "six"                    },
        {PIN_INSTALLER_PIP, "  Typing_Extensions ",                                   "typing-extensions", "typing-extensions"      },
        {PIN_INSTALLER_PIP, "a.-_b",                                                  "a-b",               "a-b"                    },
        {PIN_INSTALLER_PIP, "x == 1.0",                                               "x",                 "x==1.0"                 },
        {PIN_INSTALLER_PIP, "x >=1.0 , < 2",                                          "x",                 "x>=1.0,<2"              },
        {PIN_INSTALLER_PIP, "x[B_c, d]~=1.4.2",                                       "x",                 "x[b-c,d]~=1.4.2"        },
        {PIN_INSTALLER_PIP, "x===1!2.0.post1+local_7",                                "x",                 "x===1!2.0.post1+local_7"},
        {PIN_INSTALLER_PIP, "x==1.*;python_version<'3.9' and (os_name!=\"nt\")",      "x",
         "x==1.* ; python_version < \"3.9\" and ( os_name != \"nt\" )"                                                              },
        {PIN_INSTALLER_PIP, "x==1  --hash=sha256:" SHA256 "   --hash=sha256:" SHA256, "x",
         "x==1 --hash=sha256:" SHA256 " --hash=sha256:" SHA256                                                                      },
        {PIN_INSTALLER_NPM, "left-pad",                                               "left-pad",          "left-pad"               },
        {PIN_INSTALLER_NPM, "@scope/name@^1.2.3",                                     "@scope/name",       "@scope/name@^1.2.3"     },
        {PIN_INSTALLER_NPM, "x@ >=1.0.0   <2 || 3.x ",                                "x",                 "x@>=1.0.0 <2 || 3.x"    },
        {PIN_INSTALLER_NPM, "x@1.0.0 - 2.0.0",                                        "x",                 "x@1.0.0 - 2.0.0"        },
        {PIN_INSTALLER_NPM, "x@next",                                                 "x",                 "x@next"                 },
        {PIN_INSTALLER_NPM, "x@1.2.3 --integrity=sha512-" SHA512_BASE64,              "x",
         "x@1.2.3 --integrity=sha512-" SHA512_BASE64                                                                                },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        PIN_ARENA struct pin_arena arena = {0};
        struct pin_error err = {0};
        struct pin_requirement one, again;
        if (!pin_requirement_parse(rows[i].installer, rows[i].text, &arena, &one, &err))
            fail_msg("'%s': %s", rows[i].text, err.message);
        assert_string_equal(one.name, rows[i].name);
        assert_string_equal(one.text, rows[i].canonical);
        assert_true(pin_requirement_parse(rows[i].installer, one.text, &arena, &again, &err));
        assert_string_equal(again.text, one.text);
    }
}

static void what_could_be_more_than_a_package_is_refused(void **state) {
    (void)state;
    static const char *const pip[] = {
        "",
        " ",
        "-r other.txt",
        "--index-url=http://evil",
        "-e .",
        ".",
        "./here",
        "/abs",
        "../up",
        "x @ http://evil/x.whl",
        "x@http://evil",
        "http://evil/x.whl",
        "git+https://evil/x",
        "file:///etc",
        "x.whl/../y",
        "x --index-url http://evil",
        "x==1 --hash=md5:00",
        "x==1 --hash=sha256:00",
        "x==1 --hash=sha256:" SHA256 "--index-url=http://evil",
        "x==1 --global-option=x",
        "x==1\n--index-url=http://evil",
        "x==1\r",
        "x\t==1",
        "x==1 # comment",
        "x==1 \\",
        "x==$(id)",
        "x==${HOME}",
        "x==-1",
        "x==",
        "x=1",
        "x==1,",
        "x[",
        "x[]",
        "x[a",
        "x[a,]",
        "x[-a]",
        "-x",
        "x-",
        "_x",
        "x; import os",
        "x;",
        "x; python_version < '3'; y",
        "x; os_name == 'a\"b'",
        "x; os_name == 'a",
        "x; os_name == '/etc'",
        "x; os_name != ' --pre'",
        "x==1 y==2",
        "x\x80",
    };
    static const char *const npm[] = {
        "",
        "-g",
        "--registry=http://evil",
        "X",
        ".x",
        "_x",
        "../x",
        "/x",
        "./x",
        "x/y",
        "@/x",
        "@s/",
        "@s",
        "@s/x/y",
        "x@",
        "x@file:../y",
        "x@http://evil/x.tgz",
        "x@git+ssh://evil",
        "x@npm:y@1",
        "x@user/repo",
        "x@#sha",
        "x@-g",
        "x@--registry",
        "x@1\n",
        "x y",
        "x@1 --registry=http://evil",
        "x@1 --integrity=sha1-00",
        "x@1 --pre",
        "v@ --1.2.3 -x",
        "x@^1 --integrity=sha512-" SHA512_BASE64,
        "x --integrity=sha512-" SHA512_BASE64,
        "x@1.0.0 --integrity=sha512-AAAA",
        "x@1.0.0 --integrity=sha512-" SHA512_BASE64 " y",
        "x@'1'",
        "x@\"1\"",
    };
    for (size_t i = 0; i < PIN_COUNT(pip) + PIN_COUNT(npm); i++) {
        bool second = i >= PIN_COUNT(pip);
        const char *text = second ? npm[i - PIN_COUNT(pip)] : pip[i];
        PIN_ARENA struct pin_arena arena = {0};
        struct pin_error err = {0};
        struct pin_requirement one = {"before", "before"};
        if (pin_requirement_parse(second ? PIN_INSTALLER_NPM : PIN_INSTALLER_PIP, text, &arena, &one, &err))
            fail_msg("'%s' is taken as '%s'", text, one.text);
        assert_int_equal(err.kind, PIN_ERROR_INVALID);
        assert_string_equal(one.text, "before");
    }
}

static void a_long_one_is_refused(void **state) {
    (void)state;
    char text[PIN_REQUIREMENT_MAX + 2];
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_requirement one;
    struct pin_error err = {0};
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_false(pin_requirement_parse(PIN_INSTALLER_PIP, text, &arena, &one, &err));
    text[PIN_REQUIREMENT_MAX] = '\0';
    err = (struct pin_error){0};
    assert_true(pin_requirement_parse(PIN_INSTALLER_PIP, text, &arena, &one, &err));
}

static void add(struct pin_requirements *list, struct pin_arena *arena, const char *text) {
    struct pin_error err = {0};
    struct pin_requirement one;
    assert_true(pin_requirement_parse(PIN_INSTALLER_PIP, text, arena, &one, &err));
    *(struct pin_requirement *)pin_arena_grow(arena, &list->items, &list->count, sizeof(one)) = one;
}

static void the_tools_list_is_over_the_configurations(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_requirements under = {0}, over = {0}, merged;
    add(&under, &arena, "b==1");
    add(&under, &arena, "c==1");
    add(&over, &arena, "B==2");
    add(&over, &arena, "a");
    add(&over, &arena, "a");
    pin_requirements_merge(&under, &over, &arena, &merged);
    assert_int_equal(merged.count, 3);
    assert_string_equal(merged.items[0].text, "a");
    assert_string_equal(merged.items[1].text, "b==2");
    assert_string_equal(merged.items[2].text, "c==1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_requirement_has_one_canonical_text),
        cmocka_unit_test(what_could_be_more_than_a_package_is_refused),
        cmocka_unit_test(a_long_one_is_refused),
        cmocka_unit_test(the_tools_list_is_over_the_configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
