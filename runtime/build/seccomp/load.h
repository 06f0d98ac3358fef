/* load.h: handing a program to the kernel. */
#pragma once

#include "runtime/build/seccomp/compile.h"

/* Puts the calling thread under the filter for good; it needs no_new_privs or CAP_SYS_ADMIN. One system call
 * and no allocation: it runs between clone and exec. A filter that asks for a listener is
 * pin_program_load_notify()'s. */
bool pin_program_load(const struct pin_program *program, struct pin_error *err);

/* The same for a program with PIN_FILTER_NOTIFY: returns the listener, close-on-exec; -1 on failure. */
int pin_program_load_notify(const struct pin_program *program, struct pin_error *err);
