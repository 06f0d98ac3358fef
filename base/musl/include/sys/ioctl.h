/* sys/ioctl.h: musl's, with the terminal commands that only the kernel's own header has. */
#ifndef PIN_MUSL_SYS_IOCTL_H
#define PIN_MUSL_SYS_IOCTL_H

#include_next <sys/ioctl.h>

#include <asm/ioctls.h>

#endif
