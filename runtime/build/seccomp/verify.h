/* verify.h: that a compiled program says what the filter says.
 *
 * An oracle of our own, which knows nothing of libseccomp: numbers 0 to 639 and those around every greater
 * constant in the program, x32 numbers, foreign architectures, and for each call all of its arguments. Pure.
 */
#pragma once

#include "runtime/build/seccomp/compile.h"

enum pin_verify {
    PIN_VERIFY_PROOF, /* for programs from outside, such as the cache: what can't be proved is a no */
    PIN_VERIFY_PROBE, /* for programs that were made here: where there is no proof, many arguments are tried
                       */
};

/* False with the first number that is judged otherwise. */
bool pin_program_verify(const struct pin_program *program, const struct pin_filter *filter,
                        enum pin_verify how, struct pin_error *err);
