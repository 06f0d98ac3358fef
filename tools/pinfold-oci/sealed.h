/* sealed.h: no process of a container may ever write to the runtime's own file.
 *
 * A container can make the runtime execute "/proc/self/exe" inside it, or open /proc/PID/exe of a process of
 * ours that has just joined it, and write to the host's file once nobody executes it (CVE-2019-5736). So what
 * meets containers runs from a read-only mount of the file, which is nowhere else, and through which it can't
 * be opened for writing.
 */
#pragma once

/* Executes this program again from such a mount, unless it runs from a read-only one; returns where that
 * can't be had: without the privilege to mount, the file isn't ours to write either. */
void pin_seal_self(char **argv, char **envp);
