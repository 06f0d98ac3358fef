/* names.h: tables of names for enumerations, and the size of an array.
 *
 * A table is `static const char *const names[] = {[VALUE] = "name", …}`; a hole in it is NULL and never
 * matches. Names are compared whole: a prefix is not a name.
 */
#pragma once

#include <stddef.h>

#define PIN_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The index of `name` in the table, or -1. */
int pin_name_find(const char *const *table, size_t count, const char *name);

/* The entry of the table that is nearest to `name` by edit distance, for "did you mean"; NULL if none is
 * near. */
const char *pin_name_suggest(const char *const *table, size_t count, const char *name);
