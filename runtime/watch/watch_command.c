#include "runtime/watch/watch_command.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define LINES_MAX 8192 /* at most a dozen hierarchies */

/* A whole component of a path. */
static uint32_t number_of(const char *digits) {
    char *end;
    if (!isdigit((unsigned char)*digits))
        return 0;
    unsigned long number = strtoul(digits, &end, 10);
    return (*end == '\n' || *end == '\0' || *end == '/') && number <= UINT32_MAX ? (uint32_t)number : 0;
}

uint32_t pin_watch_command_of(const char *text) {
    static const char mark[] = "/" PIN_WATCH_COMMAND;
    for (const char *at = text; (at = strstr(at, mark)) != NULL; at++) {
        uint32_t number = number_of(at + sizeof(mark) - 1);
        if (number != 0)
            return number;
    }
    return 0;
}

uint32_t pin_watch_command(pid_t pid) {
    char path[64], text[LINES_MAX];
    size_t size = 0;
    ssize_t got = 1;
    (void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    PIN_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC);
    while (file >= 0 && size < sizeof(text) - 1 && got > 0) {
        got = read(file, text + size, sizeof(text) - 1 - size);
        size += got > 0 ? (size_t)got : 0;
    }
    text[size] = '\0';
    return pin_watch_command_of(text);
}
