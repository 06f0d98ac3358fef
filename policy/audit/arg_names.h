/* arg_names.h: names for the arguments of system calls that people know by name: AF_INET, TIOCSTI,
 * CLONE_NEWUSER.
 *
 * Pure. Source: the kernel's and the C library's headers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The name of a value in that argument of a call, or NULL. */
const char *pin_arg_name(const char *call, unsigned index, uint64_t value);

/* A number ("16", "0x5412", "-100"), or names that are known for that argument joined by '|'. */
bool pin_arg_parse(const char *call, unsigned index, const char *text, uint64_t *value);

/* "EPERM" and the like; 0 or NULL if unknown. */
int pin_errno_find(const char *name);
const char *pin_errno_name(int error);

/* Address families by which a kernel is reached, for scores and explanations: NULL after the last. */
const char *pin_arg_family(size_t index, int *family);
