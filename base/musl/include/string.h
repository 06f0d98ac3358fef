/* string.h: musl's, with the names of errors and signals as glibc 2.32 declares them. */
#ifndef PIN_MUSL_STRING_H
#define PIN_MUSL_STRING_H

#include_next <string.h>

const char *strerrorname_np(int error);
const char *strerrordesc_np(int error);
const char *sigabbrev_np(int signal);

#endif
