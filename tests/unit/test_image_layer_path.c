/* What a name in a layer's tar means. */
#include "tests/unit/test.h"

#include <string.h>

#include "images/store/layer_path.h"

static void names_are_places_below_the_root(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum pin_layer_entry kind;
        const char *parent, *name;
    } rows[] = {
        {".",              PIN_LAYER_ROOT,     "",      ""             },
        {"./",             PIN_LAYER_ROOT,     "",      ""             },
        {"/",              PIN_LAYER_ROOT,     "",      ""             },
        {"a",              PIN_LAYER_PLAIN,    "",      "a"            },
        {"./a",            PIN_LAYER_PLAIN,    "",      "a"            },
        {"/a/",            PIN_LAYER_PLAIN,    "",      "a"            },
        {"a/b",            PIN_LAYER_PLAIN,    "a",     "b"            },
        {"//a//.//b/./c/", PIN_LAYER_PLAIN,    "a/b",   "c"            },
        {"...",            PIN_LAYER_PLAIN,    "",      "..."          },
        {"..a/b..",        PIN_LAYER_PLAIN,    "..a",   "b.."          },
        {".wh.a",          PIN_LAYER_WHITEOUT, "",      "a"            },
        {"x/y/.wh.a",      PIN_LAYER_WHITEOUT, "x/y",   "a"            },
        {".wh.a/b",        PIN_LAYER_PLAIN,    ".wh.a", "b"            },
        {".wh....",        PIN_LAYER_WHITEOUT, "",      "..."          },
        {"x/.wh..wh..opq", PIN_LAYER_OPAQUE,   "x",     ".wh..wh..opq" },
        {".wh..wh.plnk",   PIN_LAYER_SKIP,     "",      ".wh..wh.plnk" },
        {".wh..wh..opqx",  PIN_LAYER_SKIP,     "",      ".wh..wh..opqx"},
        {".whx",           PIN_LAYER_PLAIN,    "",      ".whx"         },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_error err = {0};
        struct pin_layer_path path;
        assert_true(pin_layer_path_parse(rows[i].text, &path, &err));
        assert_int_equal(path.kind, rows[i].kind);
        assert_string_equal(path.parent, rows[i].parent);
        assert_string_equal(path.name, rows[i].name);
    }
}

static void names_that_lead_out_or_nowhere_are_refused(void **state) {
    (void)state;
    static const char *const rows[] = {"",       "..",     "../a",         "a/..",     "a/../b",
                                       "/..",    "./..",   "a/b/../../..", ".wh.",     ".wh..",
                                       ".wh...", "a/.wh.", "a/.wh...",     "../.wh.a", ".wh..wh..opq/.."};
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_error err = {0};
        struct pin_layer_path path;
        if (pin_layer_path_parse(rows[i], &path, &err))
            fail_msg("'%s' was taken", rows[i]);
    }
}

static void names_have_bounds(void **state) {
    (void)state;
    static char text[8192];
    struct pin_layer_path path;
    struct pin_error err = {0};
    memset(text, 'n', 255);
    assert_true(pin_layer_path_parse(text, &path, &err));
    text[255] = 'n';
    assert_false(pin_layer_path_parse(text, &path, &err));
    pin_error_clear(&err);
    for (size_t i = 0; i < 256; i++)
        memcpy(text + 2 * i, "d/", 3);
    assert_true(pin_layer_path_parse(text, &path, &err));
    memcpy(text + 512, "x", 2);
    assert_false(pin_layer_path_parse(text, &path, &err));
    pin_error_clear(&err);
    for (size_t i = 0; i < 30; i++) {
        memset(text + 201 * i, 'n', 200);
        memcpy(text + 201 * i + 200, "/", 2);
    }
    assert_false(pin_layer_path_parse(text, &path, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_places_below_the_root),
        cmocka_unit_test(names_that_lead_out_or_nowhere_are_refused),
        cmocka_unit_test(names_have_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
