#include "tests/unit/test.h"

#include <string.h>

#include "runtime/bundle/systemd_property.h"

static struct pin_systemd_property property;

static void whole_numbers_have_the_type_that_is_named(void **state) {
    static const struct {
        const char *name, *text, *as;
        char type;
        int64_t value;
    } rows[] = {
        {"KillSignal",      "37",                          "KillSignal",      'i', 37       },
        {"TimeoutStopUSec", "uint64 123456789",            "TimeoutStopUSec", 't', 123456789},
        {"TimeoutStopSec",  "uint64 5",                    "TimeoutStopUSec", 't', 5000000  },
        {"TimeoutStopSec",  "5",                           "TimeoutStopUSec", 't', 5000000  },
        {"TimeoutStopSec",  "2.5",                         "TimeoutStopUSec", 't', 2500000  },
        {"CPUQuotaPerSec",  "@u 7",                        "CPUQuotaPerUSec", 't', 7000000  },
        {"Sec",             "5",                           "Sec",             'i', 5        },
        {"OnSEC",           "5",                           "OnSEC",           'i', 5        },
        {"Nice",            "int16 -5",                    "Nice",            'n', -5       },
        {"Nice",            "int64 -9223372036854775808",  "Nice",            'x', INT64_MIN},
        {"Nice",            "@y 0xff",                     "Nice",            'y', 255      },
        {"MemoryMax",       "uint64 18446744073709551615", "MemoryMax",       't', -1       },
        {"SendSIGHUP",      " true ",                      "SendSIGHUP",      'b', 1        },
        {"SendSIGHUP",      "boolean false",               "SendSIGHUP",      'b', 0        },
    };
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_error err = {0};
        if (!pin_systemd_property_parse(rows[i].name, rows[i].text, &property, &err))
            fail_msg("%s: %s", rows[i].text, err.message);
        assert_string_equal(property.name, rows[i].as);
        assert_int_equal(property.type, rows[i].type);
        assert_int_equal(property.items[0].number, rows[i].value);
        assert_false(property.list);
    }
}

static void lists_and_strings_are_taken(void **state) {
    struct pin_error err = {0};
    (void)state;
    assert_true(
        pin_systemd_property_parse("After", "['a.service' , \"it's \\\"b\\\"\\n\"]", &property, &err));
    assert_true(property.list && property.type == 's' && property.count == 2);
    assert_string_equal(property.items[0].words, "a.service");
    assert_string_equal(property.items[1].words, "it's \"b\"\n");
    assert_true(pin_systemd_property_parse("AllowedCPUs", "[byte 1, 255]", &property, &err));
    assert_true(property.list && property.type == 'y' && property.count == 2);
    assert_int_equal(property.items[1].natural, 255);
    assert_true(pin_systemd_property_parse("After", "@as []", &property, &err));
    assert_true(property.list && property.type == 's' && property.count == 0);
    assert_true(pin_systemd_property_parse("CollectMode", "'inactive-or-failed'", &property, &err));
    assert_true(!property.list && property.type == 's' && property.count == 1);
}

static void what_has_no_value_is_refused(void **state) {
    static const char *const rows[][2] = {
        {"CollectMode",    ""                        },
        {"CollectMode",    "inactive"                },
        {"CollectMode",    "'inactive"               },
        {"CollectMode",    "'a' 'b'"                 },
        {"CollectMode",    "'\\u00e4'"               },
        {"CollectMode",    "uint64 'a'"              },
        {"KillSignal",     "uint16 65536"            },
        {"KillSignal",     "2147483648"              },
        {"KillSignal",     "uint32 -1"               },
        {"KillSignal",     "5x"                      },
        {"KillSignal",     "0x"                      },
        {"KillSignal",     "--5"                     },
        {"KillSignal",     "double inf"              },
        {"After",          "[]"                      },
        {"After",          "['a'"                    },
        {"After",          "['a',]"                  },
        {"After",          "['a', 5]"                },
        {"After",          "[['a']]"                 },
        {"After",          "@s ['a']"                },
        {"After",          "@as 'a'"                 },
        {"After",          "@aas []"                 },
        {"DeviceAllow",    "[('a', 'b')]"            },
        {"Some",           "<5>"                     },
        {"TimeoutStopSec", "'5'"                     },
        {"TimeoutStopSec", "-5"                      },
        {"TimeoutStopSec", "uint64 18446744073709551"},
        {"ab",             "5"                       },
        {"With.Dot",       "5"                       },
        {"",               "5"                       },
    };
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_error err = {0};
        if (pin_systemd_property_parse(rows[i][0], rows[i][1], &property, &err))
            fail_msg("%s=%s was taken", rows[i][0], rows[i][1]);
        assert_true(err.message[0] != '\0');
    }
}

static void too_much_is_refused(void **state) {
    char text[PIN_SYSTEMD_TEXT_ROOM + 1] = "[1";
    struct pin_error err = {0};
    (void)state;
    for (size_t i = 1; i < PIN_SYSTEMD_ITEMS_MAX; i++)
        memcpy(text + strlen(text), ",1", sizeof(",1"));
    memcpy(text + strlen(text), "]", sizeof("]"));
    assert_true(pin_systemd_property_parse("Some", text, &property, &err));
    memcpy(text + strlen(text) - 1, ",1]", sizeof(",1]"));
    assert_false(pin_systemd_property_parse("Some", text, &property, &err));
    pin_error_clear(&err);
    memset(text, ' ', sizeof(text) - 2);
    memcpy(text + sizeof(text) - 2, "5", sizeof("5"));
    assert_int_equal(strlen(text), PIN_SYSTEMD_TEXT_ROOM);
    assert_false(pin_systemd_property_parse("Some", text, &property, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_have_the_type_that_is_named),
        cmocka_unit_test(lists_and_strings_are_taken),
        cmocka_unit_test(what_has_no_value_is_refused),
        cmocka_unit_test(too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
