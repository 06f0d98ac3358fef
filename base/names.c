#include "base/names.h"

#include <stdint.h>
#include <string.h>

int pin_name_find(const char *const *table, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (table[i] != NULL && strcmp(table[i], name) == 0)
            return (int)i;
    return -1;
}

#define LONGEST 48

/* Optimal string alignment: an insertion, a deletion, a change or a swap of neighbours costs one. */
static unsigned edit_distance(const char *a, const char *b) {
    unsigned rows[3][LONGEST + 1];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];
    size_t height = strlen(a), width = strlen(b);
    if (height > LONGEST || width > LONGEST)
        return UINT8_MAX;
    for (size_t j = 0; j <= width; j++)
        above[j] = (unsigned)j;
    for (size_t i = 1; i <= height; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= width; j++) {
            unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            best = above[j] + 1 < best ? above[j] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        unsigned *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[width];
}

const char *pin_name_suggest(const char *const *table, size_t count, const char *name) {
    const char *nearest = NULL;
    unsigned limit = (unsigned)strlen(name) / 3 + 1;
    unsigned smallest = limit < 3 ? limit + 1 : 4;
    for (size_t i = 0; i < count; i++) {
        if (table[i] == NULL)
            continue;
        unsigned distance = edit_distance(table[i], name);
        if (distance < smallest) {
            smallest = distance;
            nearest = table[i];
        }
    }
    return nearest;
}
