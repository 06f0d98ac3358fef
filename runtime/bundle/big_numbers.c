#include "runtime/bundle/big_numbers.h"

#include <string.h>

#define LONGEST 20 /* digits of UINT64_MAX */

struct scan {
    const char *at, *end;
    uint32_t line, column;
};

static void step(struct scan *scan) {
    if (*scan->at == '\n') {
        scan->line++;
        scan->column = 1;
    } else if (((unsigned char)*scan->at & 0xC0) != 0x80) {
        scan->column++;
    }
    scan->at++;
}

static void skip_string(struct scan *scan) {
    step(scan);
    while (scan->at < scan->end && *scan->at != '"') {
        if (*scan->at == '\\' && scan->end - scan->at > 1)
            step(scan);
        step(scan);
    }
    if (scan->at < scan->end)
        step(scan);
}

static bool is_number_byte(char byte) {
    return byte != '\0' && strchr("0123456789+-.eE", byte) != NULL;
}

/* Whole, without a sign or a leading zero, and in (INT64_MAX, UINT64_MAX]. */
static bool is_big(const char *digits, size_t length, uint64_t *value) {
    uint64_t sum = 0;
    if (length > LONGEST || length < LONGEST - 1 || digits[0] == '0')
        return false;
    for (size_t i = 0; i < length; i++)
        if (digits[i] < '0' || digits[i] > '9' || __builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(digits[i] - '0'), &sum))
            return false;
    *value = sum;
    return sum > INT64_MAX;
}

/* A number in front of a colon would be a key once it is a string. */
static bool is_value(const char *after, const char *end) {
    while (after < end && strchr(" \t\r\n", *after) != NULL)
        after++;
    return after == end || *after != ':';
}

size_t pin_big_numbers_take(char *text, size_t size, struct pin_big_number *bigs, size_t room) {
    struct scan scan = {text, text + size, 1, 1};
    size_t count = 0;
    while (scan.at < scan.end) {
        if (*scan.at == '"') {
            skip_string(&scan);
            continue;
        }
        if (!is_number_byte(*scan.at)) {
            step(&scan);
            continue;
        }
        const char *start = scan.at;
        struct pin_big_number big = {.line = scan.line, .column = scan.column};
        while (scan.at < scan.end && is_number_byte(*scan.at))
            step(&scan);
        size_t length = (size_t)(scan.at - start);
        if (count < room && is_big(start, length, &big.value) && is_value(scan.at, scan.end)) {
            text[start - text] = text[scan.at - text - 1] = '"';
            bigs[count++] = big;
        }
    }
    return count;
}

bool pin_big_numbers_find(const struct pin_big_number *bigs, size_t count, uint32_t line, uint32_t column,
                          uint64_t *value) {
    for (size_t i = 0; i < count; i++) {
        if (bigs[i].line == line && bigs[i].column == column) {
            *value = bigs[i].value;
            return true;
        }
    }
    return false;
}
