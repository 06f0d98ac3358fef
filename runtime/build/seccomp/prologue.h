/* prologue.h: the instructions in front of libseccomp's that answer ENOSYS to unknown numbers.
 *
 * A libseccomp filter has one default, so it can't tell a denied call from one that the kernel doesn't have;
 * programs that try a new call first would take EPERM for an answer. runc prepends the same kind of stub.
 */
#pragma once

#include <linux/filter.h>

#include <stddef.h>

#include "policy/filter.h"

#define PIN_PROLOGUE_MAX 64

/* Writes the instructions, none if the filter doesn't hide unknown numbers; returns how many. Falls through
 * to what comes after them. Numbers of x32 and foreign architectures go there too. */
size_t pin_prologue_write(const struct pin_filter *filter, enum pin_arch arch,
                          struct sock_filter code[PIN_PROLOGUE_MAX]);
