/* text.h: bytes from inside a sandbox, made fit for a terminal or a log line; the strict pattern of names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Writes `data` to `to` with control characters, C1, bidirectional marks, quotes' escapes and invalid UTF-8
 * as \n, \t, \xNN or \u{…}; cuts with "..." where room ends; always terminates. Returns `to`. */
char *pin_escape(char *to, size_t room, const void *data, size_t size);

/* The same, but that a backslash stays one: for a message whose parts have been escaped already. */
char *pin_show(char *to, size_t room, const char *text);

/* Names of sandboxes, policies, labels' keys: [a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}, and never with ".." in it. */
bool pin_is_name(const char *text);

/* What can stand before the '=' of an environment: any but controls, DEL and '='. A line break would forge a
 * variable wherever an environment is printed, one in a line. */
bool pin_is_variable(const char *text);

/* Glob match of a whole name: `*` is any run of characters (with '/' too), every other byte is itself. */
bool pin_glob_match(const char *pattern, const char *text);
