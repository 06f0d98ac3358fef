/* process.h: whether a process is the one that a number was written down for, and its namespaces.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Its state, a letter, and when it started, in clock ticks since boot: fields 3 and 22 of /proc/PID/stat, see
 * proc_pid_stat(5). A number that is used again has another start. False: there is no such process. */
bool pin_process_stat(pid_t pid, char *state, uint64_t *start_time);

/* A pidfd of the process that has this number and this start, and is neither dead nor a zombie; -1: there is
 * none. */
int pin_process_open(pid_t pid, uint64_t start_time);

/* Enters a namespace of that process ("mnt", CLONE_NEWNS), by way of its user namespace. 0 or the errno. */
int pin_process_enter(pid_t pid, const char *name, int kind);
