#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"

struct unit {
    const char *suffix;
    uint64_t factor;
};

static const struct unit sizes[] = {
    {"TiB", 1024 * PIN_GIB},
    {"GiB", PIN_GIB       },
    {"MiB", PIN_MIB       },
    {"KiB", PIN_KIB       },
    {"B",   1             },
    {"",    1             },
};

static const struct unit times[] = {
    {"h",  3600 * PIN_NS_PER_S},
    {"m",  60 * PIN_NS_PER_S  },
    {"s",  PIN_NS_PER_S       },
    {"ms", PIN_NS_PER_MS      },
};

static const char *take_digits(const char *text, uint64_t *value) {
    if (*text < '0' || *text > '9')
        return NULL;
    uint64_t sum = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*text - '0'), &sum))
            return NULL;
    *value = sum;
    return text;
}

bool pin_parse_u64(const char *text, uint64_t *value) {
    uint64_t number;
    const char *rest = take_digits(text, &number);
    if (rest == NULL || *rest != '\0')
        return false;
    *value = number;
    return true;
}

static bool parse_with(const struct unit *units, size_t count, const char *text, uint64_t *value) {
    uint64_t number;
    const char *suffix = take_digits(text, &number);
    if (suffix == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(units[i].suffix, suffix) == 0)
            return !__builtin_mul_overflow(number, units[i].factor, value);
    return false;
}

bool pin_parse_size(const char *text, uint64_t *bytes) {
    uint64_t value;
    if (!parse_with(sizes, PIN_COUNT(sizes), text, &value))
        return false;
    *bytes = value;
    return true;
}

bool pin_parse_time(const char *text, uint64_t *ns) {
    uint64_t value;
    if (!parse_with(times, PIN_COUNT(times), text, &value))
        return false;
    *ns = value;
    return true;
}

bool pin_parse_cpus(const char *text, uint32_t *millicpus) {
    uint64_t whole, fraction = 0;
    const char *rest = take_digits(text, &whole);
    if (rest == NULL || whole > 1000000)
        return false;
    if (*rest == '.') {
        const char *digits = rest + 1;
        size_t length = strspn(digits, "0123456789");
        if (length < 1 || length > 3)
            return false;
        rest = take_digits(digits, &fraction);
        for (; length < 3; length++)
            fraction *= 10;
    }
    if (rest == NULL || *rest != '\0')
        return false;
    *millicpus = (uint32_t)(whole * 1000 + fraction);
    return true;
}

static char *print_with(char *to, const struct unit *units, size_t count, uint64_t value) {
    for (size_t i = 0; i < count; i++) {
        if (units[i].factor == 1)
            break;
        if (value != 0 && value % units[i].factor == 0) {
            (void)snprintf(to, PIN_UNITS_TEXT, "%" PRIu64 "%s", value / units[i].factor, units[i].suffix);
            return to;
        }
    }
    (void)snprintf(to, PIN_UNITS_TEXT, "%" PRIu64, value);
    return to;
}

char *pin_print_size(char to[PIN_UNITS_TEXT], uint64_t bytes) {
    return print_with(to, sizes, PIN_COUNT(sizes), bytes);
}

char *pin_print_time(char to[PIN_UNITS_TEXT], uint64_t ns) {
    if (ns % PIN_NS_PER_MS != 0 || ns == 0) {
        (void)snprintf(to, PIN_UNITS_TEXT, "%" PRIu64 "ms", ns / PIN_NS_PER_MS);
        return to;
    }
    return print_with(to, times, PIN_COUNT(times), ns);
}

char *pin_print_cpus(char to[PIN_UNITS_TEXT], uint32_t millicpus) {
    if (millicpus % 1000 == 0)
        (void)snprintf(to, PIN_UNITS_TEXT, "%" PRIu32, millicpus / 1000);
    else
        (void)snprintf(to, PIN_UNITS_TEXT, "%" PRIu32 ".%03" PRIu32, millicpus / 1000, millicpus % 1000);
    return to;
}
