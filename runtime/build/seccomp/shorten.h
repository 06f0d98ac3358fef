/* shorten.h: the same program with fewer instructions.
 *
 * The kernel converts and compiles every instruction anew for each process that loads a filter, and
 * libseccomp compares the number of a call with each one that it knows. What a number leads to changes at few
 * places: the new program finds the span in which a number lies, by halves, and then does with the arguments
 * what the old one did. Pure. Nothing is taken on trust: what comes out is verified as what went in.
 */
#pragma once

#include "runtime/build/seccomp/compile.h"

/* For a program that judges one architecture and kills all others. One that isn't understood, or wouldn't
 * become shorter, stays as it is. */
void pin_program_shorten(struct pin_program *program, uint32_t audit_arch);
