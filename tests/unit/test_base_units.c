#include "tests/unit/test.h"

#include "base/units.h"

struct size_row {
    const char *text;
    bool good;
    uint64_t value;
};

static const struct size_row sizes[] = {
    {"0",                    true,  0                      },
    {"1",                    true,  1                      },
    {"17B",                  true,  17                     },
    {"4KiB",                 true,  4096                   },
    {"512MiB",               true,  UINT64_C(536870912)    },
    {"3GiB",                 true,  UINT64_C(3221225472)   },
    {"1TiB",                 true,  UINT64_C(1099511627776)},
    {"18446744073709551615", true,  UINT64_MAX             },
    {"18446744073709551616", false, 0                      },
    {"16777216TiB",          false, 0                      }, /* 2^64 */
    {"",                     false, 0                      },
    {"MiB",                  false, 0                      },
    {"1 MiB",                false, 0                      },
    {" 1MiB",                false, 0                      },
    {"1mib",                 false, 0                      },
    {"1M",                   false, 0                      },
    {"1.5GiB",               false, 0                      },
    {"-1",                   false, 0                      },
    {"+1",                   false, 0                      },
    {"1e3",                  false, 0                      },
    {"0x10",                 false, 0                      },
};

static void sizes_are_whole_numbers_with_binary_units(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(sizes); i++) {
        uint64_t value = 99;
        assert_int_equal(pin_parse_size(sizes[i].text, &value), sizes[i].good);
        assert_true(value == (sizes[i].good ? sizes[i].value : 99)); /* untouched on failure */
    }
}

static void times_have_a_unit(void **state) {
    (void)state;
    uint64_t ns;
    assert_true(pin_parse_time("30s", &ns) && ns == 30 * PIN_NS_PER_S);
    assert_true(pin_parse_time("500ms", &ns) && ns == 500 * PIN_NS_PER_MS);
    assert_true(pin_parse_time("2m", &ns) && ns == 120 * PIN_NS_PER_S);
    assert_true(pin_parse_time("1h", &ns) && ns == 3600 * PIN_NS_PER_S);
    assert_false(pin_parse_time("30", &ns));
    assert_false(pin_parse_time("30 s", &ns));
    assert_false(pin_parse_time("9999999999999h", &ns));
}

static void processors_have_three_decimals_at_most(void **state) {
    (void)state;
    uint32_t cpus;
    assert_true(pin_parse_cpus("1", &cpus) && cpus == 1000);
    assert_true(pin_parse_cpus("0.5", &cpus) && cpus == 500);
    assert_true(pin_parse_cpus("2.025", &cpus) && cpus == 2025);
    assert_false(pin_parse_cpus("1.0005", &cpus));
    assert_false(pin_parse_cpus("1.", &cpus));
    assert_false(pin_parse_cpus(".5", &cpus));
    assert_false(pin_parse_cpus("1000001", &cpus));
}

static void what_is_printed_is_parsed_to_the_same(void **state) {
    (void)state;
    static const uint64_t values[] = {0,           1,         1000, 1024, 1536 * PIN_KIB, 512 * PIN_MIB,
                                      5 * PIN_GIB, UINT64_MAX};
    char text[PIN_UNITS_TEXT];
    uint64_t back;
    for (size_t i = 0; i < PIN_COUNT(values); i++)
        assert_true(pin_parse_size(pin_print_size(text, values[i]), &back) && back == values[i]);
    static const uint64_t times[] = {0, PIN_NS_PER_MS, 1500 * PIN_NS_PER_MS, 30 * PIN_NS_PER_S,
                                     7200 * PIN_NS_PER_S};
    for (size_t i = 0; i < PIN_COUNT(times); i++)
        assert_true(pin_parse_time(pin_print_time(text, times[i]), &back) && back == times[i]);
    assert_string_equal(pin_print_size(text, 512 * PIN_MIB), "512MiB");
    assert_string_equal(pin_print_time(text, 1500 * PIN_NS_PER_MS), "1500ms");
    assert_string_equal(pin_print_cpus(text, 500), "0.500");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_whole_numbers_with_binary_units),
        cmocka_unit_test(times_have_a_unit),
        cmocka_unit_test(processors_have_three_decimals_at_most),
        cmocka_unit_test(what_is_printed_is_parsed_to_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
