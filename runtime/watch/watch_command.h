/* watch_command.h: whose a process of a kept sandbox is.
 *
 * Each command of one has a cgroup of its own, named PIN_WATCH_COMMAND and its number, which nobody inside
 * can leave or make. Source: cgroups(7) "/proc/pid/cgroup".
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define PIN_WATCH_COMMAND "exec-"

/* The number of the command; 0: of none, or not to be told. */
uint32_t pin_watch_command(pid_t pid);

/* The same from the text of the file. */
uint32_t pin_watch_command_of(const char *text);
