/* What musl lacks of glibc: the names of errors and signals, and the checked functions (_FORTIFY_SOURCE) that
 * the archives of the distribution's libraries call. Source: the Linux Standard Base, "libc fortify";
 * strerror(3). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pin_errno_names.h"

const char *strerrorname_np(int error) {
    size_t count = sizeof(pin_errno_names) / sizeof(pin_errno_names[0]);
    return error > 0 && (size_t)error < count ? pin_errno_names[error] : NULL;
}

const char *strerrordesc_np(int error) {
    return strerrorname_np(error) != NULL ? strerror(error) : NULL;
}

const char *sigabbrev_np(int signal) {
    static const char *const names[] = {
        NULL,   "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
        "SEGV", "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
        "TTOU", "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "POLL", "PWR",  "SYS",
    };
    return signal > 0 && (size_t)signal < sizeof(names) / sizeof(names[0]) ? names[signal] : NULL;
}

static void check(size_t size, size_t room) {
    if (size > room)
        abort();
}

ssize_t __read_chk(int fd, void *to, size_t size, size_t room);
ssize_t __read_chk(int fd, void *to, size_t size, size_t room) {
    check(size, room);
    return read(fd, to, size);
}

char *__strncpy_chk(char *to, const char *from, size_t size, size_t room);
char *__strncpy_chk(char *to, const char *from, size_t size, size_t room) {
    check(size, room);
    return strncpy(to, from, size);
}

void *__memmove_chk(void *to, const void *from, size_t size, size_t room);
void *__memmove_chk(void *to, const void *from, size_t size, size_t room) {
    check(size, room);
    return memmove(to, from, size);
}

int __vsnprintf_chk(char *to, size_t size, int flag, size_t room, const char *format, va_list args);
int __vsnprintf_chk(char *to, size_t size, int flag, size_t room, const char *format, va_list args) {
    (void)flag;
    check(size, room);
    return vsnprintf(to, size, format, args);
}

int __snprintf_chk(char *to, size_t size, int flag, size_t room, const char *format, ...);
int __snprintf_chk(char *to, size_t size, int flag, size_t room, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = __vsnprintf_chk(to, size, flag, room, format, args);
    va_end(args);
    return length;
}

int __sprintf_chk(char *to, int flag, size_t room, const char *format, ...);
int __sprintf_chk(char *to, int flag, size_t room, const char *format, ...) {
    va_list args;
    (void)flag;
    va_start(args, format);
    int length = vsnprintf(to, room, format, args);
    va_end(args);
    check((size_t)length + 1, room);
    return length;
}

int __asprintf_chk(char **text, int flag, const char *format, ...);
int __asprintf_chk(char **text, int flag, const char *format, ...) {
    va_list args;
    (void)flag;
    va_start(args, format);
    int length = vasprintf(text, format, args);
    va_end(args);
    return length;
}

int __fprintf_chk(FILE *to, int flag, const char *format, ...);
int __fprintf_chk(FILE *to, int flag, const char *format, ...) {
    va_list args;
    (void)flag;
    va_start(args, format);
    int length = vfprintf(to, format, args);
    va_end(args);
    return length;
}
