/* Recipes and locks: read whole or refused, and never an option, a pattern or a path in the name of a
 * package. */
#include "tests/unit/test.h"

#include <string.h>

#include "images/store/recipe.h"

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PACKAGE(name)                                                                                        \
    "{\"name\":\"" name "\",\"version\":\"1:2.0~a+b1-3\",\"architecture\":\"amd64\",\"digest\":\"" DIGEST    \
    "\",\"size\":7}"

static void a_recipe_is_read_whole(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_error err = {0};
    struct pin_recipe recipe;
    static const char text[] =
        "{\"pinfold\":1,\"name\":\"tools/c\",\"description\":\"d\","
        "\"packages\":[\"g++\",\"libc6\"],\"config\":{\"User\":\"1\",\"Cmd\":[\"sh\"]}}";
    assert_true(pin_recipe_parse(&arena, text, strlen(text), &recipe, &err));
    assert_string_equal(recipe.name, "tools/c");
    assert_int_equal(recipe.package_count, 2);
    assert_string_equal(recipe.packages[0], "g++");
    assert_string_equal(recipe.config, "{\"Cmd\":[\"sh\"],\"User\":\"1\"}");
    assert_memory_equal(recipe.digest, "sha256:", 7);
}

static void a_recipe_that_is_not_one_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *pointer;
    } cases[] = {
        {"",                                                                ""           },
        {"[]",                                                              ""           },
        {"{\"name\":\"a\",\"packages\":[]}",                                ""           },
        {"{\"pinfold\":2,\"name\":\"a\",\"packages\":[]}",                  ""           },
        {"{\"pinfold\":1,\"name\":\"a\",\"name\":\"b\",\"packages\":[]}",   ""           },
        {"{\"pinfold\":1,\"packages\":[]}",                                 "/name"      },
        {"{\"pinfold\":1,\"name\":\"a:b\",\"packages\":[]}",                "/name"      },
        {"{\"pinfold\":1,\"name\":\"../a\",\"packages\":[]}",               "/name"      },
        {"{\"pinfold\":1,\"name\":\"a\"}",                                  "/packages"  },
        {"{\"pinfold\":1,\"name\":\"a\",\"packages\":[\"b\",\"-o\"]}",      "/packages/1"},
        {"{\"pinfold\":1,\"name\":\"a\",\"packages\":[\"?essential\"]}",    "/packages/0"},
        {"{\"pinfold\":1,\"name\":\"a\",\"packages\":[\"b=1\"]}",           "/packages/0"},
        {"{\"pinfold\":1,\"name\":\"a\",\"packages\":[\"./b.deb\"]}",       "/packages/0"},
        {"{\"pinfold\":1,\"name\":\"a\",\"packages\":[\"b\\u0000c\"]}",     ""           },
        {"{\"pinfold\":1,\"name\":\"a\",\"packages\":[],\"config\":[]}",    "/config"    },
        {"{\"pinfold\":1,\"name\":\"a\",\"packages\":[],\"mirror\":\"x\"}", "/mirror"    },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        PIN_ARENA struct pin_arena arena = {0};
        struct pin_error err = {0};
        struct pin_recipe recipe;
        assert_false(pin_recipe_parse(&arena, cases[i].text, strlen(cases[i].text), &recipe, &err));
        assert_string_equal(err.pointer, cases[i].pointer);
    }
}

static void a_lock_is_printed_and_read_back(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_error err = {0};
    struct pin_lock lock, again;
    static const char text[] = "{\"pinfold\":1,\"epoch\":5,\"packages\":[" PACKAGE("a") "," PACKAGE("b") "]}";
    assert_true(pin_lock_parse(&arena, text, strlen(text), &lock, &err));
    const char *printed = pin_lock_print(&arena, &lock);
    assert_true(pin_lock_parse(&arena, printed, strlen(printed), &again, &err));
    assert_int_equal(again.epoch_s, 5);
    assert_int_equal(again.count, 2);
    assert_string_equal(again.packages[1].name, "b");
    assert_string_equal(again.packages[1].version, "1:2.0~a+b1-3");
    assert_string_equal(again.packages[1].digest, DIGEST);
    assert_int_equal(again.packages[1].size, 7);
    assert_string_equal(pin_package_file(&arena, &again.packages[1]), "b_1%3a2.0~a+b1-3_amd64.deb");
}

static void a_lock_that_is_not_one_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{\"pinfold\":1,\"epoch\":5,\"packages\":[]}",
        "{\"pinfold\":1,\"epoch\":-1,\"packages\":[" PACKAGE("a") "]}",
        "{\"pinfold\":1,\"packages\":[" PACKAGE("a") "]}",
        "{\"pinfold\":1,\"epoch\":5,\"packages\":[" PACKAGE("b") "," PACKAGE("a") "]}",
        "{\"pinfold\":1,\"epoch\":5,\"packages\":[" PACKAGE("a") "," PACKAGE("a") "]}",
        "{\"pinfold\":1,\"epoch\":5,\"packages\":[" PACKAGE("../a") "]}",
        "{\"pinfold\":1,\"epoch\":5,\"packages\":[" PACKAGE("-a") "]}",
        "{\"pinfold\":1,\"epoch\":5,\"packages\":[{\"name\":\"a\"}]}",
        "{\"pinfold\":1,\"epoch\":5,\"packages\":[7]}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        PIN_ARENA struct pin_arena arena = {0};
        struct pin_error err = {0};
        struct pin_lock lock;
        assert_false(pin_lock_parse(&arena, texts[i], strlen(texts[i]), &lock, &err));
        assert_int_not_equal(err.kind, PIN_ERROR_NONE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recipe_is_read_whole),
        cmocka_unit_test(a_recipe_that_is_not_one_is_refused),
        cmocka_unit_test(a_lock_is_printed_and_read_back),
        cmocka_unit_test(a_lock_that_is_not_one_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
