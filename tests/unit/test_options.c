/* Where options may stand in a command line, and what is left as arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/names.h"
#include "tools/pinfold/options.h"

struct values {
    bool json;
    const char *key;
};

static const struct pin_option options[] = {
    {"json", 0,   PIN_OPTION_FLAG, offsetof(struct values, json), NULL, "", NULL},
    {"key",  'k', PIN_OPTION_TEXT, offsetof(struct values, key),  "K",  "", NULL},
};

static const struct row {
    size_t options_end;
    const char *line, *arguments; /* words between spaces; NULL: refused */
    bool json;
    const char *key;
} rows[] = {
    {0, "NAME -",                               "NAME -",          false, NULL    },
    {0, "NAME --json FILE",                     "NAME FILE",       true,  NULL    },
    {0, "NAME FILE --json --key K",             "NAME FILE",       true,  "K"     },
    {0, "--key=K NAME - --json",                "NAME -",          true,  "K"     },
    {0, "-k -- NAME",                           "NAME",            false, "--"    },
    {0, "NAME -k --json",                       "NAME",            false, "--json"},
    {0, "NAME -- --json",                       "NAME --json",     false, NULL    },
    {0, "--json -- - --",                       "- --",            true,  NULL    },
    {0, "NAME FILE ONE-MORE-THAN THERE-MAY BE", NULL,              false, NULL    },
    {0, "--json",                               NULL,              true,  NULL    },
    {0, "NAME --jso",                           NULL,              false, NULL    },
    {1, "--json -- CMD --key",                  "CMD --key",       true,  NULL    },
    {1, "CMD --json -- K",                      "CMD --json -- K", false, NULL    },
    {2, "NAME --json -- CMD --key",             "NAME CMD --key",  true,  NULL    },
    {2, "--json NAME -- CMD -- -k",             "NAME CMD -- -k",  true,  NULL    },
    {2, "NAME --key K CMD --json",              "NAME CMD --json", false, "K"     },
    {2, "-- NAME --json",                       "NAME --json",     false, NULL    },
};

static struct seen {
    bool ran;
    struct values values;
    char **words, **arguments;
    size_t count;
} seen;

static int run(const struct pin_invocation *invocation) {
    const struct values *values = invocation->values;
    seen = (struct seen){true, *values, invocation->words, invocation->arguments, invocation->argument_count};
    return 0;
}

static int split(char *line, char **words) {
    int count = 0;
    char *rest;
    for (char *word = strtok_r(line, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    return count;
}

static void options_stand_around_arguments_and_never_in_a_command(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        struct pin_verb verb = {.name = "try",
                                .synopsis = "",
                                .options = options,
                                .option_count = PIN_COUNT(options),
                                .values_size = sizeof(struct values),
                                .least_arguments = 1,
                                .most_arguments = 4,
                                .options_end = row->options_end,
                                .run = run};
        char line[80], expected[80], *words[16], *wanted[16];
        print_message("%zu: %s\n", row->options_end, row->line);
        int count = split(strcpy(line, row->line), words);
        seen = (struct seen){0};
        assert_int_equal(pin_verb_main(&verb, count, words), row->arguments != NULL ? 0 : 125);
        assert_int_equal(seen.ran, row->arguments != NULL);
        if (!seen.ran)
            continue;
        count = split(strcpy(expected, row->arguments), wanted);
        assert_int_equal(seen.count, count);
        for (int at = 0; at < count; at++)
            assert_string_equal(seen.arguments[at], wanted[at]);
        assert_null(seen.arguments[count]);
        assert_int_equal(seen.values.json, row->json);
        assert_int_equal(seen.values.key != NULL, row->key != NULL);
        if (row->key != NULL)
            assert_string_equal(seen.values.key, row->key);
    }
}

static void without_arguments_the_words_stay_as_they_were(void **state) {
    (void)state; /* `tool serve` hands them on to what it starts */
    const struct pin_verb verb = {.name = "try",
                                  .options = options,
                                  .option_count = PIN_COUNT(options),
                                  .values_size = sizeof(struct values),
                                  .run = run};
    char line[] = "--key K --json", *words[8];
    int count = split(line, words);
    assert_int_equal(pin_verb_main(&verb, count, words), 0);
    assert_null(seen.arguments[0]);
    assert_string_equal(seen.words[0], "--key");
    assert_string_equal(seen.words[2], "--json");
    assert_null(seen.words[3]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_stand_around_arguments_and_never_in_a_command),
        cmocka_unit_test(without_arguments_the_words_stay_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
