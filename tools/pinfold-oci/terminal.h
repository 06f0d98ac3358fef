/* terminal.h: the terminal of a process in the foreground. */
#pragma once

/* The master that the container's set-up sent on our end of the console socket; -1: none came. */
int pin_oci_take_master(int socket);
